//! Uploads a file and creates its batch, once, however often the command is repeated.
//!
//! ## Why the batch is looked up before the upload
//!
//! The API recognizes a repeated creation by its idempotency key, but only after the file has been uploaded again, and the
//! file is large.

use std::path::Path;

use api_types::Quote;
use futures::{StreamExt as _, stream};
use reqwest::{Body, Method, header::CONTENT_TYPE};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use shared::Priority;
use uuid::Uuid;

use super::{
    lines::{self, Checked, RulesOf},
    previous::{self, Abandoned, Known, SUBMISSION},
    render,
};
use crate::{
    args::{CompletionWindow, Confirmation, Plan, Reuse},
    client::{Client, refusal},
    commands::Context,
    confirm,
    exit::{CliError, Exit},
    output::note,
};

/// Status with which the API refuses a name that is taken.
const CONFLICT: u16 = 409;

/// Hint if there is no terminal to confirm on.
const CONFIRM_HINT: &str = "add --yes, or only estimate with: turnfold batch quote FILE";

/// A valid file and the options for its batch.
pub(super) struct Submission<'a> {
    file: &'a Path,
    checked: Checked,
    plan: &'a Plan,
}

/// The batch of a submission.
pub(super) struct Submitted {
    pub(super) batch: api_types::Batch,
    /// True if the batch existed before and had expired before this command.
    pub(super) was_expired: bool,
}

impl<'a> Submission<'a> {
    /// Checks a file. Fails if no line can be run.
    pub(super) async fn of(file: &'a Path, ctx: &Context, plan: &'a Plan) -> anyhow::Result<Self> {
        let rules = if plan.local { RulesOf::Configuration } else { RulesOf::Target };
        Ok(Self { file, checked: check(file, ctx, rules).await?, plan })
    }

    /// Returns the name of the submission: the same for the same bytes and options.
    pub(super) fn name(&self) -> String {
        submission_name(&self.checked, self.plan)
    }

    /// Returns the existing batch of the same file and options, or creates one.
    pub(super) async fn submit(
        &self,
        client: &Client,
        confirmation: &Confirmation,
    ) -> anyhow::Result<Submitted> {
        let before = previous::find(client, &self.name()).await?;
        if let Some(known) = &before.batch {
            return resume(client, known).await;
        }
        if let Some(known) = &before.abandoned {
            let reused = match self.plan.reuse {
                Reuse::Succeeded => ", which reuses its successful results",
                Reuse::None => "",
            };
            let why = if known.abandoned == Some(Abandoned::Failed) { "failed" } else { "was cancelled" };
            note(&format!("{} of the same file {why}; creating a new batch{reused}", known.id));
        }
        let mut body = self.creation();
        let uploaded = upload(client, self.file, Retention::Unlimited).await?;
        body["input_file_id"] = json!(uploaded);
        if confirmation.quote {
            let confirmed = confirm_quote(client, &body, confirmation).await;
            if !matches!(confirmed, Ok(true)) {
                delete(client, &uploaded).await?;
                confirmed?;
                return Err(CliError::with_exit(Exit::Finding, "cancelled; nothing was submitted"));
            }
        }
        body["metadata"] = json!({SUBMISSION: before.name});
        let request = client.request(Method::POST, "/v1/batches").header("idempotency-key", &before.name);
        let refused = match client.fetch(request.json(&body)).await {
            Ok(batch) => return Ok(Submitted { batch, was_expired: false }),
            Err(err) => err,
        };
        let Some(status) = refusal(&refused) else { return Err(refused) };
        if let Err(err) = delete(client, &uploaded).await {
            note(&format!("cannot delete the uploaded file {uploaded}: {err}"));
        }
        // Another process may have created the batch in the meantime.
        if status == CONFLICT
            && let Some(known) = previous::find(client, &self.name()).await?.batch
        {
            return resume(client, &known).await;
        }
        Err(refused)
    }

    /// Estimates the batch. The file is uploaded for that, and deleted afterwards.
    pub(super) async fn quote(&self, client: &Client, workers: u32) -> anyhow::Result<Quote> {
        let mut body = self.creation();
        let uploaded = upload(client, self.file, Retention::Hour).await?;
        body["input_file_id"] = json!(uploaded);
        let confirmation = quote_of(client, &body, workers).await;
        delete(client, &uploaded).await?;
        confirmation
    }

