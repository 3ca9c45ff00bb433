//! Routes that cancel and retry turns.

use api_types::{Problem, Turn};
use axum::{Json, extract::State};
use queue::clock::rfc3339;
use shared::TurnStatus;
use shared::{Event, Retried, RunStatus};
use store::{CancelRequest, ThreadId, TurnId, Withdrawal};
use threads::ThreadLog;
use uuid::Uuid;

use super::lookup::{find, load, show};
use crate::{
    logs::folded::Folded,
    server::{
        extract::Path,
        openai_ids::batch_name,
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
};

/// Attempts before a concurrent change is reported to the client.
const ATTEMPTS: u32 = 5;

/// Cancel a turn
///
/// A queued turn never starts. A turn that is running, waiting for an answer or failed ends before its next step, however fast its
/// worker is, and its thread becomes idle. Completed steps are not undone; an answer that is still on its way is dropped.
#[utoipa::path(
    post, path = "/v1/turns/{id}/cancel", tag = "turns", operation_id = "cancel_turn",
    params(
        ("id" = Uuid, Path, description = "Id of the turn."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who cancels the turn. Default: `api`.")
    ),
    responses(
        (status = 200, description = "The turn is cancelled.", body = Turn),
        (status = 404, description = "The turn does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The turn has ended.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn cancel(
    State(app): SharedState,
    principal: Principal,
    by: Actor,
    Path(id): Path<Uuid>,
) -> Result<Json<Turn>, ApiError> {
    find(&app, &principal, id).await?;
    cancel_turn(&app, id, &by).await?;
    Ok(Json(show(&app, load(&app, id).await?).await?))
}

/// Cancels a turn, then wakes its worker and enqueues its thread.
pub(crate) async fn cancel_turn(app: &AppState, id: TurnId, by: &Actor) -> Result<(), ApiError> {
    let changed = retry_if_stale(|| try_cancel(app, id, by)).await?;
    tracing::info!(turn = %id, "turn cancelled");
    if let Some(thread) = changed {
        app.wake_worker(thread).await;
        app.enqueue(thread).await;
    }
    Ok(())
}

/// Cancels a turn and returns the thread to enqueue. A queued turn returns none: its thread has not changed, and another job
/// would bring a second worker to it.
async fn try_cancel(app: &AppState, id: TurnId, by: &Actor) -> Result<Option<ThreadId>, ApiError> {
    let turn = load(app, id).await?;
    let ended = || Kind::Ended.because(format!("turn {id} is {} and its thread has continued", turn.status));
    match turn.status {
        TurnStatus::Completed | TurnStatus::Cancelled => Err(ended()),
        TurnStatus::Queued => match app.backends.store.cancel_queued(id).await? {
            Withdrawal::Withdrawn => {
                app.notify_followers(turn.thread).await;
                Ok(None)
            }
            Withdrawal::TooLate(_) => Err(Kind::Stale.because(format!("turn {id} is starting now"))),
        },
        TurnStatus::Running | TurnStatus::Interrupted | TurnStatus::Failed => {
            let request = CancelRequest {
                thread: turn.thread,
                turn: id,
                actor: by.name.clone(),
                caller: by.caller.clone(),
                rolled_back: false,
            };
            app.backends.store.request_cancel(&request).await?;
            let obeyed = obey(app, &request).await?;
            let is_cancelled = obeyed || load(app, id).await?.status == TurnStatus::Cancelled;
            if is_cancelled { Ok(Some(turn.thread)) } else { Err(ended()) }
        }
    }
}

/// Cancels the turn of a stored request. Returns false if the turn ended before, or another caller has cancelled it.
pub(crate) async fn obey(app: &AppState, request: &CancelRequest) -> Result<bool, ApiError> {
    Ok(match Folded::open(app, request.thread).await {
        Ok(log) => threads::cancel_requested_turn(&app.backends, log, request).await?,
        // It may be impossible to fold; then the request is deleted.
        Err(_) => threads::obey_cancel_request(&app.backends, &app.strategies, request).await?,
    })
}

/// Retry a failed turn
///
/// The failed node runs again. Only the last turn of a thread can be retried, and not if it belongs to a batch line that
/// was run again since.
#[utoipa::path(
    post, path = "/v1/turns/{id}/retry", tag = "turns", operation_id = "retry_turn",
    params(
        ("id" = Uuid, Path, description = "Id of the turn."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who retries the turn. Default: `api`.")
    ),
    responses(
        (status = 200, description = "The turn is running again.", body = Turn),
        (status = 404, description = "The turn does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The turn has not failed, its thread has continued, or its batch has run the line again.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn retry(
    State(app): SharedState,
    principal: Principal,
    by: Actor,
    Path(id): Path<Uuid>,
) -> Result<Json<Turn>, ApiError> {
    find(&app, &principal, id).await?;
    let thread = retry_if_stale(|| try_retry(&app, id, &by)).await?;
    tracing::info!(%thread, turn = %id, "turn retried");
    app.enqueue(thread).await;
    Ok(Json(show(&app, load(&app, id).await?).await?))
}

async fn try_retry(app: &AppState, id: TurnId, by: &Actor) -> Result<ThreadId, ApiError> {
    let turn = load(app, id).await?;
    if turn.status != TurnStatus::Failed {
        return Err(Kind::NotFailed.because(format!("turn {id} is {}", turn.status)));
    }
    let not_last = || {
        let detail = format!("turn {id} never started, or its thread has continued");
        Kind::NotFailed.because(detail).hint("submit it as a new turn")
    };
    if turn.started_seq.is_none() {
        return Err(not_last());
    }
    // The batch would ignore the result, and both turns would be paid for.
    if let Some((batch, nth)) = app.backends.store.begun_anew(turn.thread).await? {
        let batch = batch_name(batch);
        let detail = format!("turn {id} belongs to line {nth} of batch {batch}, which was run again since");
        return Err(Kind::NotFailed.because(detail).hint("find the line's current turn in the batch"));
    }
    let mut log = Folded::open(app, turn.thread).await?;
    match log.thread().status() {
        RunStatus::Failed { .. } if log.thread().turn() == Some(id) => {
            let forgotten = app.backends.store.forgotten_models().await?;
            let times = forgotten.into_iter().map(|request| (request.model, rfc3339(request.at))).collect();
            let forgotten_models = log.thread().models_to_forget(&times);
            let (actor, caller) = (by.name.clone(), by.caller.clone());
            append(app, &mut log, Retried { actor, caller, forgotten_models }.into()).await?;
            Ok(turn.thread)
        }
        RunStatus::Failed { .. } | RunStatus::Idle | RunStatus::Busy | RunStatus::Waiting(_) => {
            Err(not_last())
        }
    }
}

/// Appends an event atomically.
pub(crate) async fn append(app: &AppState, log: &mut ThreadLog, event: Event) -> Result<(), ApiError> {
    log.push(event)?;
    Ok(log.flush(&app.backends).await?)
}

/// Runs `action` and repeats it after a concurrent change, which may have changed what is to be done.
pub(crate) async fn retry_if_stale<T, F>(action: impl Fn() -> F) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, ApiError>>,
{
    for _ in 1..ATTEMPTS {
        match action().await {
            Err(error) if error.kind == Kind::Stale => tracing::debug!("concurrent change; trying again"),
            done => return done,
        }
    }
    action().await
}
