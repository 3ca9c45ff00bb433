//! A file goes up, and a batch of its lines is made: once, however often the same command is given.
//!
//! ## Why the batch is looked for before anything is sent
//!
//! The file's hash and the flags name the submission. The api knows a repeated creation by its idempotency key, but not
//! before the whole file is there again; and the file is the large thing.

use std::path::Path;

use futures::{StreamExt as _, stream};
use reqwest::{Body, Method, header::CONTENT_TYPE};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{fs::File, io::AsyncReadExt as _};
use uuid::Uuid;

use super::{
    lines::{self, Checked},
    shown,
};
use crate::{
    args::{Plan, Priority, Quoted, Reuse},
    ask,
    client::{Client, path},
    commands::turn::name,
    config::Settings,
    exit::{Exit, Stop},
    output::remark,
};

/// Where a batch keeps the name of its submission.
const SUBMISSION: &str = "turnfold_submission";

/// How many of the newest batches are looked at for one that was submitted before.
const NEWEST: u32 = 100;

/// What to do where nobody can be asked.
const INSTEAD: &str = "add --yes, or ask for the quote alone: turnfold batch quote FILE";

/// How much of a file is read at once, in bytes.
const PIECE: usize = 256 * 1024;

/// The batch of a file: a new one, or the one that was submitted before with the same flags.
pub(super) async fn submit(
    client: &Client,
    settings: &Settings,
    file: &Path,
    plan: &Plan,
    quoted: &Quoted,
) -> anyhow::Result<Value> {
    let checked = checked(file, settings)?;
    let submission = submission(&checked, plan);
    if let Some(batch) = before(client, &submission).await? {
        remark(&format!("submitted before as {}: going on with that", name(&batch, "id")));
        return Ok(batch);
    }
    let mut body = creation(&checked, plan);
    let uploaded = upload(client, file).await?;
    body["input_file_id"] = json!(uploaded);
    if quoted.quote {
        let meant = is_meant(client, &body, quoted).await;
        if !matches!(meant, Ok(true)) {
            delete(client, &uploaded).await?;
            meant?;
            return Err(Stop::because(Exit::Finding, "nothing was submitted"));
        }
    }
    body["metadata"] = json!({SUBMISSION: submission});
    let request = client.request(Method::POST, "/v1/batches").header("idempotency-key", &submission);
    Ok(client.send(request.json(&body)).await?.json().await?)
}

/// What a file would take as a batch. The file is uploaded to be read, and deleted after.
pub(super) async fn quote(
    client: &Client,
    settings: &Settings,
    file: &Path,
    plan: &Plan,
    workers: u32,
) -> anyhow::Result<Value> {
    let mut body = creation(&checked(file, settings)?, plan);
    let uploaded = upload(client, file).await?;
    body["input_file_id"] = json!(uploaded);
    let quoted = quote_of(client, &body, workers).await;
    delete(client, &uploaded).await?;
    quoted
}

/// Nobody is kept waiting for an upload and a quote to be told then that there is nobody to ask.
pub(super) fn may_ask(quoted: &Quoted) -> anyhow::Result<()> {
    if quoted.quote && !quoted.yes { ask::somebody(INSTEAD) } else { Ok(()) }
}

/// Says what a batch would take, and whether it is to be made; what is said goes beside the batch itself.
async fn is_meant(client: &Client, body: &Value, quoted: &Quoted) -> anyhow::Result<bool> {
    remark(&shown::quote(&quote_of(client, body, quoted.workers).await?));
    if quoted.yes { Ok(true) } else { ask::agreed("submit it?", INSTEAD) }
}

async fn quote_of(client: &Client, body: &Value, workers: u32) -> anyhow::Result<Value> {
    client.post(&format!("/v1/batches?quote=true&workers={workers}"), body).await
}

async fn delete(client: &Client, file: &str) -> anyhow::Result<()> {
    client.send(client.request(Method::DELETE, &format!("/v1/files/{file}"))).await?;
    Ok(())
}

