//! Output of commands: data on stdout, as text for people or JSON for programs; everything else on stderr.

mod table;
mod times;

use std::{
    env,
    fs::{self, OpenOptions},
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    time::Duration,
};

use anyhow::Context as _;
use serde::Serialize;
use shared::{one_line, printable};

pub(crate) use self::{
    table::table,
    times::{seconds, when, when_at},
};

use crate::exit::{CliError, Exit};

/// Output format of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Text and tables, for people
    #[default]
    Text,
    /// One JSON document, printed when it is complete
    Json,
    /// One JSON document a line, printed as they come
    Jsonl,
}

/// Prints one item.
pub(crate) fn one<T: Serialize>(
    format: Format,
    item: &T,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&text()),
        Format::Json => print(&serde_json::to_string_pretty(item)?),
        Format::Jsonl => print(&one_line(serde_json::to_string(item)?)),
    }
}

/// Prints a list: one JSON array, or one line for each item.
pub(crate) fn many<T: Serialize>(
    format: Format,
    items: &[T],
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&text()),
        Format::Json => print(&serde_json::to_string_pretty(items)?),
        Format::Jsonl => items.iter().try_for_each(|item| print(&one_line(serde_json::to_string(item)?))),
    }
}

/// Fails if a file that a flag names cannot be written, before the work whose report it gets.
pub(crate) fn check_named(flag: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let message = |error| format!("{flag} {} cannot be written: {error}", file.display());
    check_writable(file).map_err(|error| CliError::with_exit(Exit::Usage, message(error)))
}

/// Writes a report to the file that a flag names, if it names one.
pub(crate) fn write_named<E: Into<anyhow::Error>>(
    file: Option<&Path>,
    report: impl FnOnce() -> Result<String, E>,
) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let report = report().map_err(Into::into)?;
    fs::write(file, report).with_context(|| format!("cannot write {}", file.display()))
}

/// Checks that a file can be created or written; leaves nothing behind.
pub(crate) fn check_writable(file: &Path) -> io::Result<()> {
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(metadata) if metadata.is_file() => OpenOptions::new().append(true).open(file).map(drop),
        // Opening a pipe would wait for its reader.
        Ok(_) => Ok(()),
        Err(_) if file.is_symlink() => Ok(()),
        Err(_) => {
            OpenOptions::new().write(true).create_new(true).open(file)?;
            fs::remove_file(file)
        }
    }
}

/// Prints text and a newline on stdout.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    piece(&format!("{}\n", text.trim_end_matches('\n')))
}

/// Prints a piece of a line on stdout. A closed pipe (`| head`) ends the process without an error.
///
/// **Invariant:** everything that commands print is [`printable`]: text of tenants, models and servers never reaches the
/// terminal as it came. JSON keeps its value.
pub(crate) fn piece(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(printable(text).as_bytes()).and_then(|()| out.flush()) {
        Err(err) if err.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

/// Prints a message that is not data, on stderr.
#[expect(clippy::print_stderr, reason = "messages beside the data go to stderr")]
pub(crate) fn note(text: &str) {
    eprintln!("{}", printable(text));
}

/// Writes text as [`printable`]. Each call of `write` must carry whole characters.
pub(crate) struct PrintableWriter<W>(pub(crate) W);

impl<W: io::Write> io::Write for PrintableWriter<W> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.write_all(printable(&String::from_utf8_lossy(text)).as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns the name of an enum value as it is in JSON.
pub(crate) fn json_name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

/// Renders usage on one line, with the number of responses that are not included.
pub(crate) fn usage(usage: &api_types::Usage) -> String {
    let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
    let seconds = Duration::from_millis(usage.ms).as_secs_f64();
    let lacking = |n: u32, what: &str| (0 < n).then(|| format!("the {what} of {}", counted(n, "response")));
    let lacking: Vec<String> =
        [lacking(usage.responses_without_usage, "tokens"), lacking(usage.responses_without_price, "cost")]
            .into_iter()
            .flatten()
            .collect();
    let lacking = match lacking.is_empty() {
        true => String::new(),
        false => format!(", without {}, which is unknown", lacking.join(" and ")),
    };
    format!("{tokens} tokens, ${:.4}, {seconds:.1} s{lacking}", usage.usd)
}

/// Returns true if stderr is a terminal.
pub(crate) fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// Returns true if log lines on stderr are colored: on a terminal, unless `NO_COLOR` is set to anything.
pub(crate) fn stderr_has_color() -> bool {
    stderr_is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Renders a number with its noun: `1 line`, `2 lines`.
pub(crate) fn counted(n: impl TryInto<u64>, noun: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// The last line of a list that is cut: `and 6 more`; empty if everything is listed.
pub(crate) fn and_more(all: impl TryInto<u64>, listed: usize) -> String {
    match all.try_into().unwrap_or(u64::MAX).saturating_sub(listed as u64) {
        0 => String::new(),
        more => format!("\n  and {more} more"),
    }
}

/// Returns a word as a shell reads it back.
pub(crate) fn quoted_for_shell(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,@+".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[test]
fn a_word_is_quoted_if_a_shell_would_change_it() {
    assert_eq!(quoted_for_shell("./judge-1.py"), "./judge-1.py");
    assert_eq!(quoted_for_shell("my rubric.md"), "'my rubric.md'");
    assert_eq!(quoted_for_shell("mcp.x.args=['a b']"), "'mcp.x.args=['\\''a b'\\'']'");
    assert_eq!(quoted_for_shell(""), "''");
}
