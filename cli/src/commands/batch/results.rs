//! What came of the lines of a batch, written down in the order of their ends.

use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use reqwest::Method;
use serde_json::Value;

use super::{
    form_name,
    rows::{COLUMNS, Row},
    shown::is_over,
    table::Parquet,
};
use crate::{
    args::Form,
    client::Client,
    exit::{Exit, Stop},
};

/// How many lines are asked for at once.
const PAGE: usize = 1_000;

/// How often is looked for more.
const LOOK: Duration = Duration::from_millis(500);

/// Where results go, and in which form.
#[derive(Clone, Copy)]
pub(super) struct To<'a> {
    pub(super) format: Form,
    pub(super) out: Option<&'a Path>,
}

impl To<'_> {
    /// Refuses what cannot be written, before anything is run for it.
    pub(super) fn check(self) -> anyhow::Result<()> {
        match (self.format, self.out) {
            (Form::Parquet, None) => {
                let words =
                    format!("{} is no text: say where it goes with --out FILE", form_name(self.format));
                Err(Stop::because(Exit::Usage, words))
            }
            (_, Some(out)) if out.is_dir() => {
                Err(Stop::because(Exit::Usage, format!("--out {} is a folder: name a file", out.display())))
            }
            (Form::Jsonl | Form::Csv | Form::Parquet, Some(_)) | (Form::Jsonl | Form::Csv, None) => Ok(()),
        }
    }
}

/// Writes all results that there are, and with `follow` those that come; how many.
pub(super) async fn write(client: &Client, id: &str, follow: bool, to: To<'_>) -> anyhow::Result<u64> {
    let mut sink = Sink::open(to)?;
    let (mut after, mut written) = (None, 0);
    loop {
        // First whether it is over, then the results: what comes between is read.
        let over = !follow || is_over(&client.get(&format!("/v1/batches/{id}")).await?);
        let cursor = after.map(|it: u64| format!("&after={it}")).unwrap_or_default();
        let page = client.request(Method::GET, &format!("/v1/batches/{id}/results?limit={PAGE}{cursor}"));
        let page = client.send(page).await?.text().await?;
        let mut lines = 0;
        for line in page.lines().filter(|it| !it.trim().is_empty()) {
            let value: Value = serde_json::from_str(line).context("the api sent a result that is no JSON")?;
            let n = value["n"].as_u64().context("the api sent a result without its number")?;
            sink.push(line, &value)?;
            (after, lines) = (Some(n), lines + 1);
        }
        written += lines;
        sink.flush()?;
        match (lines, over) {
            (0, true) => break,
            (0, false) => tokio::time::sleep(LOOK).await,
            (_, _) => {}
        }
    }
    sink.end()?;
    Ok(written)
}

/// What results are written to.
struct Sink {
    form: Open,
    /// The file that is being written, and what it is called once it is whole.
    ///
    /// **Invariant:** who finds a file under that name finds all of it.
    place: Option<(PathBuf, PathBuf)>,
}

enum Open {
    Jsonl(Box<dyn Write + Send>),
    Csv(Box<dyn Write + Send>),
    Parquet(Box<Parquet<Box<dyn Write + Send>>>),
}

impl Sink {
    fn open(To { format, out }: To<'_>) -> anyhow::Result<Self> {
        let place = out.map(|it| (part_of(it), it.to_owned()));
        let mut to: Box<dyn Write + Send> = match &place {
            Some((part, _)) => {
                let file = File::create(part);
                let file = file.map_err(|err| {
                    Stop::because(Exit::Usage, format!("cannot write to {}: {err}", part.display()))
                })?;
                Box::new(BufWriter::new(file))
            }
            None => Box::new(io::stdout()),
        };
        let form = match format {
            Form::Jsonl => Open::Jsonl(to),
            Form::Csv => {
                piped(to.write_all((COLUMNS.join(",") + "\r\n").as_bytes()))?;
                Open::Csv(to)
            }
            Form::Parquet => Open::Parquet(Box::new(Parquet::begin(to)?)),
        };
        Ok(Self { form, place })
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
        if let Some((part, whole)) = self.place {
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
