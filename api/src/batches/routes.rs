//! How a batch is made, looked at, stopped and resumed.

use axum::{
    Json,
    extract::State,
    http::{HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use shared::usd;
use store::{
    Idempotency, Priority,
    bulk::{Batch, BatchId, BatchStatus, ItemState, KnownBy, Stopped},
};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    dialect::Dialect,
    quote,
    resumed::no_line,
    wire::{BatchView, Listing, NewBatch, Only, Resume, Reuse, name, show, show_briefly},
};
use crate::{
    auth::{Acting, By},
    extract::{Body, IdempotencyKey, MaybeBody, Path, Query, Sent},
    files,
    house::{House, Inside},
    openai::error::ErrorReply,
    page::limit,
    problem::{Kind, Problem},
};

/// Says that the batch was made before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The longest that a batch may run, in seconds.
const LONGEST: u64 = 30 * 24 * 60 * 60;

/// How many pairs its metadata may have, and how long a name and a text there may be, in bytes.
const PAIRS: usize = 16;
const PAIR_NAME: usize = 64;
const PAIR_TEXT: usize = 512;

/// Which batches.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those made before this batch: the last of the page before.
    after: Option<String>,
    /// At most so many; 50 if nobody says.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// How a batch is made.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct How {
    /// Whether it is only told what it would take, and nothing is made.
    quote: Option<bool>,
    /// With `quote`: how many workers there will be, as the api does not know; 1 if nobody says.
    #[param(minimum = 1)]
    workers: Option<u64>,
}

