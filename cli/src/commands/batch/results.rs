//! Writes the results of a batch in the order in which lines end.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, IsTerminal as _, Write},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::{
    RunsIn, format_name,
    parquet_file::Parquet,
    render::{Counts, is_over},
    result_reader::{Line, Results},
    row::Row,
    watch::{self, POLL_INTERVAL},
};
use crate::{
    args::ResultFormat,
    client::{Client, is_outage, path},
    exit::{CliError, Exit},
    output::{Format, PrintableWriter, check_writable},
};

/// Names of stdout. A file opened by one of these names would overwrite what is printed on stdout.
const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// Maximum number of symbolic links followed in a row.
const MAX_LINKS: usize = 40;

/// Destination and file format of results.
pub(super) struct Destination {
    format: ResultFormat,
    target: Target,
    /// The value of `--out`.
    pub(super) out: Option<PathBuf>,
}

/// Target of results.
enum Target {
    Stdout,
    /// An existing pipe or device.
    Device(PathBuf),
    /// A file that is written as `part` and renamed to `whole` when it is complete.
    ///
    /// **Invariant:** a file named `whole` is complete.
    File {
        part: PathBuf,
        whole: PathBuf,
    },
}

impl Destination {
    /// Checks, before anything runs, that the target can be written and is not the input.
    pub(super) fn check(
        format: Option<ResultFormat>,
        out: Option<&Path>,
        input: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let format = format_of(format, out)?;
        let target = match out {
            None if format == ResultFormat::Parquet => {
                let message =
                    format!("{} is a binary format\nhint: name a file with --out FILE", format_name(format));
                return Err(CliError::with_exit(Exit::Usage, message));
            }
            None => Target::Stdout,
            Some(out) => Target::of(out, input)
                .map_err(|why| CliError::with_exit(Exit::Usage, format!("--out {} {why}", out.display())))?,
        };
        Ok(Self { format, target, out: out.map(Path::to_owned) })
    }

    /// Refuses `-o` if results are printed in another format than it names.
    pub(super) fn check_output(&self, output: Format) -> anyhow::Result<()> {
        match (&self.target, output, self.format) {
            (Target::Stdout, Format::Json, _)
            | (Target::Stdout, Format::Jsonl, ResultFormat::Csv | ResultFormat::Parquet) => {
                let message = "-o does not apply to results\nhint: leave out -o and use --format (jsonl is one JSON document a line)";
                Err(CliError::with_exit(Exit::Usage, message))
            }
            (_, Format::Text | Format::Json | Format::Jsonl, _) => Ok(()),
        }
    }
}

/// Returns the requested file format, or the one of the file's extension. Fails if both are given and differ.
fn format_of(requested: Option<ResultFormat>, out: Option<&Path>) -> anyhow::Result<ResultFormat> {
    if let Some(extension) = out.and_then(unwritten_extension) {
        let message = format!(
            "--out: no file is written as .{extension}\nhint: name it .jsonl, .csv or .parquet; \
             compress it afterwards"
        );
        return Err(CliError::with_exit(Exit::Usage, message));
    }
    let extension = out.and_then(Path::extension).map(|extension| extension.to_string_lossy().to_lowercase());
    let formats = [ResultFormat::Jsonl, ResultFormat::Csv, ResultFormat::Parquet];
    let named = formats.into_iter().find(|format| extension.as_deref() == Some(format_name(*format)));
    match (requested, named) {
        (Some(requested), Some(named)) if requested != named => {
            let message = format!(
                "--format {} contradicts the extension .{}\nhint: leave out --format, or choose another file name",
                format_name(requested),
                format_name(named)
            );
            Err(CliError::with_exit(Exit::Usage, message))
        }
        (requested, named) => Ok(requested.or(named).unwrap_or_default()),
    }
}

/// Extensions of tables and of compressed files, which a reader would trust.
const UNWRITTEN: [&str; 11] = ["gz", "zst", "zip", "bz2", "xz", "lz4", "br", "tsv", "xlsx", "xls", "ods"];

