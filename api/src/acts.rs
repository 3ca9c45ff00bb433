//! What a person does to a turn or a thread that is there: call off, retry, answer, tell what had become of a call.

use axum::{Json, extract::State, response::Response};
use serde_json::{Map, Value};
use shared::{Cancelled, Event, InterruptKind, Message, Policy, Question, Reconciled, Retried, Standing};
use store::{Idempotency, Opening, ThreadId, ThreadLog, TurnId, TurnStatus, Withdrawal};
use uuid::Uuid;

use crate::{
    auth::By,
    extract::{Body, IdempotencyKey, Path, Query},
    fold::Log,
    house::{House, Inside},
    problem::{Kind, Problem},
    schema::{Answer, Reconcile, ThreadView, Turn},
    submit::{hash_of, take_in},
    threads::view,
    turns::{Patience, find, show},
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
    By(by): By,
    Path(id): Path<Uuid>,
) -> Result<Json<Turn>, Problem> {
    let thread = first_or_again(|| call_off(&house, id, &by)).await?;
    tracing::info!(%thread, turn = %id, "cancelled");
    // Others may have waited for its end.
    house.ring(thread).await;
    Ok(Json(show(&house, find(&house, id).await?).await?))
}

async fn call_off(house: &House, id: TurnId, by: &str) -> Result<ThreadId, Problem> {
    let turn = find(house, id).await?;
    let ended = || Kind::Ended.because(format!("turn {id} is {} and its thread is past it", turn.status));
    match turn.status {
        TurnStatus::Completed | TurnStatus::Cancelled => Err(ended()),
        TurnStatus::Queued => match house.parts.store.cancel_queued(id).await? {
            Withdrawal::Withdrawn => {
                house.nudge(turn.thread).await;
                Ok(turn.thread)
            }
            Withdrawal::TooLate(_) => Err(Kind::Stale.because(format!("turn {id} is being heard right now"))),
        },
        TurnStatus::Running | TurnStatus::Interrupted | TurnStatus::Failed => {
            let mut log = ThreadLog::open(&house.parts, &house.strategies, turn.thread).await?;
            if log.thread().turn() != Some(id) || log.thread().standing() == Standing::Idle {
                return Err(ended());
            }
            append(house, &mut log, Cancelled { by: by.to_owned() }.into()).await?;
            Ok(turn.thread)
        }
    }
}

