//! What came of the lines of a batch, written down in the order of their ends.

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

use super::{
    Left, form_name,
    read::{Line, Results},
    rows::{COLUMNS, Row},
    shown::{Counts, is_over},
    table::Parquet,
    watch::{self, LOOK},
};
use crate::{
    args::Form,
    client::{Client, is_away, name, path},
    exit::{Exit, Stop},
    output::{Format, try_out},
};

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
    pub(super) fn checked(
        format: Option<Form>,
        out: Option<&Path>,
        input: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let format = form(format, out)?;
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

    /// Refuses another form of what is printed than that of the results: they are all that is printed.
    pub(super) fn suits(&self, output: Format) -> anyhow::Result<()> {
        match (&self.place, output, self.format) {
            (Place::Stdout, Format::Json, _) | (Place::Stdout, Format::Jsonl, Form::Csv | Form::Parquet) => {
                let words = "results are printed in the form that --format names, and -o has no say in it: leave -o out \
                    (--format jsonl is a document of JSON a line)";
                Err(Stop::because(Exit::Usage, words))
            }
            (_, Format::Text | Format::Json | Format::Jsonl, _) => Ok(()),
        }
    }
}

/// The form that is wished for, or that the file's name ends with. One name for another form would be read wrongly.
fn form(wished: Option<Form>, out: Option<&Path>) -> anyhow::Result<Form> {
    let ending = out.and_then(Path::extension).map(|it| it.to_string_lossy().to_lowercase());
    let named = [Form::Jsonl, Form::Csv, Form::Parquet];
    let named = named.into_iter().find(|it| ending.as_deref() == Some(form_name(*it)));
    match (wished, named) {
        (Some(wished), Some(named)) if wished != named => {
            let words = format!(
                "--format {} and a file that ends with .{}: leave --format out, or call the file otherwise",
                form_name(wished),
                form_name(named)
            );
            Err(Stop::because(Exit::Usage, words))
        }
        (wished, named) => Ok(wished.or(named).unwrap_or_default()),
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

/// Writes results, and with `follow` those that come; how many. Whatever was named to be written to gets the last result
/// of each line, stdout every one.
pub(super) async fn write(client: &Client, id: &str, follow: bool, to: &To) -> anyhow::Result<u64> {
    match to.out {
        Some(_) => last_of_each(client, id, follow, to).await,
        None => as_they_come(client, id, follow, to).await,
    }
}

/// Every result, also of lines that are run again later.
async fn as_they_come(client: &Client, id: &str, follow: bool, to: &To) -> anyhow::Result<u64> {
    let (batch, mut results) = (path(&["batches", id])?, Results::of(client, id)?);
    let (mut sink, mut written) = (Sink::open(to)?, 0);
    loop {
        // First whether it is over, then the results: what comes between is read.
        let over = match follow {
            true => match client.get(&batch).await {
                Ok(it) => is_over(&it),
                // How long it may be away, the results know.
                Err(err) if is_away(&err) => false,
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
        tokio::time::sleep(LOOK).await;
    }
    sink.end()?;
    Ok(written)
}

/// Of each line its last result, with `follow` once the batch is over.
///
/// **Invariant:** what is written is what there was of the batch at one moment: lines that are run again later are in it
/// as they were.
async fn last_of_each(client: &Client, id: &str, follow: bool, to: &To) -> anyhow::Result<u64> {
    let mut batch = client.get(&path(&["batches", id])?).await?;
    if follow {
        batch = watch::follow(client, batch, Left::Elsewhere).await?;
    }
    let there = batch["turnfold"]["results"].as_u64().unwrap_or_default();
    // Where there are no more of them than lines that have ended, nobody reads them twice.
    let earlier = match Counts::of(&batch).ended() < there {
        true => earlier(client, id, there).await?,
        false => HashSet::new(),
    };
    let (mut sink, mut written) = (Sink::open(to)?, 0);
    let mut results = Results::of(client, id)?;
    while let Some(line) = results.next_of(there).await? {
        if !earlier.contains(&line.n) {
            sink.push(&line)?;
            written += 1;
        }
    }
    sink.end()?;
    Ok(written)
}

/// The numbers of those of the first `there` results whose lines have later ones among them.
async fn earlier(client: &Client, id: &str, there: u64) -> anyhow::Result<HashSet<u64>> {
    let (mut earlier, mut last) = (HashSet::new(), HashMap::new());
    let mut results = Results::of(client, id)?;
    while let Some(Line { n, value, .. }) = results.next_of(there).await? {
        // A line that is at fault may have no custom_id; its id it has in any case.
        earlier.extend(last.insert(Sha256::digest(name(&value, "id")), n));
    }
    Ok(earlier)
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

    fn push(&mut self, Line { text, value, .. }: &Line) -> anyhow::Result<()> {
        match &mut self.form {
            Open::Jsonl(to) => piped(to.write_all(text.as_bytes()).and_then(|()| to.write_all(b"\n"))),
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
