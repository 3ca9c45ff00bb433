//! What a command prints: data on stdout and nowhere else, words first, JSON for machines.

use std::{
    fs::{self, OpenOptions},
    io::{self, IsTerminal as _, Write as _},
    path::Path,
    time::Duration,
};

use comfy_table::{Table, presets};
use serde::Serialize;
use serde_json::Value;

/// In which form data is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Words and tables, for people.
    #[default]
    Text,
    /// One JSON document, once all of it is there.
    Json,
    /// One JSON document a line, as they come.
    Jsonl,
}

/// Prints one thing.
pub(crate) fn one<T: Serialize>(
    format: Format,
    thing: &T,
    words: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&words()),
        Format::Json => print(&serde_json::to_string_pretty(thing)?),
        Format::Jsonl => print(&serde_json::to_string(thing)?),
    }
}

/// Prints many things.
pub(crate) fn many<T: Serialize>(
    format: Format,
    things: &[T],
    words: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    match format {
        Format::Text => print(&words()),
        Format::Json => print(&serde_json::to_string_pretty(things)?),
        Format::Jsonl => things.iter().try_for_each(|it| print(&serde_json::to_string(it)?)),
    }
}

/// Whether a file can be made here, or the one that is here be written; nothing is left behind.
pub(crate) fn try_out(file: &Path) -> io::Result<()> {
    match fs::metadata(file) {
        Ok(it) if it.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(it) if it.is_file() => OpenOptions::new().append(true).open(file).map(drop),
        // To open a pipe is to wait for who reads it.
        Ok(_) => Ok(()),
        Err(_) if file.is_symlink() => Ok(()),
        Err(_) => {
            OpenOptions::new().write(true).create_new(true).open(file)?;
            fs::remove_file(file)
        }
    }
}

/// Prints text as it stands. A reader that has gone away (`| head`) is no fault.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out
        .write_all(text.trim_end_matches('\n').as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
    {
        Err(err) if err.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

/// Tells something that is no data, on stderr.
#[expect(clippy::print_stderr, reason = "this is where remarks are told")]
pub(crate) fn remark(text: &str) {
    eprintln!("{text}");
}

/// What the world took, on one line, with what nobody told of it.
pub(crate) fn took(took: &Value) -> String {
    let count = |name: &str| took[name].as_u64().unwrap_or_default();
    let tokens = count("input_tokens") + count("output_tokens");
    let usd = took["usd"].as_f64().unwrap_or_default();
    let seconds = Duration::from_millis(count("ms")).as_secs_f64();
    let lacks = |name: &str, what: &str| {
        let n = count(name);
        (0 < n).then(|| format!("{what} of {}", counted(n, "answer")))
    };
    let missing: Vec<String> =
        [lacks("untold", "the tokens"), lacks("unpriced", "the price")].into_iter().flatten().collect();
    let missing = if missing.is_empty() {
        String::new()
    } else {
        format!(", without {} that nobody told", missing.join(" and "))
    };
    format!("{tokens} tokens, ${usd:.4}, {seconds:.1} s{missing}")
}

/// Whether a person watches.
pub(crate) fn watched() -> bool {
    std::io::stderr().is_terminal()
}

/// A table without frills.
pub(crate) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head.iter().map(|it| it.to_uppercase()));
    for row in rows {
        table.add_row(row);
    }
    table.trim_fmt()
}

/// So many of something.
pub(crate) fn counted(n: impl TryInto<u64>, what: &str) -> String {
    let n = n.try_into().unwrap_or(u64::MAX);
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
