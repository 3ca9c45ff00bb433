//! What a person does to a turn that is there: call it off, retry it.

use axum::{Json, extract::State};
use shared::{Cancelled, Event, Retried, Standing};
use store::{ThreadId, ThreadLog, TurnId, TurnStatus, Withdrawal};
use uuid::Uuid;

use crate::{
    auth::{Acting, By},
    batches::wire::name,
    extract::Path,
    house::{House, Inside},
    problem::{Kind, Problem},
    schema::Turn,
    turns::{find, look, show},
};

/// How often somebody who was not first looks again.
const TRIES: u32 = 5;

/// Calls off a turn
///
/// A queued turn will never be heard. One that is under way, waits for an answer or has failed comes to rest where it
/// is; what it has done stays done, and an answer that is still on its way is dropped.
#[utoipa::path(
    post, path = "/v1/turns/{id}/cancel", tag = "turns", operation_id = "cancel_turn",
    params(
        ("id" = Uuid, Path, description = "The turn."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who says so; `api` if nobody does.")
    ),
    responses(
        (status = 200, description = "It is called off.", body = Turn),
        (status = 404, description = "There is no such turn.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It has ended.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn cancel(
    State(house): Inside,
    acting: Acting,
    By(by): By,
    Path(id): Path<Uuid>,
) -> Result<Json<Turn>, Problem> {
    find(&house, &acting, id).await?;
    withdraw(&house, id, &by).await?;
    Ok(Json(show(&house, look(&house, id).await?).await?))
}

/// Calls a turn off, and rings for whoever waited for its end.
pub(crate) async fn withdraw(house: &House, id: TurnId, by: &str) -> Result<(), Problem> {
    let moved = first_or_again(|| call_off(house, id, by)).await?;
    tracing::info!(turn = %id, "cancelled");
    if let Some(thread) = moved {
        house.recall(thread).await;
        house.ring(thread).await;
    }
    Ok(())
}

/// Calls it off; the thread that this has moved. A turn that nobody has heard moves none: a ring would bring a second worker
/// to a thread that one is at.
async fn call_off(house: &House, id: TurnId, by: &str) -> Result<Option<ThreadId>, Problem> {
    let turn = look(house, id).await?;
    let ended = || Kind::Ended.because(format!("turn {id} is {} and its thread is past it", turn.status));
    match turn.status {
        TurnStatus::Completed | TurnStatus::Cancelled => Err(ended()),
        TurnStatus::Queued => match house.parts.store.cancel_queued(id).await? {
            Withdrawal::Withdrawn => {
                house.nudge(turn.thread).await;
                Ok(None)
            }
            Withdrawal::TooLate(_) => Err(Kind::Stale.because(format!("turn {id} is being heard right now"))),
        },
        TurnStatus::Running | TurnStatus::Interrupted | TurnStatus::Failed => {
            let mut log = ThreadLog::open(&house.parts, &house.strategies, turn.thread).await?;
            if log.thread().turn() != Some(id) || log.thread().standing() == Standing::Idle {
                return Err(ended());
            }
            append(house, &mut log, Cancelled { by: by.to_owned() }.into()).await?;
            Ok(Some(turn.thread))
        }
    }
}

/// Retries a turn that failed
///
/// Its node tries again what it could not do. Only the turn that its thread stands at can be retried, and none of a line of a
/// batch that was run again since.
#[utoipa::path(
    post, path = "/v1/turns/{id}/retry", tag = "turns", operation_id = "retry_turn",
    params(
        ("id" = Uuid, Path, description = "The turn."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who says so; `api` if nobody does.")
    ),
    responses(
        (status = 200, description = "It is under way again.", body = Turn),
        (status = 404, description = "There is no such turn.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It has not failed, its thread is past it, or the batch that began it has run its line again.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn retry(
    State(house): Inside,
    acting: Acting,
    By(by): By,
    Path(id): Path<Uuid>,
) -> Result<Json<Turn>, Problem> {
    find(&house, &acting, id).await?;
    let thread = first_or_again(|| try_again(&house, id, &by)).await?;
    tracing::info!(%thread, turn = %id, "retried");
    house.ring(thread).await;
    Ok(Json(show(&house, look(&house, id).await?).await?))
}

async fn try_again(house: &House, id: TurnId, by: &str) -> Result<ThreadId, Problem> {
    let turn = look(house, id).await?;
    if turn.status != TurnStatus::Failed {
        return Err(Kind::NotFailed.because(format!("turn {id} is {}", turn.status)));
    }
    let past = || {
        let words = format!("turn {id} was never heard, or its thread is past it");
        Kind::NotFailed.because(words).mend("submit it as a new turn")
    };
    if turn.heard_seq.is_none() {
        return Err(past());
    }
    // Its answer would be nobody's, and both would be paid.
    if let Some((batch, nth)) = house.parts.store.begun_anew(turn.thread).await? {
        let words =
            format!("turn {id} was of line {nth} of batch {}, which was run again since", name(batch));
        return Err(Kind::NotFailed.because(words).mend("look at the batch for the turn that counts"));
    }
    let mut log = ThreadLog::open(&house.parts, &house.strategies, turn.thread).await?;
    match log.thread().standing() {
        Standing::Failed { .. } if log.thread().turn() == Some(id) => {
            append(house, &mut log, Retried { by: by.to_owned() }.into()).await?;
            Ok(turn.thread)
        }
        Standing::Failed { .. } | Standing::Idle | Standing::Busy | Standing::Waiting(_) => Err(past()),
    }
}

/// Appends an event, all or nothing.
pub(crate) async fn append(house: &House, log: &mut ThreadLog, event: Event) -> Result<(), Problem> {
    log.push(event)?;
    Ok(log.flush(&house.parts).await?)
}

/// Does `what`, and does it anew if someone else was first: what they did may have changed what is to be done.
pub(crate) async fn first_or_again<T, F>(what: impl Fn() -> F) -> Result<T, Problem>
where
    F: Future<Output = Result<T, Problem>>,
{
    for _ in 1..TRIES {
        match what().await {
            Err(problem) if problem.kind == Kind::Stale => {
                tracing::debug!("someone else was first; looking again")
            }
            done => return done,
        }
    }
    what().await
}
