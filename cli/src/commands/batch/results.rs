//! What came of the lines of a batch, written down in the order of their ends.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use reqwest::Method;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    form_name,
    rows::{COLUMNS, Row},
    shown::{Counts, is_over},
    table::Parquet,
};
use crate::{
    args::Form,
    client::{Client, path},
    commands::turn::name,
    exit::{Exit, Stop},
    output::try_out,
};

/// How many lines are asked for at once.
const PAGE: usize = 1_000;

/// How often is looked for more.
const LOOK: Duration = Duration::from_millis(500);

/// The names of stdout. What is opened anew by one of them would be written over by what stdout is told.
const STDOUT: [&str; 3] = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"];

/// How many symlinks in a row are followed.
const LINKS: usize = 40;

/// Where results go, and in which form.
pub(super) struct To {
    format: Form,
    place: Place,
    /// As it was named.
    pub(super) out: Option<PathBuf>,
}

/// What results are written to.
enum Place {
    Stdout,
    /// What is there and is no file, such as a pipe or a device.
    Straight(PathBuf),
    /// A file that is written under the one name, and called by the other once it is whole.
    ///
    /// **Invariant:** who finds a file under the second name finds all of it.
    File {
        part: PathBuf,
        whole: PathBuf,
    },
}

impl To {
    /// Refuses what cannot be written, or would be written over what is read, before anything is run for it.
    pub(super) fn checked(format: Form, out: Option<&Path>, input: Option<&Path>) -> anyhow::Result<Self> {
        let place = match out {
            None if format == Form::Parquet => {
                let words = format!("{} is no text: say where it goes with --out FILE", form_name(format));
                return Err(Stop::because(Exit::Usage, words));
            }
            None => Place::Stdout,
            Some(out) => Place::of(out, input)
                .map_err(|why| Stop::because(Exit::Usage, format!("--out {} {why}", out.display())))?,
        };
        Ok(Self { format, place, out: out.map(Path::to_owned) })
    }
}

impl Place {
    fn of(out: &Path, input: Option<&Path>) -> Result<Self, String> {
        if STDOUT.iter().any(|it| out == Path::new(it)) {
            return Ok(Place::Stdout);
        }
        match fs::metadata(out) {
            Ok(it) if it.is_dir() => return Err("is a folder: name a file".to_owned()),
            Ok(it) if !it.is_file() => return Ok(Place::Straight(out.to_owned())),
            Ok(_) => {}
            Err(err) if err.kind() == io::ErrorKind::NotFound => {}
            Err(err) => return Err(format!("cannot be written: {err}")),
        }
        let whole = target(out);
        let folder = whole.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !folder.is_dir() {
            return Err(format!("cannot be written: there is no folder {}", folder.display()));
        }
        let part = part_of(&whole);
        let input = input.and_then(|it| fs::canonicalize(it).ok());
        if input.is_some() && [&whole, &part].iter().any(|it| fs::canonicalize(it).ok() == input) {
            return Err("would be written over the file that is run: name another".to_owned());
        }
        if fs::symlink_metadata(&part).is_ok_and(|it| !it.is_file()) {
            return Err(format!("cannot be written: {} is in its way", part.display()));
        }
        try_out(&part).map_err(|err| format!("cannot be written: {}: {err}", part.display()))?;
        Ok(Place::File { part, whole })
    }
}

/// The file that is meant by a name which may be a symlink, also if there is none yet.
fn target(out: &Path) -> PathBuf {
    let mut file = out.to_owned();
    for _ in 0..LINKS {
        let Ok(to) = fs::read_link(&file) else { break };
        file = file.parent().unwrap_or(Path::new("")).join(to);
    }
    file
}

/// Writes all results that there are, and with `follow` those that come; how many. Into a file goes of each line of a
/// batch that is over the last one.
pub(super) async fn write(client: &Client, id: &str, follow: bool, to: &To) -> anyhow::Result<u64> {
    let (batch, results) = (path(&["batches", id])?, path(&["batches", id, "results"])?);
    let stale = match &to.out {
        Some(_) => stale(client, &client.get(&batch).await?, &results).await?,
        None => HashSet::new(),
    };
    let mut sink = Sink::open(to)?;
    let (mut after, mut written) = (None, 0);
    loop {
        // First whether it is over, then the results: what comes between is read.
        let over = !follow || is_over(&client.get(&batch).await?);
        let page = page(client, &results, after).await?;
        for Line { n, text, value } in &page {
            if !stale.contains(n) {
                sink.push(text, value)?;
                written += 1;
            }
        }
        sink.flush()?;
        match (page.last(), over) {
            (Some(last), _) => after = Some(last.n),
            (None, true) => break,
            (None, false) => tokio::time::sleep(LOOK).await,
        }
    }
    sink.end()?;
    Ok(written)
}

