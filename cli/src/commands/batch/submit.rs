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
    before::{self, GivenUp, Known, SUBMISSION},
    lines::{self, Checked},
    shown,
};
use crate::{
    args::{Plan, Quoted, Reuse, Within, word},
    ask,
    client::{Client, name, refusal},
    config::Settings,
    exit::{Exit, Stop},
    output::remark,
};

/// How the api says that something was there before.
const TAKEN: u16 = 409;

/// What to do where nobody can be asked.
const INSTEAD: &str = "add --yes, or ask for the quote alone: turnfold batch quote FILE";

/// How much of a file is read at once, in bytes.
const PIECE: usize = 256 * 1024;

/// A file whose lines can be run, and how.
pub(super) struct Submission<'a> {
    file: &'a Path,
    checked: Checked,
    plan: &'a Plan,
}

/// The batch of a submission.
pub(super) struct Batch {
    pub(super) batch: Value,
    /// Whether it was made before, and its time was over before this command.
    pub(super) is_late: bool,
}

impl<'a> Submission<'a> {
    /// Refuses a file without a line that can be run, before anything is begun for it.
    pub(super) fn of(file: &'a Path, settings: &Settings, plan: &'a Plan) -> anyhow::Result<Self> {
        Ok(Self { file, checked: checked(file, settings)?, plan })
    }

    /// Its name: the same for the same bytes and the same flags.
    pub(super) fn name(&self) -> String {
        named(&self.checked, self.plan)
    }

    /// A new batch, or the one that was made before with the same flags.
    pub(super) async fn submit(&self, client: &Client, quoted: &Quoted) -> anyhow::Result<Batch> {
        let before = before::submitted(client, &self.name()).await?;
        if let Some(known) = &before.batch {
            return gone_on_with(client, known).await;
        }
        if let Some(known) = &before.given_up {
            let reused = match self.plan.reuse {
                Reuse::Succeeded => ", which takes what ended well of it",
                Reuse::None => "",
            };
            let why = if known.given_up == Some(GivenUp::Failed) { "has failed" } else { "was called off" };
            remark(&format!("{} of the same file {why}: this is a new one{reused}", known.id));
        }
        let mut body = self.creation();
        let uploaded = upload(client, self.file, Kept::Always).await?;
        body["input_file_id"] = json!(uploaded);
        if quoted.quote {
            let meant = is_meant(client, &body, quoted).await;
            if !matches!(meant, Ok(true)) {
                delete(client, &uploaded).await?;
                meant?;
                return Err(Stop::because(Exit::Finding, "nothing was submitted"));
            }
        }
        body["metadata"] = json!({SUBMISSION: before.name});
        let request = client.request(Method::POST, "/v1/batches").header("idempotency-key", &before.name);
        let refused = match client.send(request.json(&body)).await {
            Ok(made) => return Ok(Batch { batch: made.json().await?, is_late: false }),
            Err(err) => err,
        };
        let Some(status) = refusal(&refused) else { return Err(refused) };
        if let Err(err) = delete(client, &uploaded).await {
            remark(&format!("{uploaded}, which was uploaded for it, could not be deleted: {err}"));
        }
        // The same command elsewhere may have been quicker.
        if status == TAKEN
            && let Some(known) = before::submitted(client, &self.name()).await?.batch
        {
            return gone_on_with(client, &known).await;
        }
        Err(refused)
    }

    /// What the file would take as a batch. It is uploaded to be read, and deleted after.
    pub(super) async fn quote(&self, client: &Client, workers: u32) -> anyhow::Result<Value> {
        let mut body = self.creation();
        let uploaded = upload(client, self.file, Kept::ForAnHour).await?;
        body["input_file_id"] = json!(uploaded);
        let quoted = quote_of(client, &body, workers).await;
        delete(client, &uploaded).await?;
        quoted
    }

    /// What is asked of the api, but for the file.
    fn creation(&self) -> Value {
        let within = self.plan.within.clone().unwrap_or_else(|| default_within(self.plan));
        creation(&self.checked, self.plan, within.as_str())
    }
}