/// Makes a batch
///
/// The lines of the file are looked at one after the other; each that can be run becomes a turn on a thread of its own,
/// begun while later ones are looked at, and those that cannot are reported by their numbers. It is `validating`, and its
/// `total` grows, until the last line was looked at. With `Idempotency-Key`, the same body sent again gives the same batch,
/// also once its file is gone. OpenAI's clients give no key, and send a request again by themselves when a connection breaks;
/// they say so, and of the same file the same body is then the same batch for half an hour.
///
/// With `quote=true` the lines are looked at and nothing is made: the answer is what the batch would probably take, as
/// `GET /v1/batches/{id}/quote` tells of one that is there.
#[utoipa::path(
    post, path = "/v1/batches", tag = "bulk", operation_id = "create_batch", request_body = NewBatch,
    params(
        How,
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated request the same one."),
        ("X-Stainless-Retry-Count" = Option<u32>, Header, description = "How often the client has sent the request before, as OpenAI's tell by themselves."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who makes it; `api` if nobody says.")
    ),
    responses(
        (status = 200, description = "It is being validated.", body = BatchView,
         headers(("Idempotency-Replayed" = Option<String>, description = "`true` if it was made before."))),
        (status = 404, description = "There is no such file.", body = ErrorReply),
        (status = 409, description = "The idempotency key belongs to another request.", body = ErrorReply),
        (status = 400, description = "It makes no sense; the detail names the field.", body = ErrorReply)
    )
)]
pub(crate) async fn create(
    State(house): Inside,
    acting: Acting,
    By(author): By,
    IdempotencyKey(key): IdempotencyKey,
    sent: Option<Sent>,
    Query(how): Query<How>,
    Body { value: new, raw }: Body<NewBatch>,
) -> Result<Response, Problem> {
    let known_by = match key {
        Some(key) => KnownBy::Key(key),
        None if sent == Some(Sent::Again) => KnownBy::Content,
        None => KnownBy::Nothing,
    };
    let request = Request { author, request_hash: hex::encode(Sha256::digest(&raw)), known_by };
    if how.quote == Some(true) {
        let new = accepted(&house, &acting, request, new).await?;
        return Ok(Json(quote::before(&house, &new, how.workers).await?).into_response());
    }
    let (batch, is_new) = made(&house, &acting, request, new).await?;
    house.stirred.send_replace(());
    tracing::info!(batch = %batch.id, is_new, "a batch was made");
    let mut response = Json(show(&house, batch).await?).into_response();
    if !is_new {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Who asks for a batch, and by what the request is known.
struct Request {
    author: String,
    request_hash: String,
    known_by: KnownBy,
}

/// Makes a batch, unless it was made before; the batch, and whether it is new.
///
/// ## Why a file that is gone is no end of it
///
/// A batch outlives its file, and whoever did not hear that it was made asks for it again.
async fn made(
    house: &House,
    acting: &Acting,
    request: Request,
    new: NewBatch,
) -> Result<(Batch, bool), Problem> {
    let (store, name) = (&house.parts.store, new.input_file_id.clone());
    let idempotency = match &request.known_by {
        KnownBy::Key(key) => {
            Some(Idempotency { key: key.clone(), request_hash: request.request_hash.clone() })
        }
        KnownBy::Nothing | KnownBy::Content => None,
    };
    match accepted(house, acting, request, new).await {
        Ok(new) => store.make_batch(new).await?.ok_or_else(|| files::unknown(&name)),
        Err(gone) if gone.kind == Kind::UnknownFile => {
            let Some((file, idempotency)) = files::id(&name).zip(idempotency) else { return Err(gone) };
            let known = store.made_batch(acting.only(), file, &idempotency).await?;
            known.map(|it| (it, false)).ok_or(gone)
        }
        Err(problem) => Err(problem),
    }
}

async fn accepted(
    house: &House,
    acting: &Acting,
    request: Request,
    new: NewBatch,
) -> Result<store::bulk::NewBatch, Problem> {
    let file = files::find(house, acting, &new.input_file_id).await?;
    let dialect = Dialect::of(&new.endpoint).ok_or_else(|| {
        let known = Dialect::ALL.map(Dialect::url).join(", ");
        Kind::Invalid.because(format!("endpoint: {:?} is none of {known}", new.endpoint))
    })?;
    let output_seconds = new.output_expires_after;
    let output_seconds =
        output_seconds.map(|it| it.checked(|part| format!("output_expires_after.{part}"))).transpose()?;
    if new.window == Some(0) || new.expires_after == Some(0) {
        return Err(Kind::Invalid.because("window and expires_after: they are at least 1"));
    }
    Ok(store::bulk::NewBatch {
        // As its file: an operator's batch of a tenant's file is that tenant's.
        tenant: file.tenant,
        author: request.author,
        endpoint: dialect.url().to_owned(),
        input_file: file.id,
        seconds: window(&new.completion_window)?,
        completion_window: new.completion_window,
        metadata: Value::Object(metadata(new.metadata.unwrap_or_default())?),
        output_seconds,
        reuse: new.reuse == Reuse::Succeeded,
        max_micro_usd: new.max_usd.map(micro_usd).transpose()?,
        window: new.window.unwrap_or(house.bulk.window).min(house.bulk.window),
        item_seconds: new.expires_after,
        priority: new.priority.map_or(Priority::Low, Into::into),
        request_hash: request.request_hash,
        known_by: request.known_by,
    })
}

/// A time as OpenAI writes it, in seconds.
fn window(text: &str) -> Result<u64, Problem> {
    let wrong = || {
        let words = format!(
            "completion_window: {text:?} is no number with s, m, h, d or w, or is longer than 30 days; try \"24h\""
        );
        Kind::Invalid.because(words)
    };
    let seconds = store::time::length(text).map(|it| it.as_secs()).filter(|it| (1..=LONGEST).contains(it));
    seconds.ok_or_else(wrong)
}

fn metadata(pairs: Map<String, Value>) -> Result<Map<String, Value>, Problem> {
    let fits = |(name, text): (&String, &Value)| {
        name.len() <= PAIR_NAME && text.as_str().is_some_and(|it| it.len() <= PAIR_TEXT)
    };
    if pairs.len() <= PAIRS && pairs.iter().all(fits) {
        return Ok(pairs);
    }
    let words =
        format!("metadata: it has up to {PAIRS} pairs, names of {PAIR_NAME} and texts of {PAIR_TEXT} bytes");
    Err(Kind::Invalid.because(words))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is positive, and a number so large is no limit"
)]
fn micro_usd(usd: f64) -> Result<u64, Problem> {
    if usd.is_finite() && usd > 0.0 {
        return Ok((usd * 1e6).ceil() as u64);
    }
    Err(Kind::Invalid.because("max_usd: it is a number above 0"))
}

/// Lists batches
///
/// Newest first, without `top_causes`.
#[utoipa::path(
    get, path = "/v1/batches", tag = "bulk", operation_id = "list_batches", params(Which),
    responses((status = 200, description = "A page of batches.", body = Listing<BatchView>))
)]
pub(crate) async fn list(
    State(house): Inside,
    acting: Acting,
    Query(which): Query<Which>,
) -> Result<Json<Listing<BatchView>>, Problem> {
    let limit = limit(which.limit)?;
    // It need not be there any more: an operator may have pruned it meanwhile.
    let after = which.after.as_deref().map(|it| id(it).ok_or_else(|| unknown(it))).transpose()?;
    let rows = house.parts.store.batches(acting.only(), after, limit + 1).await?;
    let page = Listing::cut(rows, limit, |it| name(it.id));
    Ok(Json(page.try_map(|it| show_briefly(&house, it)).await?))
}

/// Shows a batch
///
/// With live counts, its pace, what it cost so far, and why lines ended badly.
#[utoipa::path(
    get, path = "/v1/batches/{id}", tag = "bulk", operation_id = "get_batch",
    params(("id" = String, Path, description = "The batch.")),
    responses(
        (status = 200, description = "The batch.", body = BatchView),
        (status = 404, description = "There is no such batch.", body = ErrorReply)
    )
)]
pub(crate) async fn get(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<String>,
) -> Result<Json<BatchView>, Problem> {
    let batch = find(&house, &acting, &id).await?;
    Ok(Json(show(&house, batch).await?))
}

/// The batch of this name, if whoever asks sees it.
pub(super) async fn find(house: &House, acting: &Acting, name: &str) -> Result<Batch, Problem> {
    let id = id(name).ok_or_else(|| unknown(name))?;
    let batch = house.parts.store.batch(id).await?.filter(|it| acting.sees(&it.tenant));
    batch.ok_or_else(|| unknown(name))
}