    /// Returns the request that creates the batch, without the file.
    fn creation(&self) -> Value {
        let within = self.plan.within.clone().unwrap_or_else(|| default_window(self.plan));
        creation(&self.checked, self.plan, within.as_str())
    }
}

/// Checks and uploads a file, and returns the request that creates a batch of it, which uses no earlier results.
pub(in crate::commands) async fn scheduled(
    ctx: &Context,
    client: &Client,
    file: &Path,
    priority: Option<Priority>,
) -> anyhow::Result<Value> {
    let checked = check(file, ctx, RulesOf::Target).await?;
    let plan = Plan { max_usd: None, window: None, within: None, priority, reuse: Reuse::None, local: false };
    let mut body = creation(&checked, &plan, CompletionWindow::DAY.as_str());
    body["input_file_id"] = json!(upload(client, file, Retention::Unlimited).await?);
    Ok(body)
}

async fn resume(client: &Client, known: &Known) -> anyhow::Result<Submitted> {
    note(&format!("continuing {}, which was submitted before", known.id));
    let batch = previous::load(client, known).await?;
    let was_expired = batch.expires_at <= queue::clock::now() / 1_000_000;
    Ok(Submitted { batch, was_expired })
}

/// Fails if a confirmation is required and there is no terminal, before the upload.
pub(super) fn check_confirmable(confirmation: &Confirmation) -> anyhow::Result<()> {
    if confirmation.quote && !confirmation.yes { confirm::require_terminal(CONFIRM_HINT) } else { Ok(()) }
}

/// Prints the quote of a batch on stderr and asks for confirmation.
async fn confirm_quote(client: &Client, body: &Value, confirmation: &Confirmation) -> anyhow::Result<bool> {
    note(&render::quote(&quote_of(client, body, confirmation.workers).await?));
    if confirmation.yes { Ok(true) } else { confirm::ask("submit it?", CONFIRM_HINT) }
}

async fn quote_of(client: &Client, body: &Value, workers: u32) -> anyhow::Result<Quote> {
    client.post(&format!("/v1/batches?quote=true&workers={workers}"), body).await
}

async fn delete(client: &Client, file: &str) -> anyhow::Result<()> {
    client.send(client.request(Method::DELETE, &format!("/v1/files/{file}"))).await?;
    Ok(())
}

async fn check(file: &Path, ctx: &Context, rules: RulesOf) -> anyhow::Result<Checked> {
    let checked = lines::check(file, ctx, rules).await?;
    if checked.can_run() {
        if !checked.is_valid() {
            note(&format!("{}\nrunning the others", checked.to_text(file)));
        }
        return Ok(checked);
    }
    let message = format!("no line can be run; nothing was submitted:\n{}", checked.to_text(file));
    Err(CliError::with_exit(Exit::Usage, message))
}

/// Returns the completion window if none is given: one day on a server, the maximum with `--local`, where a batch makes
/// no progress between two commands.
fn default_window(plan: &Plan) -> CompletionWindow {
    if plan.local { CompletionWindow::MAX } else { CompletionWindow::DAY }
}

fn creation(checked: &Checked, plan: &Plan, within: &str) -> Value {
    // For each new option, decide here whether another value makes another submission.
    let Plan { max_usd, within: _, window, priority, reuse, local: _ } = plan;
    let mut body = json!({"endpoint": checked.found.endpoint, "completion_window": within});
    let options = [
        ("max_usd", max_usd.map(|max_usd| json!(max_usd))),
        ("window", window.map(|window| json!(window))),
        ("priority", priority.map(|priority| json!(priority))),
        ("reuse", Reuse::non_default(*reuse).map(|reuse| json!(reuse))),
    ];
    for (name, value) in options {
        if let Some(value) = value {
            body[name] = value;
        }
    }
    body
}

