//! `turnfold batch`: many turns from a file, through the api's own batches.
//!
//! Everything here is a client of `/v1/files` and `/v1/batches`, which are OpenAI's with fields and verbs of our own;
//! `--local` brings the api and a worker along, in this process, and talks to them in the same way.

mod before;
mod lines;
mod local;
mod read;
mod results;
mod rows;
mod shown;
mod signals;
mod submit;
mod table;
mod watch;

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use self::{local::Local, signals::Signals, submit::Submission, watch::Watched};
use super::Given;
use crate::{
    args::{Batch, Form, Plan, word},
    client::{Client, listed, name, path, refusal},
    exit::Exit,
    output::{self, counted, remark},
};

/// How long after a signal the process ends if it is held up by what it writes to.
const HELD_UP: Duration = Duration::from_secs(1);

pub(crate) async fn run(given: Given, command: Batch) -> anyhow::Result<Exit> {
    match command {
        Batch::Validate { file } => validate(&given, &file),
        Batch::Submit { file, plan, quoted, wait } => {
            submit::may_ask(&quoted)?;
            let submission = Submission::of(&file, &given.settings, &plan)?;
            with(&given, &plan, Whom::Engine(&submission.name()), async |client| {
                let submitted = submission.submit(client, &quoted).await?;
                if !wait && !plan.local {
                    return show(&given, &submitted.batch);
                }
                let watched = stay(client, submitted, &plan, &mut Signals::new()?).await?;
                let done = end(&given, watched)?;
                if plan.local {
                    remark("to write the results: the same command with `run` and --out FILE, which runs nothing again");
                }
                Ok(done)
            })
            .await
        }
        Batch::Run { file, plan, quoted, out, format } => {
            let to = results::To::checked(format, Some(&out), Some(&file))?;
            submit::may_ask(&quoted)?;
            let submission = Submission::of(&file, &given.settings, &plan)?;
            with(&given, &plan, Whom::Engine(&submission.name()), async |client| {
                let submitted = submission.submit(client, &quoted).await?;
                to_file(&given, client, submitted, &plan, to).await
            })
            .await
        }
        Batch::Quote { what, plan, workers } => {
            with(&given, &plan, Whom::Desk, async |client| quote(&given, client, &what, &plan, workers).await)
                .await
        }
        Batch::Ls { limit } => ls(&given, &given.client()?, limit).await,
        Batch::Get { id, wait } => {
            let client = given.client()?;
            let batch = client.get(&path(&["batches", &id])?).await?;
            match wait {
                true => {
                    let watched =
                        watch::until_over(&client, batch, Left::Elsewhere, &mut Signals::new()?).await?;
                    end(&given, watched)
                }
                false => show(&given, &batch),
            }
        }
        Batch::Results { id, follow, format, out } => {
            let to = results::To::checked(format, out.as_deref(), None)?;
            to.suits(given.format)?;
            results::write(&given.client()?, &id, follow, &to).await?;
            Ok(Exit::Ok)
        }
        Batch::Cancel { id } => act(&given, &given.client()?, &id, "cancel", &json!({})).await,
        Batch::Pause { id } => act(&given, &given.client()?, &id, "pause", &json!({})).await,
        Batch::Resume { id, only, max_usd } => {
            let mut body = json!({});
            if let Some(only) = only.map(|it| word(&it)) {
                body["only"] = json!(only);
            }
            if let Some(usd) = max_usd {
                body["max_usd"] = json!(usd);
            }
            act(&given, &given.client()?, &id, "resume", &body).await
        }
    }
}

/// Where a batch goes on when nobody watches it any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// With the api, wherever that is.
    Elsewhere,
    /// Not before the same command is given again: its engine is this process.
    Here,
}

impl Left {
    fn of(plan: &Plan) -> Self {
        if plan.local { Left::Here } else { Left::Elsewhere }
    }
}

/// Whom `--local` brings along.
#[derive(Clone, Copy)]
enum Whom<'a> {
    /// An engine, for the submission of this name.
    Engine(&'a str),
    /// Somebody who answers, and begins nothing.
    Desk,
}

/// Does something with the api: the one that runs somewhere, or one of our own that ends with it.
async fn with(
    given: &Given,
    plan: &Plan,
    whom: Whom<'_>,
    what: impl AsyncFnOnce(&Client) -> anyhow::Result<Exit>,
) -> anyhow::Result<Exit> {
    if !plan.local {
        return what(&given.client()?).await;
    }
    let local = match whom {
        Whom::Engine(submission) => Local::start(given, submission).await?,
        Whom::Desk => Local::desk(given).await?,
    };
    let done = match local.client(given) {
        Ok(client) => what(&client).await,
        Err(err) => Err(err),
    };
    local.stop().await?;
    done
}