/// The batch that is called so, whether or not it is there.
fn id(name: &str) -> Option<BatchId> {
    name.strip_prefix("batch_").and_then(|it| Uuid::try_parse(it).ok())
}

fn unknown(name: &str) -> Problem {
    Kind::UnknownBatch.because(format!("there is no batch {name:?}"))
}

/// Calls a batch off
///
/// Lines that were not begun never are; turns that are under way, or wait for a person, are called off. What has ended
/// keeps its results.
#[utoipa::path(
    post, path = "/v1/batches/{id}/cancel", tag = "bulk", operation_id = "cancel_batch",
    params(("id" = String, Path, description = "The batch.")),
    responses(
        (status = 200, description = "It is being called off.", body = BatchView),
        (status = 404, description = "There is no such batch.", body = ErrorReply),
        (status = 409, description = "It is over.", body = ErrorReply)
    )
)]
pub(crate) async fn cancel(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<String>,
) -> Result<Json<BatchView>, Problem> {
    let batch = find(&house, &acting, &id).await?;
    let changed = house.parts.store.cancel_batch(batch.id).await?;
    let now = find(&house, &acting, &id).await?;
    if !changed && !matches!(now.status, BatchStatus::Cancelling | BatchStatus::Cancelled) {
        return Err(not_now(&now, format!("it is {} and cannot be called off", now.status)));
    }
    house.stirred.send_replace(());
    Ok(Json(show(&house, now).await?))
}

/// Pauses a batch
///
/// Nothing more of it is begun; what is under way goes on.
#[utoipa::path(
    post, path = "/v1/batches/{id}/pause", tag = "bulk", operation_id = "pause_batch",
    params(("id" = String, Path, description = "The batch.")),
    responses(
        (status = 200, description = "It is paused.", body = BatchView),
        (status = 404, description = "There is no such batch.", body = ErrorReply),
        (status = 409, description = "It is over.", body = ErrorReply)
    )
)]
pub(crate) async fn pause(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<String>,
) -> Result<Json<BatchView>, Problem> {
    let batch = find(&house, &acting, &id).await?;
    if !house.parts.store.stop_batch(batch.id, Stopped::Paused).await? {
        return Err(not_now(&batch, format!("it is {} and has nothing left to begin", batch.status)));
    }
    Ok(Json(show(&house, find(&house, &acting, &id).await?).await?))
}

/// Resumes a batch
///
/// One that was paused; one that has cost what it may, with a higher `max_usd`; or, with `only`, one that is over: its
/// lines that ended so are run again, and their results are added to those there are.
#[utoipa::path(
    post, path = "/v1/batches/{id}/resume", tag = "bulk", operation_id = "resume_batch", request_body = Resume,
    params(("id" = String, Path, description = "The batch.")),
    responses(
        (status = 200, description = "It goes on.", body = BatchView),
        (status = 404, description = "There is no such batch.", body = ErrorReply),
        (status = 409, description = "There is nothing to resume.", body = ErrorReply)
    )
)]
pub(crate) async fn resume(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<String>,
    MaybeBody(how): MaybeBody<Resume>,
) -> Result<Json<BatchView>, Problem> {
    let how = how.unwrap_or_default();
    let batch = find(&house, &acting, &id).await?;
    let store = &house.parts.store;
    if how.only.is_none() && batch.stopped.is_none() {
        return Err(not_stopped(&batch));
    }
    let cap = how.max_usd.map(micro_usd).transpose()?;
    let capped = cap.or(batch.max_micro_usd).is_some_and(|it| it <= batch.micro_usd);
    if capped {
        let words = format!("it has cost {} US dollars and may cost no more", usd(batch.micro_usd));
        return Err(not_now(&batch, words).mend("send a higher `max_usd`"));
    }
    match how.only {
        Some(only) => {
            let state = match only {
                Only::Failed => ItemState::Failed,
                Only::Expired => ItemState::Expired,
            };
            let seconds = window(&batch.completion_window)?;
            let reopened = store.reopen_batch(batch.id, state, seconds, cap).await?;
            if !matches!(reopened, Some(1..)) {
                return Err(no_line(&batch, only, reopened.is_some()));
            }
        }
        None => {
            if !store.resume_batch(batch.id, cap).await? {
                return Err(not_stopped(&find(&house, &acting, &id).await?));
            }
        }
    }
    house.stirred.send_replace(());
    Ok(Json(show(&house, find(&house, &acting, &id).await?).await?))
}

fn not_stopped(batch: &Batch) -> Problem {
    let (words, mend) = match batch.status.is_open() {
        true => ("and not stopped, so it goes on by itself", "wait for its end"),
        false => (
            "and nothing of it waits to be begun",
            "say `{\"only\": \"failed\"}` or `{\"only\": \"expired\"}` to run such lines of it again",
        ),
    };
    not_now(batch, format!("it is {} {words}", batch.status)).mend(mend)
}

pub(super) fn not_now(batch: &Batch, words: String) -> Problem {
    Kind::NotNow.because(format!("batch {}: {words}", name(batch.id)))
}
