//! `turnfold batch`: runs files of turns, through the API.
//!
//! Everything here is a client of `/v1/files` and `/v1/batches`, which follow OpenAI's API with extensions. `--local` runs an
//! API and a worker in this process and talks to them in the same way.

mod lines;
mod local;
mod parquet_file;
mod previous;
mod render;
mod result_reader;
mod results;
mod row;
mod submit;
mod watch;

use std::{path::Path, time::Duration};

use api_types::{IdKind, OpenAiList, ResumeBatch};
use reqwest::Method;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::row::COLUMNS_HELP;
pub(super) use self::submit::scheduled;
use self::{lines::RulesOf, local::LocalEngine, submit::Submission, watch::WatchOutcome};
use super::{Context, selection::order_query, signals::Signals};
use crate::{
    args::{Batch, BatchOrder, Only, Plan, ResultFormat},
    client::{Client, path, refusal, with_reason},
    exit::Exit,
    ids,
    output::{self, counted, note},
};

/// Time after a signal at which the process exits even if a write is blocked.
const BLOCKED_WRITE_MAX: Duration = Duration::from_secs(1);

pub(crate) async fn run(ctx: Context, command: Batch) -> anyhow::Result<Exit> {
    match command {
        Batch::Validate { file } => validate(&ctx, &file).await,
        Batch::Submit { file, plan, confirmation, wait } => {
            submit::check_confirmable(&confirmation)?;
            let submission = Submission::of(&file, &ctx, &plan).await?;
            with(&ctx, &plan, &submission.name(), async |client| {
                let submitted = submission.submit(client, &confirmation).await?;
                if !wait && !plan.local {
                    return show(&ctx, &submitted.batch);
                }
                let watched = wait_until_over(client, submitted, &plan, &mut Signals::new()?).await?;
                let done = end(&ctx, watched)?;
                if plan.local {
                    note("write the results with the same command, `run` instead of `submit`, and --out FILE; no line runs again");
                }
                Ok(done)
            })
            .await
        }
        Batch::Run { file, plan, confirmation, out, format } => {
            let to = results::Destination::check(format, Some(&out), Some(&file))?;
            submit::check_confirmable(&confirmation)?;
            let submission = Submission::of(&file, &ctx, &plan).await?;
            with(&ctx, &plan, &submission.name(), async |client| {
                let submitted = submission.submit(client, &confirmation).await?;
                to_file(&ctx, client, submitted, &plan, to).await
            })
            .await
        }
        Batch::Quote { what, plan, workers } => {
            let client = if plan.local { local::api_only(&ctx).await? } else { ctx.client()? };
            quote(&ctx, &client, &what, &plan, workers).await
        }
        Batch::List { order, limit } => list(&ctx, &ctx.client()?, order, limit).await,
        Batch::Show { id, wait } => {
            let client = ctx.client()?;
            let id = find(&client, &id).await?;
            let batch = client.get(&path(&["batches", &id])?).await?;
            match wait {
                true => {
                    let watched =
                        watch::until_over(&client, batch, RunsIn::Server, &mut Signals::new()?).await?;
                    end(&ctx, watched)
                }
                false => show(&ctx, &batch),
            }
        }
        Batch::Results { id, follow, format, out } => {
            let to = results::Destination::check(format, out.as_deref(), None)?;
            to.check_output(ctx.format)?;
            let client = ctx.client()?;
            results::write(&client, &find(&client, &id).await?, follow, &to).await?;
            Ok(Exit::Ok)
        }
        Batch::Cancel { id, reason } => {
            act(&ctx, &id, "cancel", &ResumeBatch::default(), reason.as_deref()).await
        }
        Batch::Pause { id, reason } => {
            act(&ctx, &id, "pause", &ResumeBatch::default(), reason.as_deref()).await
        }
        Batch::Resume { id, only, cause, max_usd } => {
            let only = only.map(|only| match only {
                Only::Failed => api_types::Rerun::Failed,
                Only::Expired => api_types::Rerun::Expired,
                Only::Partial => api_types::Rerun::Partial,
                Only::Declined => api_types::Rerun::Declined,
            });
            act(&ctx, &id, "resume", &ResumeBatch { only, cause, max_usd }, None).await
        }
    }
}

/// Place where a batch continues after this process ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RunsIn {
    /// In the workers of the API.
    Server,
    /// Nowhere, until the same command runs again: its engine is this process.
    ThisProcess,
}

impl RunsIn {
    fn of(plan: &Plan) -> Self {
        if plan.local { RunsIn::ThisProcess } else { RunsIn::Server }
    }
}

/// Calls `action` with a client of the API: the configured one, or with `--local` one in this process, with a worker, that ends
/// afterwards. `submission` is the name of what runs.
async fn with(
    ctx: &Context,
    plan: &Plan,
    submission: &str,
    action: impl AsyncFnOnce(&Client) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    if !plan.local {
        return action(&ctx.client()?).await;
    }
    let local = LocalEngine::start(ctx, submission).await?;
    let done = match local.client(ctx) {
        Ok(client) => action(&client).await,
        Err(err) => Err(err),
    };
    local.stop().await?;
    done
}

async fn validate(ctx: &Context, file: &Path) -> anyhow::Result<Exit> {
    let checked = lines::check(file, ctx, RulesOf::Target).await?;
    output::one(ctx.format, &checked, || checked.to_text(file))?;
    Ok(if checked.is_valid() { Exit::Ok } else { Exit::Finding })
}

