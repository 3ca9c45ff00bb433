//! Routes that create, show, cancel, pause and resume batches.

use api_types::{NewBatch, Problem, ResumeBatch, Reuse};
use axum::{
    Json,
    extract::State,
    http::HeaderValue,
    response::{IntoResponse, Response},
};
use queue::Priority;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use shared::{DEFAULT_TENANT, usd};
use store::{
    Idempotency,
    batches::{Batch, BatchStatus, KnownBy, Rerun},
};
use utoipa::IntoParams;

use super::{
    endpoint::BatchEndpoint,
    lookup::{find, not_now},
    quote,
    rerun::{no_line, state as rerun_state},
    view::show,
};
use crate::{
    files::lookup::{find_file, retention, unknown_file},
    server::{
        bounds,
        extract::{Attempt, Body, IdempotencyKey, MaybeBody, Path, Query},
        openai_ids::file_id,
        principal::{Actor, Decider, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
    turns::submit::REPLAYED,
};

/// Maximum duration of a batch in seconds.
const WINDOW_MAX: u64 = 30 * 24 * 60 * 60;

/// Maximum cost that a client may set, in US dollars.
const MAX_USD: f64 = 1e9;

/// Maximum number of metadata pairs, and maximum length of a name and a value in bytes.
const PAIRS: usize = 16;
const PAIR_NAME: usize = 64;
const PAIR_VALUE: usize = 512;

/// Query parameters of the creation of a batch.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CreateParams {
    /// If true, predicts the cost and duration instead of creating the batch. Default: false.
    quote: Option<bool>,
    /// With `quote`: number of workers, which the API does not know. Default: 1.
    #[param(minimum = 1, maximum = 1000000)]
    workers: Option<u64>,
}

/// Create a batch
///
/// The lines of the file are validated one after another. Each valid line becomes a turn on a thread of its own, which
/// may start while later lines are validated; invalid lines are reported by number. Until the last line is validated,
/// the status is `validating` and `total` grows. With `Idempotency-Key`, repeating the request with the same body
/// returns the same batch, even if its file is gone. OpenAI's client libraries send no key, but repeat a request after
/// a broken connection and report it; for half an hour, a repetition with the same body and file returns the same batch.
///
/// With `quote=true`, the lines are validated but nothing is created. The response predicts the cost and duration, as
/// `GET /v1/batches/{id}/quote` does for an existing batch.
#[utoipa::path(
    post, path = "/v1/batches", tag = "bulk", operation_id = "create_batch", request_body = NewBatch,
    params(
        CreateParams,
        ("Idempotency-Key" = Option<String>, Header, description = "Key that identifies repetitions of this request."),
        ("traceparent" = Option<String>, Header, description = "Span of the client (W3C Trace Context), the parent of the turns in traces."),
        ("X-Stainless-Retry-Count" = Option<u32>, Header, description = "Number of earlier attempts, as reported by OpenAI's client libraries."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who creates the batch. Default: `api`.")
    ),
    responses(
        (status = 200, description = "The batch; it is being validated.", body = api_types::Batch,
         headers(("Idempotency-Replayed" = Option<String>, description = "`true` if the batch was created before."))),
        (status = 404, description = "The file does not exist.", body = Problem),
        (status = 409, description = "The idempotency key was used for another request.", body = Problem),
        (status = 400, description = "The request is invalid; `message` names the field.", body = Problem),
        (status = 507, description = "The tenant may store nothing more.", body = Problem)
    )
)]
pub(crate) async fn create(
    State(app): SharedState,
    principal: Principal,
    author: Actor,
    IdempotencyKey(key): IdempotencyKey,
    attempt: Option<Attempt>,
    Query(params): Query<CreateParams>,
    Body { value: new, raw }: Body<NewBatch>,
) -> Result<Response, ApiError> {
    let known_by = match key {
        Some(key) => KnownBy::Key(key),
        None if attempt == Some(Attempt::Retry) => KnownBy::Content,
        None => KnownBy::Nothing,
    };
    let request = Request { author, request_hash: hex::encode(Sha256::digest(&raw)), known_by };
    if params.quote == Some(true) {
        let new = checked(&app, &principal, request, new).await?;
        return Ok(Json(quote::quote_new(&app, &new, params.workers).await?).into_response());
    }
    let (batch, is_new) = create_batch(&app, &principal, request, new).await?;
    app.batches_changed.send_replace(());
    tracing::info!(batch = %batch.id, is_new, "batch created");
    let mut response = Json(show(&app, batch).await?).into_response();
    if !is_new {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Author of a request, and its identification.
struct Request {
    author: Actor,
    request_hash: String,
    known_by: KnownBy,
}

/// Creates a batch, unless the request is a repetition. Returns the batch and whether it is new.
///
/// ## Why a deleted file is no error for a repetition
///
/// A batch outlives its file, and a client that missed the response repeats the request.
async fn create_batch(
    app: &AppState,
    principal: &Principal,
    request: Request,
    new: NewBatch,
) -> Result<(Batch, bool), ApiError> {
    let (store, name) = (&app.backends.store, new.input_file_id.clone());
    let idempotency = match &request.known_by {
        KnownBy::Key(key) => {
            Some(Idempotency { key: key.clone(), request_hash: request.request_hash.clone() })
        }
        KnownBy::Nothing | KnownBy::Content => None,
    };
    match checked(app, principal, request, new).await {
        Ok(new) => store.make_batch(new).await?.ok_or_else(|| unknown_file(&name)),
        Err(gone) if gone.kind == Kind::UnknownFile => {
            let Some((file, idempotency)) = file_id(&name).zip(idempotency) else { return Err(gone) };
            let known = store.made_batch(principal.only(), file, &idempotency).await?;
            known.map(|batch| (batch, false)).ok_or(gone)
        }
        Err(error) => Err(error),
    }
}

/// Checks a request to create a batch.
///
/// # Errors
///
/// [`Kind::UnknownFile`], [`Kind::Invalid`] and others if it cannot be created.
pub(crate) async fn check(
    app: &AppState,
    principal: &Principal,
    author: Actor,
    new: NewBatch,
) -> Result<(), ApiError> {
    let request = Request { author, request_hash: String::new(), known_by: KnownBy::Nothing };
    checked(app, principal, request, new).await.map(drop)
}

async fn checked(
    app: &AppState,
    principal: &Principal,
    request: Request,
    new: NewBatch,
) -> Result<store::batches::NewBatch, ApiError> {
    let file = find_file(app, principal, &new.input_file_id).await?;
    app.storage_left(&file.tenant).await?;
    let endpoint = BatchEndpoint::of_request(&new.endpoint)?;
    let output_seconds = new
        .output_expires_after
        .map(|expiry| retention(&expiry, |field| format!("output_expires_after.{field}")))
        .transpose()?;
    let lines = bounds::check("window", new.window, &bounds::WINDOW)?;
    let item_seconds = bounds::check("expires_after", new.expires_after, &bounds::LINE_SECONDS)?;
    Ok(store::batches::NewBatch {
        by_operator: principal.only().is_none() && file.tenant == DEFAULT_TENANT,
        // The batch belongs to the owner of the file: an operator's batch with a tenant's file is that tenant's.
        tenant: file.tenant,
        author: request.author.name,
        caller: request.author.caller,
        trace_parent: request.author.trace_parent,
        endpoint: endpoint.url().to_owned(),
        input_file: file.id,
        seconds: window(&new.completion_window)?,
        completion_window: new.completion_window,
        metadata: Value::Object(metadata(new.metadata.unwrap_or_default())?),
        output_seconds,
        reuse: new.reuse == Reuse::Succeeded,
        max_micro_usd: new.max_usd.map(micro_usd).transpose()?,
        window: lines.unwrap_or(app.batches.window).min(app.batches.window),
        item_seconds,
        priority: new.priority.unwrap_or(Priority::Low),
        request_hash: request.request_hash,
        known_by: request.known_by,
    })
}

/// Parses a completion window. Returns it in seconds.
fn window(text: &str) -> Result<u64, ApiError> {
    let wrong = || {
        let detail = format!(
            "completion_window: {text:?} is not a number followed by s, m, h, d or w, or is longer than 30 days; try \"24h\""
        );
        Kind::Invalid.because(detail)
    };
    let seconds = queue::clock::parse_duration(text)
        .map(|duration| duration.as_secs())
        .filter(|seconds| (1..=WINDOW_MAX).contains(seconds));
    seconds.ok_or_else(wrong)
}

fn metadata(pairs: Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let fits = |(name, text): (&String, &Value)| {
        name.len() <= PAIR_NAME && text.as_str().is_some_and(|value| value.len() <= PAIR_VALUE)
    };
    if pairs.len() <= PAIRS && pairs.iter().all(fits) {
        return Ok(pairs);
    }
    let detail = format!(
        "metadata can have up to {PAIRS} pairs, with names of {PAIR_NAME} and values of {PAIR_VALUE} bytes"
    );
    Err(Kind::Invalid.because(detail))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is positive, and saturates only far beyond any useful limit"
)]
fn micro_usd(usd: f64) -> Result<u64, ApiError> {
    if usd > 0.0 && usd <= MAX_USD {
        return Ok((usd * 1e6).ceil() as u64);
    }
    Err(Kind::Invalid.because("max_usd must be greater than 0, and at most 1000000000"))
}

/// Show a batch
///
/// Returns the batch with current counts, rate, cost and the most frequent causes of unsuccessful lines.
#[utoipa::path(
    get, path = "/v1/batches/{id}", tag = "bulk", operation_id = "get_batch",
    params(("id" = String, Path, description = "Id of the batch.")),
    responses(
        (status = 200, description = "The batch.", body = api_types::Batch),
        (status = 404, description = "The batch does not exist.", body = Problem)
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<String>,
) -> Result<Json<api_types::Batch>, ApiError> {
    let batch = find(&app, &principal, &id).await?;
    Ok(Json(show(&app, batch).await?))
}

/// Cancel a batch
///
/// Lines that were not submitted never run. Turns that are running or waiting for a person are cancelled. Results of
/// ended lines are kept.
#[utoipa::path(
    post, path = "/v1/batches/{id}/cancel", tag = "bulk", operation_id = "cancel_batch",
    params(
        ("id" = String, Path, description = "Id of the batch."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The batch is being cancelled.", body = api_types::Batch),
        (status = 404, description = "The batch does not exist.", body = Problem),
        (status = 409, description = "The batch has ended.", body = Problem)
    )
)]
pub(crate) async fn cancel(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<String>,
) -> Result<Json<api_types::Batch>, ApiError> {
    let batch = find(&app, &principal, &id).await?;
    let changed = app.backends.store.cancel_batch(batch.id, by).await?;
    let now = find(&app, &principal, &id).await?;
    if !changed && !matches!(now.status, BatchStatus::Cancelling | BatchStatus::Cancelled) {
        return Err(not_now(&now, &format!("it is {} and cannot be cancelled", now.status)));
    }
    app.batches_changed.send_replace(());
    Ok(Json(show(&app, now).await?))
}

