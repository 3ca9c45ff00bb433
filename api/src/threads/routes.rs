//! Routes that show a thread, show its state, verify it and replay it.

use std::sync::Arc;

use ::threads::{Audited, Rebuilt};
use api_types::{
    AttachmentCheck, ChainCheck, LogStatus, Message, Problem, Replay, RowCheck, Thread, ThreadState,
    Verification,
};
use axum::{Json, extract::State};
use serde::Deserialize;
use shared::{DivergenceCounts, Replayer};
use store::{Differs, Finding, Mistyped, ThreadId, ThreadScan, Wrong};
use utoipa::IntoParams;
use uuid::Uuid;

use super::view::{Shown, view};
use crate::{
    logs::{
        folded::{Folded, interrupt, invalid_log},
        folded_log::graph_of,
        lookup::find_thread,
    },
    server::{
        extract::{Path, Query},
        principal::Principal,
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
};

/// Maximum number of divergences in a response. All of them are counted.
const DIVERGENCES_MAX: usize = 1_000;

/// Show a thread
///
/// Returns one thread with the end of its conversation, its open question and its usage.
#[utoipa::path(
    get, path = "/v1/threads/{id}", tag = "threads", operation_id = "get_thread",
    params(("id" = Uuid, Path, description = "Id of the thread."), Shown),
    responses(
        (status = 200, description = "The thread.", body = Thread),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
    Query(shown): Query<Shown>,
) -> Result<Json<Thread>, ApiError> {
    Ok(Json(view(&app, find_thread(&app, &principal, id).await?, shown).await?))
}

/// Query parameters of a request that reads a thread as of an event.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AtParams {
    /// Last event to fold. Default: the last event of the log.
    #[param(example = 0)]
    pub(crate) at: Option<u64>,
}

/// Query parameters of the state of a thread.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StateParams {
    /// Last event to fold. Default: the last event of the log.
    #[param(example = 0)]
    at: Option<u64>,
    /// Maximum number of messages: the last ones. Default: 1000.
    #[param(minimum = 0, maximum = 1000)]
    messages: Option<u64>,
    /// Only messages before this one: `first_message` of the later part.
    #[param(example = 1000)]
    before: Option<u64>,
}