async fn quote(
    ctx: &Context,
    client: &Client,
    what: &str,
    plan: &Plan,
    workers: u32,
) -> anyhow::Result<Exit> {
    // A file may have the name of a batch; an existing file takes precedence.
    let quote = match what.strip_prefix("batch_").filter(|_| !Path::new(what).exists()) {
        Some(_) => {
            let id = find(client, what).await?;
            client.get(&format!("{}?workers={workers}", path(&["batches", &id, "quote"])?)).await?
        }
        None => Submission::of(Path::new(what), ctx, plan).await?.quote(client, workers).await?,
    };
    output::one(ctx.format, &quote, || render::quote(&quote))?;
    Ok(Exit::Ok)
}

/// Waits until a batch ends, and writes its results.
async fn to_file(
    ctx: &Context,
    client: &Client,
    submitted: submit::Submitted,
    plan: &Plan,
    to: results::Destination,
) -> anyhow::Result<Exit> {
    let mut signals = Signals::new()?;
    let watched = wait_until_over(client, submitted, plan, &mut signals).await?;
    if let WatchOutcome::Over(batch) = &watched {
        let id = &batch.id;
        let _exit_after_signal = exit_after_signal()?;
        let lines = tokio::select! {
            written = results::write(client, id, false, &to) => written?,
            () = signals.received() => {
                note(&format!("not all results of {id} are written; repeat the command to write them"));
                return Ok(Exit::Interrupted);
            }
        };
        if let Some(out) = &to.out {
            let (lines, are) = (counted(lines, "line"), if lines == 1 { "is" } else { "are" });
            note(&format!("the results of {lines} {are} in {}", out.display()));
        }
    }
    end(ctx, watched)
}

/// Exits the process after a signal, even while a write to a pipe without a reader is blocked.
fn exit_after_signal() -> anyhow::Result<AbortOnDropHandle<()>> {
    let mut signals = Signals::new()?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        signals.received().await;
        tokio::time::sleep(BLOCKED_WRITE_MAX).await;
        std::process::exit(Exit::Interrupted as i32);
    })))
}

/// Waits until a batch ends. A batch that expired while no `--local` engine ran it is resumed.
async fn wait_until_over(
    client: &Client,
    submit::Submitted { batch, was_expired }: submit::Submitted,
    plan: &Plan,
    signals: &mut Signals,
) -> anyhow::Result<WatchOutcome> {
    let runs_in = RunsIn::of(plan);
    let watched = watch::until_over(client, batch, runs_in, signals).await?;
    let WatchOutcome::Over(batch) = &watched else { return Ok(watched) };
    let expired = batch.turnfold.resumable.expired;
    let is_expired = batch.status == api_types::BatchStatus::Expired && 0 < expired;
    if runs_in == RunsIn::Server || !was_expired || !is_expired {
        return Ok(watched);
    }
    let id = &batch.id;
    match client.post(&path(&["batches", id, "resume"])?, &json!({"only": "expired"})).await {
        Ok(again) => {
            note(&format!("{id} expired; running {} again", counted(expired, "line")));
            watch::until_over(client, again, runs_in, signals).await
        }
        Err(err) if refusal(&err).is_some() => {
            note(&format!("{id} expired and cannot be resumed: {err}"));
            Ok(watched)
        }
        Err(err) => Err(err),
    }
}

/// Prints a batch that was waited for, and returns its exit code.
fn end(ctx: &Context, watched: WatchOutcome) -> anyhow::Result<Exit> {
    match watched {
        WatchOutcome::Over(batch) => {
            show(ctx, &batch)?;
            Ok(render::exit_of(&batch))
        }
        WatchOutcome::Interrupted => Ok(Exit::Interrupted),
    }
}

async fn list(ctx: &Context, client: &Client, order: BatchOrder, limit: u64) -> anyhow::Result<Exit> {
    let order = order_query(&order);
    let page: OpenAiList<api_types::Batch> = client.get(&format!("/v1/batches?limit={limit}{order}")).await?;
    output::many(ctx.format, &page.data, || render::list(&page.data))?;
    if page.has_more {
        note("(there are more; see --limit)");
    }
    Ok(Exit::Ok)
}

/// Finds a batch by its id or a part of it, with or without `batch_`.
pub(super) async fn find(client: &Client, text: &str) -> anyhow::Result<String> {
    ids::resolve(client, IdKind::Batch, text).await
}

async fn act(
    ctx: &Context,
    id: &str,
    verb: &str,
    body: &ResumeBatch,
    reason: Option<&str>,
) -> anyhow::Result<Exit> {
    let client = ctx.client()?;
    let path = path(&["batches", &find(&client, id).await?, verb])?;
    let request = with_reason(client.request(Method::POST, &path).json(body), reason)?;
    show(ctx, &client.fetch(request).await?)
}

fn show(ctx: &Context, batch: &api_types::Batch) -> anyhow::Result<Exit> {
    output::one(ctx.format, batch, || render::batch(batch))?;
    Ok(Exit::Ok)
}

/// Returns the name of a file format, which is also its extension.
fn format_name(format: ResultFormat) -> &'static str {
    match format {
        ResultFormat::Jsonl => "jsonl",
        ResultFormat::Csv => "csv",
        ResultFormat::Parquet => "parquet",
    }
}