async fn gone_on_with(client: &Client, known: &Known) -> anyhow::Result<Batch> {
    remark(&format!("submitted before as {}: going on with that", known.id));
    let batch = before::whole(client, known).await?;
    let is_late = batch["expires_at"].as_i64().is_some_and(|it| it <= store::time::now() / 1_000_000);
    Ok(Batch { batch, is_late })
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

/// Within which time a batch must have ended, if nobody says: longer where nothing goes on between two commands.
fn default_within(plan: &Plan) -> Within {
    if plan.local { Within::LONGEST } else { Within::DAY }
}

fn creation(checked: &Checked, plan: &Plan, within: &str) -> Value {
    // Whoever adds a flag says here whether another value of it is another submission.
    let Plan { max_usd, within: _, window, priority, reuse, local: _ } = plan;
    let mut body = json!({"endpoint": checked.url, "completion_window": within});
    let wishes = [
        ("max_usd", max_usd.map(|it| json!(it))),
        ("window", window.map(|it| json!(it))),
        ("priority", priority.map(|it| json!(word(&it)))),
        ("reuse", Reuse::wish(*reuse).map(|it| json!(it))),
    ];
    for (name, wish) in wishes {
        if let Some(wish) = wish {
            body[name] = wish;
        }
    }
    body
}

/// The name of a submission.
///
/// **Invariant:** where nobody wishes for another time than it has by itself, that is a day in its name: what was submitted
/// by an earlier version, or with and without `--local`, is found again.
fn named(checked: &Checked, plan: &Plan) -> String {
    let wished = plan.within.as_ref().map(Within::seconds).filter(|it| *it != default_within(plan).seconds());
    let within = wished.map_or_else(|| Within::DAY.as_str().to_owned(), |it| format!("{it}s"));
    let creation = creation(checked, plan, &within);
    hex::encode(Sha256::new().chain_update(&checked.sha256).chain_update(creation.to_string()).finalize())
}

/// How long a file is kept that goes up.
#[derive(Clone, Copy)]
enum Kept {
    /// Until somebody deletes it.
    Always,
    /// For the shortest time that there is, should this command end before it deletes it.
    ForAnHour,
}

impl Kept {
    fn fields(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Always => &[],
            Self::ForAnHour => &[("expires_after[anchor]", "created_at"), ("expires_after[seconds]", "3600")],
        }
    }
}

/// Sends a file piece by piece; its id there.
///
/// ## Why the form is written by hand
///
/// It is a few fields, and a form of reqwest's would be one more feature of it for every crate of the workspace.
async fn upload(client: &Client, path: &Path, kept: Kept) -> anyhow::Result<String> {
    let unreadable = |err| Stop::because(Exit::Usage, format!("cannot read {}: {err}", path.display()));
    let file = File::open(path).await.map_err(unreadable)?;
    let boundary = format!("turnfold-{}", Uuid::now_v7().simple());
    let fields = [[("purpose", "batch")].as_slice(), kept.fields()].concat();
    let field = |(name, value): (&str, &str)| {
        format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let head = format!(
        "{}--{boundary}\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"{}\"\r\n\
         Content-Type: application/jsonl\r\n\r\n",
        fields.into_iter().map(field).collect::<String>(),
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
    use clap::Parser as _;

    use crate::args::{Args, Batch, Command};

    let file = |sha256: &str| Checked { sha256: sha256.to_owned(), ..Checked::default() };
    let named = |sha256: &str, flags: &[&str]| {
        let args = Args::parse_from([&["turnfold", "batch", "submit", "f"], flags].concat());
        let Command::Batch(Batch::Submit { plan, .. }) = args.command else { panic!("it is one") };
        self::named(&file(sha256), &plan)
    };
    let first = named("a", &["--max-usd", "1"]);
    assert_eq!(
        first, "cb23a945d064d12bbfa3b6fba2be376a472e7229667f43f22963a843568ee14e",
        "as earlier versions called it"
    );
    assert_eq!(first, named("a", &["--max-usd", "1", "--local"]));
    assert_ne!(first, named("b", &["--max-usd", "1"]));
    assert_ne!(first, named("a", &["--max-usd", "2"]));
    assert_ne!(first, named("a", &[]));
    let week = named("a", &["--within", "7d"]);
    assert_ne!(week, named("a", &[]));
    assert_eq!(week, named("a", &["--within", "168h", "--local"]));
    let day = named("a", &[]);
    assert!(day == named("a", &["--within", "1d"]) && day == named("a", &["--within", "30d", "--local"]));
    assert_ne!(day, named("a", &["--within", "24h", "--local"]));
}
