//! Checks a batch file before it is sent: by the rules of the configured API in this process, or by asking the API at `--url`.

use std::path::Path;

use api::BatchFileCheck;
use api_types::BatchValidation;
use futures::{TryStreamExt as _, stream};
use reqwest::{Body, Method, header::CONTENT_TYPE};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use store::Store;
use tokio::{fs::File, io::AsyncReadExt as _};

use crate::{
    client::refusal,
    commands::Context,
    engine,
    exit::{CliError, Exit},
    output::{self, counted},
};

/// Statuses of an API without the route.
const NO_ROUTE: [u16; 2] = [404, 405];

/// Number of bytes of a file read at a time.
const CHUNK: usize = 256 * 1024;

/// Rules of a check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RulesOf {
    /// The API at `--url`, or the configuration without one.
    Target,
    /// The configuration, for an engine in this process.
    Configuration,
}

/// Result of checking a file.
#[derive(Debug, Default, Serialize)]
pub(super) struct Checked {
    /// SHA-256 of the file, in hex.
    pub(super) sha256: String,
    #[serde(flatten)]
    pub(super) found: BatchValidation,
}

/// Checks every line of a file.
pub(super) async fn check(file: &Path, ctx: &Context, rules: RulesOf) -> anyhow::Result<Checked> {
    if ctx.uses_own_api() || rules == RulesOf::Configuration {
        let store = Store::connect("sqlite::memory:").await?;
        let config = engine::embedded_config(&ctx.settings, &ctx.origins, store, ctx.strategies.clone())?;
        return read(file, BatchFileCheck::of_config(config, ctx.tenant.as_deref())).await;
    }
    let line_max = usize::try_from(ctx.settings.batch.line_kib)?.saturating_mul(1024);
    let checked = read(file, BatchFileCheck::of_format(line_max)).await?;
    if !checked.can_run() {
        return Ok(checked);
    }
    let client = ctx.client()?;
    let request = client.request(Method::POST, "/v1/batches/validate");
    let request = request.header(CONTENT_TYPE, "application/jsonl");
    match client.fetch(request.body(Body::wrap_stream(chunks(open(file).await?)))).await {
        Ok(found) => Ok(Checked { found, ..checked }),
        // Another version of the API, which finds the other invalid lines when the batch is created.
        Err(err) if refusal(&err).is_some_and(|status| NO_ROUTE.contains(&status)) => Ok(checked),
        Err(err) => Err(err),
    }
}

async fn read(path: &Path, mut check: BatchFileCheck) -> anyhow::Result<Checked> {
    let (file, mut hash) = (open(path).await?, Sha256::new());
    let mut chunks = std::pin::pin!(chunks(file));
    while let Some(chunk) = chunks.try_next().await.map_err(|err| unreadable(path, &err))? {
        hash.update(&chunk);
        check.push(&chunk);
    }
    Ok(Checked { sha256: hex::encode(hash.finalize()), found: check.finish() })
}

pub(super) async fn open(path: &Path) -> anyhow::Result<File> {
    File::open(path).await.map_err(|err| unreadable(path, &err))
}

fn unreadable(path: &Path, err: &std::io::Error) -> anyhow::Error {
    CliError::with_exit(Exit::Usage, format!("cannot read {}: {err}", path.display()))
}

/// Reads a file in chunks.
pub(super) fn chunks(file: File) -> impl stream::Stream<Item = std::io::Result<Vec<u8>>> + Send {
    stream::try_unfold(file, async |mut file| {
        let mut chunk = vec![0; CHUNK];
        let length = file.read(&mut chunk).await?;
        chunk.truncate(length);
        Ok((0 < length).then_some((chunk, file)))
    })
}

impl Checked {
    /// Returns true if the file has lines and all of them can be run.
    pub(super) fn is_valid(&self) -> bool {
        self.found.invalid == 0 && self.can_run()
    }

    /// Returns true if a line can be run.
    pub(super) fn can_run(&self) -> bool {
        self.found.invalid < self.found.lines
    }

    /// Renders the result, with one line for each invalid line.
    pub(super) fn to_text(&self, file: &Path) -> String {
        let BatchValidation { lines, invalid, endpoint, errors, object: _ } = &self.found;
        let name = file.display();
        if *lines == 0 {
            return format!("{name}: the file has no lines");
        }
        if self.is_valid() {
            let url = endpoint.as_deref().unwrap_or_default();
            return format!("{name}: {} for {url}, no errors", counted(*lines, "line"));
        }
        let of_line = |error: &api_types::InvalidLine| {
            let line = error.line.map(|line| format!(":{line}")).unwrap_or_default();
            format!("{name}{line}: {}\n", error.message)
        };
        let more = output::and_more(*invalid, errors.len());
        let more = if more.is_empty() { more } else { format!("{}\n", more.trim_start()) };
        let errors = errors.iter().map(of_line).collect::<String>();
        format!("{errors}{more}{invalid} of {} cannot be run", counted(*lines, "line"))
    }
}