fn validate(given: &Given, file: &Path) -> anyhow::Result<Exit> {
    let checked = lines::check(file, lines::longest(&given.settings))?;
    output::one(given.format, &checked, || checked.words(file))?;
    Ok(if checked.is_good() { Exit::Ok } else { Exit::Finding })
}

async fn quote(
    given: &Given,
    client: &Client,
    what: &str,
    plan: &Plan,
    workers: u32,
) -> anyhow::Result<Exit> {
    // A file may be called like a batch, and no batch like a file that is there.
    let quote = match what.strip_prefix("batch_").filter(|_| !Path::new(what).exists()) {
        Some(_) => client.get(&format!("{}?workers={workers}", path(&["batches", what, "quote"])?)).await?,
        None => Submission::of(Path::new(what), &given.settings, plan)?.quote(client, workers).await?,
    };
    output::one(given.format, &quote, || shown::quote(&quote))?;
    Ok(Exit::Ok)
}

/// Stays until a batch is over, and writes what came of it.
async fn to_file(
    given: &Given,
    client: &Client,
    submitted: submit::Batch,
    plan: &Plan,
    to: results::To,
) -> anyhow::Result<Exit> {
    let mut signals = Signals::new()?;
    let watched = stay(client, submitted, plan, &mut signals).await?;
    if let Watched::Over(batch) = &watched {
        let id = name(batch, "id");
        let _held_up = held_up()?;
        let lines = tokio::select! {
            written = results::write(client, id, false, &to) => written?,
            () = signals.heard() => {
                remark(&format!("not all results of {id} are written: the same command again writes them"));
                return Ok(Exit::Partial);
            }
        };
        if let Some(out) = &to.out {
            let (lines, are) = (counted(lines, "line"), if lines == 1 { "is" } else { "are" });
            remark(&format!("{lines} of results {are} in {}", out.display()));
        }
    }
    end(given, watched)
}

/// Ends the process some time after a signal: whoever writes into a pipe that nobody reads hears none.
fn held_up() -> anyhow::Result<AbortOnDropHandle<()>> {
    let mut signals = Signals::new()?;
    Ok(AbortOnDropHandle::new(tokio::spawn(async move {
        signals.heard().await;
        tokio::time::sleep(HELD_UP).await;
        std::process::exit(Exit::Partial as i32);
    })))
}

/// Stays until a batch is over. One whose time went by while no engine of ours ran it is gone on with.
async fn stay(
    client: &Client,
    submit::Batch { batch, is_late }: submit::Batch,
    plan: &Plan,
    signals: &mut Signals,
) -> anyhow::Result<Watched> {
    let left = Left::of(plan);
    let watched = watch::until_over(client, batch, left, signals).await?;
    let Watched::Over(batch) = &watched else { return Ok(watched) };
    let expired = batch["turnfold"]["resumable"]["expired"].as_u64().unwrap_or_default();
    if left == Left::Elsewhere || !is_late || name(batch, "status") != "expired" || expired == 0 {
        return Ok(watched);
    }
    let id = name(batch, "id");
    match client.post(&path(&["batches", id, "resume"])?, &json!({"only": "expired"})).await {
        Ok(again) => {
            remark(&format!("{id} ran out of time: {} run again", counted(expired, "line")));
            watch::until_over(client, again, left, signals).await
        }
        Err(err) if refusal(&err).is_some() => {
            remark(&format!("{id} ran out of time, and cannot be resumed: {err}"));
            Ok(watched)
        }
        Err(err) => Err(err),
    }
}

/// Shows a batch that was watched; the exit says how it ended.
fn end(given: &Given, watched: Watched) -> anyhow::Result<Exit> {
    match watched {
        Watched::Over(batch) => {
            show(given, &batch)?;
            Ok(shown::exit(&batch))
        }
        Watched::Left => Ok(Exit::Partial),
    }
}

async fn ls(given: &Given, client: &Client, limit: u64) -> anyhow::Result<Exit> {
    let page = client.get(&format!("/v1/batches?limit={limit}")).await?;
    let batches = listed(&page);
    output::many(given.format, batches, || shown::list(batches))?;
    Ok(Exit::Ok)
}

async fn act(given: &Given, client: &Client, id: &str, verb: &str, body: &Value) -> anyhow::Result<Exit> {
    show(given, &client.post(&path(&["batches", id, verb])?, body).await?)
}

fn show(given: &Given, batch: &Value) -> anyhow::Result<Exit> {
    output::one(given.format, batch, || shown::batch(batch))?;
    Ok(Exit::Ok)
}

/// The name of a form, as a person would give it.
fn form_name(form: Form) -> &'static str {
    match form {
        Form::Jsonl => "jsonl",
        Form::Csv => "csv",
        Form::Parquet => "parquet",
    }
}