fn checked(file: &Path, settings: &Settings) -> anyhow::Result<Checked> {
    let checked = lines::check(file, lines::longest(settings))?;
    if checked.faulty < checked.lines {
        if !checked.is_good() {
            remark(&format!("{}\nthe others are run", checked.words(file)));
        }
        return Ok(checked);
    }
    let words = format!("no line can be run, nothing was submitted:\n{}", checked.words(file));
    Err(Stop::because(Exit::Usage, words))
}

/// What is asked of the api, but for the file.
fn creation(checked: &Checked, plan: &Plan) -> Value {
    // Whoever adds a flag says here whether another value of it is another submission.
    let Plan { max_usd, window, priority, reuse, local: _ } = plan;
    let mut body = json!({"endpoint": checked.url, "completion_window": "24h"});
    let wishes = [
        ("max_usd", max_usd.map(|it| json!(it))),
        ("window", window.map(|it| json!(it))),
        ("priority", priority.map(Priority::as_str).map(|it| json!(it))),
        ("reuse", Reuse::wish(*reuse).map(|it| json!(it))),
    ];
    for (name, wish) in wishes {
        if let Some(wish) = wish {
            body[name] = wish;
        }
    }
    body
}

/// The name of a submission: the same for the same bytes and the same flags.
fn submission(checked: &Checked, plan: &Plan) -> String {
    let hash = Sha256::new().chain_update(&checked.sha256).chain_update(creation(checked, plan).to_string());
    hex::encode(hash.finalize())
}

async fn before(client: &Client, submission: &str) -> anyhow::Result<Option<Value>> {
    let page = client.get(&format!("/v1/batches?limit={NEWEST}")).await?;
    let batches = page["data"].as_array().into_iter().flatten();
    let Some(known) = batches.into_iter().find(|it| it["metadata"][SUBMISSION] == submission) else {
        return Ok(None);
    };
    // A list does not tell why lines failed.
    client.get(&path(&["batches", name(known, "id")])?).await.map(Some)
}

/// Sends a file piece by piece; its id there.
///
/// ## Why the form is written by hand
///
/// It is two fields, and a form of reqwest's would be one more feature of it for every crate of the workspace.
async fn upload(client: &Client, path: &Path) -> anyhow::Result<String> {
    let unreadable = |err| Stop::because(Exit::Usage, format!("cannot read {}: {err}", path.display()));
    let file = File::open(path).await.map_err(unreadable)?;
    let boundary = format!("turnfold-{}", Uuid::now_v7().simple());
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{boundary}\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
         Content-Type: application/jsonl\r\n\r\n",
        shown::plain(path)
    );
    let tail = format!("\r\n--{boundary}--\r\n");
    let pieces = stream::try_unfold(file, async |mut file| {
        let mut piece = vec![0; PIECE];
        let length = file.read(&mut piece).await?;
        piece.truncate(length);
        Ok::<_, std::io::Error>((0 < length).then_some((piece, file)))
    });
    let whole =
        stream::iter([Ok(head.into_bytes())]).chain(pieces).chain(stream::iter([Ok(tail.into_bytes())]));
    let request = client.request(Method::POST, "/v1/files");
    let request = request.header(CONTENT_TYPE, format!("multipart/form-data; boundary={boundary}"));
    let file: Value = client.send(request.body(Body::wrap_stream(whole))).await?.json().await?;
    Ok(name(&file, "id").to_owned())
}

#[test]
fn the_same_bytes_and_flags_are_the_same_submission() {
    let file = |sha256: &str| Checked { sha256: sha256.to_owned(), ..Checked::default() };
    let plan =
        |max_usd| Plan { max_usd, window: None, priority: None, reuse: Reuse::default(), local: false };
    let first = submission(&file("a"), &plan(Some(1.0)));
    assert_eq!(first, submission(&file("a"), &Plan { local: true, ..plan(Some(1.0)) }));
    assert_ne!(first, submission(&file("b"), &plan(Some(1.0))));
    assert_ne!(first, submission(&file("a"), &plan(Some(2.0))));
    assert_ne!(first, submission(&file("a"), &plan(None)));
}