/// Returns the name of a submission.
///
/// **Invariant:** the default completion window counts as one day, with and without `--local`, so that both find the same
/// batch.
fn submission_name(checked: &Checked, plan: &Plan) -> String {
    let explicit = plan
        .within
        .as_ref()
        .map(CompletionWindow::seconds)
        .filter(|seconds| *seconds != default_window(plan).seconds());
    let within =
        explicit.map_or_else(|| CompletionWindow::DAY.as_str().to_owned(), |seconds| format!("{seconds}s"));
    let creation = creation(checked, plan, &within);
    hex::encode(Sha256::new().chain_update(&checked.sha256).chain_update(creation.to_string()).finalize())
}

/// Retention of an uploaded file.
#[derive(Clone, Copy)]
enum Retention {
    /// Until it is deleted.
    Unlimited,
    /// The minimum, in case this command ends before it deletes the file.
    Hour,
}

impl Retention {
    fn fields(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Unlimited => &[],
            Self::Hour => &[("expires_after[anchor]", "created_at"), ("expires_after[seconds]", "3600")],
        }
    }
}

/// Uploads a file in chunks and returns its id.
///
/// ## Why the multipart form is written by hand
///
/// It has few fields, and the form of reqwest is a feature that every crate of the workspace would then compile.
async fn upload(client: &Client, path: &Path, retention: Retention) -> anyhow::Result<String> {
    let chunks = lines::chunks(lines::open(path).await?);
    let boundary = format!("turnfold-{}", Uuid::now_v7().simple());
    let fields = [[("purpose", "batch")].as_slice(), retention.fields()].concat();
    let field = |(name, value): (&str, &str)| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let head = format!(
        "{}--{boundary}\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
         Content-Type: application/jsonl\r\n\r\n",
        fields.into_iter().map(field).collect::<String>(),
        header_safe_name(path)
    );
    let tail = format!("\r\n--{boundary}--\r\n");
    let whole =
        stream::iter([Ok(head.into_bytes())]).chain(chunks).chain(stream::iter([Ok(tail.into_bytes())]));
    let request = client.request(Method::POST, "/v1/files");
    let request = request.header(CONTENT_TYPE, format!("multipart/form-data; boundary={boundary}"));
    let file: api_types::File = client.fetch(request.body(Body::wrap_stream(whole))).await?;
    Ok(file.id)
}

/// Returns the name of a file with every character that has a meaning in a header replaced by `_`.
fn header_safe_name(path: &Path) -> String {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_safe = |char: char| char.is_ascii_alphanumeric() || ['.', '-', '_'].contains(&char);
    name.chars().map(|char| if is_safe(char) { char } else { '_' }).collect()
}

#[test]
fn the_same_bytes_and_options_are_the_same_submission() {
    use clap::Parser as _;

    use crate::args::{Args, Batch, Command};

    let file = |sha256: &str| Checked { sha256: sha256.to_owned(), ..Checked::default() };
    let name_of = |sha256: &str, flags: &[&str]| {
        let args = Args::parse_from([&["turnfold", "batch", "submit", "f"], flags].concat());
        let Command::Batch(Batch::Submit { plan, .. }) = args.command else {
            unreachable!("the arguments are those of batch submit")
        };
        submission_name(&file(sha256), &plan)
    };
    let first = name_of("a", &["--max-usd", "1"]);
    assert_eq!(
        first, "cb23a945d064d12bbfa3b6fba2be376a472e7229667f43f22963a843568ee14e",
        "names are stable across versions"
    );
    assert_eq!(first, name_of("a", &["--max-usd", "1", "--local"]));
    assert_ne!(first, name_of("b", &["--max-usd", "1"]));
    assert_ne!(first, name_of("a", &["--max-usd", "2"]));
    assert_ne!(first, name_of("a", &[]));
    let week = name_of("a", &["--within", "7d"]);
    assert_ne!(week, name_of("a", &[]));
    assert_eq!(week, name_of("a", &["--within", "168h", "--local"]));
    let day = name_of("a", &[]);
    assert!(day == name_of("a", &["--within", "1d"]) && day == name_of("a", &["--within", "30d", "--local"]));
    assert_ne!(day, name_of("a", &["--within", "24h", "--local"]));
}

#[test]
fn a_file_name_is_safe_in_a_header() {
    assert_eq!(header_safe_name(Path::new("a/b \"c\".jsonl")), "b__c_.jsonl");
}