/// Returns the extension of a file name if it promises a form that is not written.
fn unwritten_extension(out: &Path) -> Option<&'static str> {
    let extension = out.extension()?.to_string_lossy().to_lowercase();
    UNWRITTEN.into_iter().find(|unwritten| extension == *unwritten)
}

impl Target {
    fn of(out: &Path, input: Option<&Path>) -> Result<Self, String> {
        if STDOUT.iter().any(|path| out == Path::new(path)) {
            return Ok(Target::Stdout);
        }
        match fs::metadata(out) {
            Ok(metadata) if metadata.is_dir() => return Err("is a folder; name a file".to_owned()),
            Ok(metadata) if !metadata.is_file() => return Ok(Target::Device(out.to_owned())),
            Ok(_) => {}
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(format!("cannot be written: {err}")),
        }
        let whole = resolve_links(out);
        let folder = whole.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(format!("cannot be written: the folder {} does not exist", folder.display()));
        }
        let part = part_of(&whole);
        let input = input.and_then(|input| fs::canonicalize(input).ok());
        if input.is_some() && [&whole, &part].iter().any(|path| fs::canonicalize(path).ok() == input) {
            return Err("is the input file; name another".to_owned());
        }
        if fs::symlink_metadata(&part).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(format!("cannot be written: {} exists and is not a file", part.display()));
        }
        check_writable(&part).map_err(|err| format!("cannot be written: {}: {err}", part.display()))?;
        Ok(Target::File { part, whole })
    }
}

/// Resolves symbolic links, also to a file that does not exist yet.
fn resolve_links(out: &Path) -> PathBuf {
    let mut file = out.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(to) = fs::read_link(&file) else { break };
        file = file.parent().unwrap_or(Path::new("")).join(to);
    }
    file
}

/// Writes results and returns their number. With `follow`, waits until the batch ends. A file receives the last result of
/// each line, stdout every result.
pub(super) async fn write(client: &Client, id: &str, follow: bool, to: &Destination) -> anyhow::Result<u64> {
    match to.out {
        Some(_) => write_last(client, id, follow, to).await,
        None => write_all(client, id, follow, to).await,
    }
}