/// The numbers of those results of a batch that is over whose lines were run again and have later ones.
async fn stale(client: &Client, batch: &Value, results: &str) -> anyhow::Result<HashSet<u64>> {
    let mut stale = HashSet::new();
    let count = batch["turnfold"]["results"].as_u64().unwrap_or_default();
    // Where there are no more of them than lines that have ended, nobody reads them twice.
    if !is_over(batch) || count <= Counts::of(batch).ended() {
        return Ok(stale);
    }
    let (mut last, mut after) = (HashMap::new(), None);
    loop {
        let page = page(client, results, after).await?;
        for Line { n, value, .. } in &page {
            // A line that is at fault may have no custom_id; its id it has in any case.
            let line = Sha256::digest(name(value, "id"));
            stale.extend(last.insert(line, *n));
        }
        match page.last() {
            Some(last) => after = Some(last.n),
            None => return Ok(stale),
        }
    }
}

/// A result.
struct Line {
    n: u64,
    text: String,
    value: Value,
}

/// The next results after this one.
async fn page(client: &Client, results: &str, after: Option<u64>) -> anyhow::Result<Vec<Line>> {
    let cursor = after.map(|it| format!("&after={it}")).unwrap_or_default();
    let page = client.request(Method::GET, &format!("{results}?limit={PAGE}{cursor}"));
    let page = client.send(page).await?.text().await?;
    let line = |text: &str| {
        let value: Value = serde_json::from_str(text).context("the api sent a result that is no JSON")?;
        let n = value["n"].as_u64().context("the api sent a result without its number")?;
        Ok(Line { n, text: text.to_owned(), value })
    };
    page.lines().filter(|it| !it.trim().is_empty()).map(line).collect()
}

/// What results are written to.
struct Sink {
    form: Open,
    /// The file that is being written, and what it is called once it is whole.
    renamed: Option<(PathBuf, PathBuf)>,
}

enum Open {
    Jsonl(Box<dyn Write + Send>),
    Csv(Box<dyn Write + Send>),
    Parquet(Box<Parquet<Box<dyn Write + Send>>>),
}

impl Sink {
    fn open(To { format, place, .. }: &To) -> anyhow::Result<Self> {
        let file = |path: &Path, opened: io::Result<File>| {
            let refused =
                |err| Stop::because(Exit::Usage, format!("cannot write to {}: {err}", path.display()));
            Ok::<_, anyhow::Error>(Box::new(BufWriter::new(opened.map_err(refused)?)))
        };
        let (mut to, renamed): (Box<dyn Write + Send>, _) = match place {
            Place::Stdout => (Box::new(io::stdout()), None),
            Place::Straight(path) => (file(path, OpenOptions::new().write(true).open(path))?, None),
            Place::File { part, whole } => {
                (file(part, File::create(part))?, Some((part.clone(), whole.clone())))
            }
        };
        let form = match format {
            Form::Jsonl => Open::Jsonl(to),
            Form::Csv => {
                piped(to.write_all((COLUMNS.join(",") + "\r\n").as_bytes()))?;
                Open::Csv(to)
            }
            Form::Parquet => Open::Parquet(Box::new(Parquet::begin(to)?)),
        };
        Ok(Self { form, renamed })
    }

    fn push(&mut self, line: &str, value: &Value) -> anyhow::Result<()> {
        match &mut self.form {
            Open::Jsonl(to) => piped(to.write_all(line.as_bytes()).and_then(|()| to.write_all(b"\n"))),
            Open::Csv(to) => piped(to.write_all(Row::of(value).csv().as_bytes())),
            Open::Parquet(to) => Ok(to.push(Row::of(value))?),
        }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        match &mut self.form {
            Open::Jsonl(to) | Open::Csv(to) => piped(to.flush()),
            // It is written in groups, and has no meaning before its end.
            Open::Parquet(_) => Ok(()),
        }
    }

    fn end(self) -> anyhow::Result<()> {
        let mut to = match self.form {
            Open::Jsonl(to) | Open::Csv(to) => to,
            Open::Parquet(to) => to.end()?,
        };
        piped(to.flush())?;
        drop(to);
        if let Some((part, whole)) = self.renamed {
            fs::rename(&part, &whole).with_context(|| format!("cannot write {}", whole.display()))?;
        }
        Ok(())
    }
}

/// A reader that has gone away (`| head`) is no fault.
fn piped(written: io::Result<()>) -> anyhow::Result<()> {
    match written {
        Err(err) if err.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}

/// Beside the file, so that it can be renamed.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}