/// Retries a turn that failed
///
/// Its node tries again what it could not do. Only the turn that its thread stands at can be retried.
#[utoipa::path(
    post, path = "/v1/turns/{id}/retry", tag = "turns", operation_id = "retry_turn",
    params(
        ("id" = Uuid, Path, description = "The turn."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who says so; `api` if nobody does.")
    ),
    responses(
        (status = 200, description = "It is under way again.", body = Turn),
        (status = 404, description = "There is no such turn.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It has not failed, or its thread is past it.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn retry(
    State(house): Inside,
    By(by): By,
    Path(id): Path<Uuid>,
) -> Result<Json<Turn>, Problem> {
    let thread = first_or_again(|| try_again(&house, id, &by)).await?;
    tracing::info!(%thread, turn = %id, "retried");
    house.ring(thread).await;
    Ok(Json(show(&house, find(&house, id).await?).await?))
}

async fn try_again(house: &House, id: TurnId, by: &str) -> Result<ThreadId, Problem> {
    let turn = find(house, id).await?;
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
    let mut log = ThreadLog::open(&house.parts, &house.strategies, turn.thread).await?;
    match log.thread().standing() {
        Standing::Failed { .. } if log.thread().turn() == Some(id) => {
            append(house, &mut log, Retried { by: by.to_owned() }.into()).await?;
            Ok(turn.thread)
        }
        Standing::Failed { .. } | Standing::Idle | Standing::Busy | Standing::Waiting(_) => Err(past()),
    }
}

/// Answers what a thread asks
///
/// The same as a turn with the policy `answer`, but refused at once when nothing is asked, or when the text is none of
/// the options.
#[utoipa::path(
    post, path = "/v1/threads/{id}/answer", tag = "threads", operation_id = "answer_thread", request_body = Answer,
    params(
        ("id" = Uuid, Path, description = "The thread."), Patience,
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated answer the same one."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who answers; `api` if nobody says.")
    ),
    responses(
        (status = 202, description = "It is queued, or under way.", body = Turn),
        (status = 200, description = "It has ended within `wait`.", body = Turn),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Nothing is asked, or a call is in doubt.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "It is none of the options.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn answer(
    State(house): Inside,
    By(author): By,
    IdempotencyKey(key): IdempotencyKey,
    Path(id): Path<Uuid>,
    Query(patience): Query<Patience>,
    Body { value: Answer { text }, raw }: Body<Answer>,
) -> Result<Response, Problem> {
    let wait = patience.check()?;
    if text.trim().is_empty() {
        return Err(Kind::Invalid.because("text: it is empty"));
    }
    let log = ThreadLog::open(&house.parts, &house.strategies, id).await?;
    fits(&log.thread().standing(), &text)?;
    let turn = store::NewTurn {
        thread: Opening::Existing(id),
        policy: Policy::Answer,
        messages: vec![Message::user(text)],
        metadata: Value::Object(Map::new()),
        author,
        idempotency: key.map(|key| Idempotency { key, request_hash: hash_of("answer", id, &raw) }),
    };
    take_in(&house, turn, wait).await
}

/// Whether `text` can be heard as the answer of a thread that stands so.
fn fits(standing: &Standing, text: &str) -> Result<(), Problem> {
    let idle = |how: &str| {
        let words = format!("the thread is {how} and waits for no answer");
        Kind::NothingAsked.because(words).mend("say something new with POST /v1/turns")
    };
    match standing {
        Standing::Idle => Err(idle("idle")),
        Standing::Busy => Err(idle("busy")),
        Standing::Failed { .. } => Err(idle("stopped by a failure")),
        Standing::Waiting(it) if it.kind == InterruptKind::InDoubt => Err(Kind::InDoubt
            .because("the thread waits to hear what had become of a call, which words do not settle")
            .mend("POST /v1/threads/{id}/reconcile")),
        Standing::Waiting(it) if it.options.is_empty() || Question::chosen(&it.options, text).is_some() => {
            Ok(())
        }
        Standing::Waiting(it) => {
            let options = it.options.join(", ");
            Err(Kind::NotAnOption.because(format!("text: {text:?} is none of the options: {options}")))
        }
    }
}

/// Tells what had become of a call in doubt
///
/// A call that may change the world and lost its answer is never repeated by itself: a person looks, and says whether
/// it happened.
#[utoipa::path(
    post, path = "/v1/threads/{id}/reconcile", tag = "threads", operation_id = "reconcile_thread",
    request_body = Reconcile,
    params(
        ("id" = Uuid, Path, description = "The thread."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who says so; `api` if nobody does.")
    ),
    responses(
        (status = 200, description = "It is noted, and the thread goes on.", body = ThreadView),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Nothing is in doubt there.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn reconcile(
    State(house): Inside,
    By(by): By,
    Path(id): Path<Uuid>,
    Body { value: Reconcile { slot, verdict }, .. }: Body<Reconcile>,
) -> Result<Json<ThreadView>, Problem> {
    let verdict: shared::Verdict = verdict.into();
    first_or_again(|| settle(&house, id, slot, &verdict, &by)).await?;
    tracing::info!(thread = %id, slot, "reconciled");
    house.ring(id).await;
    Ok(Json(view(&house, id).await?))
}

async fn settle(
    house: &House,
    id: ThreadId,
    slot: usize,
    verdict: &shared::Verdict,
    by: &str,
) -> Result<(), Problem> {
    let doubted = Log::load(house, id).await?.doubted(None);
    let mut log = ThreadLog::open(&house.parts, &house.strategies, id).await?;
    let stopped = matches!(log.thread().standing(), Standing::Failed { .. } | Standing::Idle);
    if stopped || !doubted.contains(&slot) {
        let slots = doubted.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let words = match (stopped, slots.is_empty()) {
            (false, true) => "no call of this thread is in doubt".to_owned(),
            (false, false) => format!("slot {slot} is not in doubt; in doubt: {slots}"),
            (true, _) => "the thread does not wait for a verdict".to_owned(),
        };
        return Err(Kind::NotInDoubt.because(words));
    }
    append(house, &mut log, Reconciled { slot, verdict: verdict.clone(), by: by.to_owned() }.into()).await
}

async fn append(house: &House, log: &mut ThreadLog, event: Event) -> Result<(), Problem> {
    log.push(event)?;
    Ok(log.flush(&house.parts).await?)
}

/// Does `what`, and does it anew if someone else was first: what they did may have changed what is to be done.
async fn first_or_again<T, F>(what: impl Fn() -> F) -> Result<T, Problem>
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