/// Pause a batch
///
/// No more lines are submitted. Submitted lines continue.
#[utoipa::path(
    post, path = "/v1/batches/{id}/pause", tag = "bulk", operation_id = "pause_batch",
    params(
        ("id" = String, Path, description = "Id of the batch."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The batch is paused.", body = api_types::Batch),
        (status = 404, description = "The batch does not exist.", body = Problem),
        (status = 409, description = "The batch has ended.", body = Problem)
    )
)]
pub(crate) async fn pause(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<String>,
) -> Result<Json<api_types::Batch>, ApiError> {
    let batch = find(&app, &principal, &id).await?;
    if !app.backends.store.pause_batch(batch.id, by).await? {
        return Err(not_now(&batch, &format!("it is {} and has no lines left to submit", batch.status)));
    }
    Ok(Json(show(&app, find(&app, &principal, &id).await?).await?))
}

/// Resume a batch
///
/// Continues a paused batch, or one that reached its cost limit, with a higher `max_usd`. With `only`, runs the
/// matching lines of an ended batch again and adds their results; with `cause`, only those with this cause.
#[utoipa::path(
    post, path = "/v1/batches/{id}/resume", tag = "bulk", operation_id = "resume_batch", request_body = ResumeBatch,
    params(
        ("id" = String, Path, description = "Id of the batch."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The batch continues.", body = api_types::Batch),
        (status = 404, description = "The batch does not exist.", body = Problem),
        (status = 409, description = "The batch has nothing to resume.", body = Problem)
    )
)]
pub(crate) async fn resume(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<String>,
    MaybeBody(params): MaybeBody<ResumeBatch>,
) -> Result<Json<api_types::Batch>, ApiError> {
    let params = params.unwrap_or_default();
    let batch = find(&app, &principal, &id).await?;
    let store = &app.backends.store;
    if params.only.is_none() && params.cause.is_some() {
        return Err(Kind::Invalid
            .because("`cause` requires `only`")
            .hint("send `rerun` of the cause as `only`"));
    }
    if params.only.is_none() && batch.stopped.is_none() {
        return Err(not_stopped(&batch));
    }
    let cap = params.max_usd.map(micro_usd).transpose()?;
    let capped = cap.or(batch.max_micro_usd).is_some_and(|cap| cap <= batch.micro_usd);
    if capped {
        let detail = format!("it has cost {} US dollars, which reaches its limit", usd(batch.micro_usd));
        return Err(not_now(&batch, &detail).hint("send a higher `max_usd`"));
    }
    match params.only {
        Some(only) => {
            let rerun = Rerun { state: rerun_state(only), cause: params.cause };
            let has_cause = rerun.cause.is_some();
            let seconds = window(&batch.completion_window)?;
            let reopened = store.reopen_batch(batch.id, rerun, seconds, cap, by).await?;
            if !matches!(reopened, Some(1..)) {
                return Err(no_line(&batch, only, has_cause, reopened.is_some()));
            }
        }
        None => {
            if !store.resume_batch(batch.id, cap, by).await? {
                return Err(not_stopped(&find(&app, &principal, &id).await?));
            }
        }
    }
    app.batches_changed.send_replace(());
    Ok(Json(show(&app, find(&app, &principal, &id).await?).await?))
}

fn not_stopped(batch: &Batch) -> ApiError {
    let (detail, hint) = match batch.status.is_open() {
        true => ("and not stopped, so it continues anyway", "wait until it has ended"),
        false => (
            "and has no lines left to submit",
            "to run lines again, send `{\"only\": \"failed\"}` or `{\"only\": \"expired\"}`",
        ),
    };
    not_now(batch, &format!("it is {} {detail}", batch.status)).hint(hint)
}