/// Writes every result as it comes, also several of one line.
async fn write_all(client: &Client, id: &str, follow: bool, to: &Destination) -> anyhow::Result<u64> {
    let (batch, mut results) = (path(&["batches", id])?, Results::of(client, id)?);
    let (mut sink, mut written) = (Sink::open(to)?, 0);
    loop {
        // The status is read before the results, so that no result is missed in between.
        let over = match follow {
            true => match client.get(&batch).await {
                Ok(batch) => is_over(&batch),
                // The reader of results limits the duration of an outage.
                Err(err) if is_outage(&err) => false,
                Err(err) => return Err(err),
            },
            false => true,
        };
        while let Some(line) = results.next().await? {
            sink.push(&line)?;
            written += 1;
        }
        sink.flush()?;
        if over {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    sink.end()?;
    Ok(written)
}

/// Writes the last result of each line, with `follow` after the batch has ended.
///
/// **Invariant:** the results are those that existed at one moment, even if lines run again meanwhile.
async fn write_last(client: &Client, id: &str, follow: bool, to: &Destination) -> anyhow::Result<u64> {
    let mut batch: api_types::Batch = client.get(&path(&["batches", id])?).await?;
    if follow {
        batch = watch::follow(client, batch, RunsIn::Server).await?;
    }
    let count = batch.turnfold.results;
    // With as many results as ended lines, no line has two.
    let superseded = match Counts::of(&batch).ended() < count {
        true => superseded(client, id, count).await?,
        false => HashSet::new(),
    };
    let (mut sink, mut written) = (Sink::open(to)?, 0);
    let mut results = Results::of(client, id)?;
    while let Some(line) = results.next_of(count).await? {
        if !superseded.contains(&line.n) {
            sink.push(&line)?;
            written += 1;
        }
    }
    sink.end()?;
    Ok(written)
}

/// Returns the numbers of results, among the first `count`, whose lines have a later result among them.
async fn superseded(client: &Client, id: &str, count: u64) -> anyhow::Result<HashSet<u64>> {
    let (mut superseded, mut last) = (HashSet::new(), HashMap::new());
    let mut results = Results::of(client, id)?;
    while let Some(Line { n, result, .. }) = results.next_of(count).await? {
        // An invalid line may have no custom_id, but every line has an id.
        superseded.extend(last.insert(Sha256::digest(result.id), n));
    }
    Ok(superseded)
}

/// Open destination of results.
struct Sink {
    writer: Writer,
    /// The file that is being written, and its final name.
    renamed: Option<(PathBuf, PathBuf)>,
}

enum Writer {
    Jsonl(Box<dyn Write + Send>),
    Csv(Box<dyn Write + Send>),
    Parquet(Box<Parquet<Box<dyn Write + Send>>>),
}

impl Sink {
    fn open(Destination { format, target, .. }: &Destination) -> anyhow::Result<Self> {
        let file = |path: &Path, opened: io::Result<File>| {
            let message =
                |err| CliError::with_exit(Exit::Usage, format!("cannot write to {}: {err}", path.display()));
            Ok::<_, anyhow::Error>(Box::new(BufWriter::new(opened.map_err(message)?)))
        };
        let (mut to, renamed): (Box<dyn Write + Send>, _) = match target {
            // JSON keeps its value. CSV has no escapes, so a program receives it as it is.
            Target::Stdout if *format == ResultFormat::Jsonl || io::stdout().is_terminal() => {
                (Box::new(PrintableWriter(io::stdout())), None)
            }
            Target::Stdout => (Box::new(io::stdout()), None),
            Target::Device(path) => (file(path, OpenOptions::new().write(true).open(path))?, None),
            Target::File { part, whole } => {
                (file(part, File::create(part))?, Some((part.clone(), whole.clone())))
            }
        };
        let writer = match format {
            ResultFormat::Jsonl => Writer::Jsonl(to),
            ResultFormat::Csv => {
                ignore_closed_pipe(to.write_all(Row::csv_header().as_bytes()))?;
                Writer::Csv(to)
            }
            ResultFormat::Parquet => Writer::Parquet(Box::new(Parquet::begin(to)?)),
        };
        Ok(Self { writer, renamed })
    }

    fn push(&mut self, Line { text, result, .. }: &Line) -> anyhow::Result<()> {
        match &mut self.writer {
            Writer::Jsonl(to) => {
                ignore_closed_pipe(to.write_all(text.as_bytes()).and_then(|()| to.write_all(b"\n")))
            }
            Writer::Csv(to) => ignore_closed_pipe(to.write_all(Row::of(result).csv().as_bytes())),
            Writer::Parquet(to) => Ok(to.push(Row::of(result))?),
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        match &mut self.writer {
            Writer::Jsonl(to) | Writer::Csv(to) => ignore_closed_pipe(to.flush()),
            // Parquet is written in groups, and is readable only when it is complete.
            Writer::Parquet(_) => Ok(()),
        }
    }

    fn end(self) -> anyhow::Result<()> {
        let mut to = match self.writer {
            Writer::Jsonl(to) | Writer::Csv(to) => to,
            Writer::Parquet(to) => to.end()?,
        };
        ignore_closed_pipe(to.flush())?;
        drop(to);
        if let Some((part, whole)) = self.renamed {
            fs::rename(&part, &whole).with_context(|| format!("cannot write {}", whole.display()))?;
        }
        Ok(())
    }
}

/// Ends the process without an error if the reader of a pipe is gone (`| head`).
fn ignore_closed_pipe(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

/// Returns the name of the incomplete file, in the same folder, so that it can be renamed.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}