/// Show the state of a thread at an event
///
/// Folds the events from 0 to `at`.
#[utoipa::path(
    get, path = "/v1/threads/{id}/state", tag = "threads", operation_id = "get_thread_state",
    params(("id" = Uuid, Path, description = "Id of the thread."), StateParams),
    responses(
        (status = 200, description = "The state.", body = ThreadState),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The event does not exist yet.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn state(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
    Query(StateParams { at, messages, before }): Query<StateParams>,
) -> Result<Json<ThreadState>, ApiError> {
    find_thread(&app, &principal, id).await?;
    let folded = Folded::load(&app, id, at).await?;
    let thread = &*folded.thread;
    let shown = Shown { messages, before }.of(thread.messages().len())?;
    let standing = thread.status();
    let unserializable =
        |err: serde_json::Error| Kind::Internal.because(format!("the state cannot be serialized: {err}"));
    Ok(Json(ThreadState {
        seq: folded.seq(),
        state: thread.state().map_err(unserializable)?,
        first_message: shown.start as u64,
        messages: thread.messages()[shown].iter().map(Message::from).collect(),
        log_status: LogStatus::from(&standing),
        interrupt: interrupt(thread, &folded.in_doubt),
        node: thread.node(),
        config: thread.config().map_err(unserializable)?,
    }))
}

/// Verify the integrity of a thread
///
/// Checks the hash chain: whether the stored bytes are the bytes that were appended. Then compares the images and files with their
/// hashes, and the rows of the thread and its turns with the log. Nothing is written. To compare the log with today's code, use `GET /v1/threads/{id}/replay`.
#[utoipa::path(
    get, path = "/v1/threads/{id}/verify", tag = "threads", operation_id = "verify_thread",
    params(("id" = Uuid, Path, description = "Id of the thread.")),
    responses(
        (status = 200, description = "The result of the check.", body = Verification),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn verify(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
) -> Result<Json<Verification>, ApiError> {
    find_thread(&app, &principal, id).await?;
    let Ok(_permit) = app.replays.acquire().await else {
        return Err(Kind::Unavailable.because("the API is stopping"));
    };
    let store = &app.backends.store;
    let one = ThreadScan::of(id, 1);
    let Audited { verified, rebuilt, .. } =
        ::threads::verify(store, &app.strategies, &one, Arc::new(())).await?;
    let (attachments, others): (Vec<_>, Vec<_>) =
        verified.findings.into_iter().partition(|finding| finding.wrong == Wrong::Attachment);
    let chain = match others.into_iter().find(|finding| finding.wrong != Wrong::Unreadable) {
        None => {
            let head = Some(hex::encode(store.head(id).await?.hash));
            ChainCheck { intact: true, head, broken_at: None, problem: None }
        }
        Some(Finding { seq, what, .. }) => {
            ChainCheck { intact: false, head: None, broken_at: Some(seq), problem: Some(what) }
        }
    };
    let rows = if chain.intact {
        row_check(rebuilt, &verified.mistyped)
    } else {
        RowCheck { not_checked: Some("the hash chain is broken".to_owned()), ..RowCheck::default() }
    };
    let attachments =
        AttachmentCheck { differences: attachments.into_iter().map(|finding| finding.what).collect() };
    let ok = chain.intact && attachments.differences.is_empty();
    Ok(Json(Verification { ok, events: verified.events, chain, attachments, rows }))
}

/// Returns the differences between the rows of a thread and its log.
fn row_check(rebuilt: Rebuilt, mistyped: &[Mistyped]) -> RowCheck {
    let mut rows = RowCheck::default();
    for difference in rebuilt.differences {
        if matches!(difference.differs, Differs::Unfolded | Differs::Moving) {
            rows.not_checked = Some(difference.what);
        } else if difference.differs != Differs::Mistyped {
            rows.differences.push(difference.what);
        }
    }
    rows.differences.extend(mistyped.iter().map(ToString::to_string));
    rows
}

/// Query parameters of a replay.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReplayParams {
    /// If true, requests count as differences whose prompts have a different text, or whose tools or replies are described
    /// differently. Default: false.
    #[serde(default)]
    prompts: bool,
}

/// Replay a thread
///
/// Runs today's code against the recorded log and reports where it would decide differently. Nothing is written, and no
/// model or tool is called.
#[utoipa::path(
    get, path = "/v1/threads/{id}/replay", tag = "threads", operation_id = "replay_thread",
    params(("id" = Uuid, Path, description = "Id of the thread."), ReplayParams),
    responses(
        (status = 200, description = "The differences.", body = Replay),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn replay(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
    Query(ReplayParams { prompts }): Query<ReplayParams>,
) -> Result<Json<Replay>, ApiError> {
    find_thread(&app, &principal, id).await?;
    let events = app.backends.store.head(id).await?.seq;
    let (mut counts, mut divergences) = (DivergenceCounts::default(), Vec::new());
    let count = |divergence: shared::Divergence| {
        counts.add(&divergence.field);
        if (prompts || !divergence.field.is_wording()) && divergences.len() < DIVERGENCES_MAX {
            divergences.push(divergence);
        }
    };
    let unreadable = match run_replay(&app, id, count).await {
        Ok(()) => None,
        Err(error) if error.kind == Kind::Damaged => Some(error.detail().to_owned()),
        Err(error) => return Err(error),
    };
    divergences.sort_by_key(|divergence| (divergence.field.is_wording(), divergence.seq));
    let DivergenceCounts { diverged, reworded, redescribed } = counts;
    let ok = counts.is_same(prompts) && unreadable.is_none();
    let divergences = divergences.into_iter().map(Into::into).collect();
    Ok(Json(Replay { ok, events, diverged, reworded, redescribed, divergences, unreadable }))
}

/// Passes every divergence of a thread to `report`.
async fn run_replay(
    app: &AppState,
    id: ThreadId,
    mut report: impl FnMut(shared::Divergence),
) -> Result<(), ApiError> {
    let mut verifier = Replayer::new(graph_of(app, id).await?);
    let each = |recorded: store::Recorded| {
        verifier.see(&recorded.event).map_err(|err| invalid_log(&err))?.into_iter().for_each(&mut report);
        Ok::<(), ApiError>(())
    };
    app.backends.store.along(id, 0, None, each).await
}
