//! What a person tells a thread that waits for them: an answer, or what had become of a call.

use std::time::Duration;

use axum::{Json, extract::State, response::Response};
use shared::{Interrupt, InterruptKind, Message, Policy, Question, Reconciled, Standing};
use store::{Idempotency, Opening, ThreadId, ThreadLog};
use uuid::Uuid;

use crate::{
    acts::{append, first_or_again},
    auth::{Acting, By},
    extract::{Body, IdempotencyKey, Path, Query},
    fold::Log,
    house::{House, Inside},
    problem::{Kind, Problem},
    schema::{Answer, Reconcile, ThreadView, Turn},
    submit::{hash_of, repeated, take_in},
    threads::{find, view},
    turns::Patience,
};

/// Answers what a thread asks
///
/// The same as a turn with the policy `answer`, but refused at once when nothing is asked, when the text is none of
/// the options, or when it does not fit what a tool wants to hear.
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
        (status = 422, description = "It is none of the options, or does not fit.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn answer(
    State(house): Inside,
    acting: Acting,
    By(author): By,
    IdempotencyKey(key): IdempotencyKey,
    Path(id): Path<Uuid>,
    Query(patience): Query<Patience>,
    Body { value: Answer { text }, raw }: Body<Answer>,
) -> Result<Response, Problem> {
    let wait = patience.check()?;
    let tenant = find(&house, &acting, id).await?.tenant;
    let idempotency = key.map(|key| Idempotency { key, request_hash: hash_of("answer", id, &raw) });
    match repeated(&house, &tenant, idempotency.as_ref(), wait).await? {
        Some(response) => Ok(response),
        None => {
            let log = ThreadLog::open(&house.parts, &house.strategies, id).await?;
            say(&house, &log, text, Saying { author, idempotency, wait }).await
        }
    }
}

/// Who answers, how a repeated answer is known, and how long they wait for what comes of it.
pub(crate) struct Saying {
    pub(crate) author: String,
    pub(crate) idempotency: Option<Idempotency>,
    pub(crate) wait: Option<Duration>,
}

/// Answers what the thread of this log asks, and nothing that it may ask later, with words.
pub(crate) async fn say(
    house: &House,
    log: &ThreadLog,
    text: String,
    saying: Saying,
) -> Result<Response, Problem> {
    if text.trim().is_empty() {
        return Err(Kind::Invalid.because("text: it is empty"));
    }
    fits(&log.thread().standing(), &text)?;
    let Saying { author, idempotency, wait } = saying;
    let opening = Opening::Asking(log.id(), log.head().seq);
    let turn = store::NewTurn::of(opening, vec![Message::user(text)], author);
    let turn = store::NewTurn { policy: Policy::Answer, idempotency, ..turn };
    take_in(house, turn, wait).await
}

/// Whether `text` can be heard as the answer of a thread that stands so.
pub(crate) fn fits(standing: &Standing, text: &str) -> Result<(), Problem> {
    let it = asked(standing)?;
    if it.kind == InterruptKind::InDoubt {
        return Err(Kind::InDoubt
            .because("the thread waits to hear what had become of a call, which words do not settle")
            .mend("POST /v1/threads/{id}/reconcile"));
    }
    if let Some(form) = &it.form {
        return form.read(text).map(drop).map_err(|why| Kind::Unfit.because(format!("text: {why}")));
    }
    if it.options.is_empty() || Question::chosen(&it.options, text).is_some() {
        return Ok(());
    }
    let options = it.options.join(", ");
    Err(Kind::NotAnOption.because(format!("text: {text:?} is none of the options: {options}")))
}

/// What a thread that stands so asks a person.
pub(crate) fn asked(standing: &Standing) -> Result<&Interrupt, Problem> {
    let how = match standing {
        Standing::Waiting(it) => return Ok(it),
        Standing::Idle => "idle",
        Standing::Busy => "busy",
        Standing::Failed { .. } => "stopped by a failure",
    };
    let words = format!("the thread is {how} and waits for no answer");
    Err(Kind::NothingAsked.because(words).mend("say something new with POST /v1/turns"))
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
    acting: Acting,
    By(by): By,
    Path(id): Path<Uuid>,
    Body { value: Reconcile { slot, verdict }, .. }: Body<Reconcile>,
) -> Result<Json<ThreadView>, Problem> {
    find(&house, &acting, id).await?;
    judge(&house, id, slot, verdict.into(), &by).await?;
    Ok(Json(view(&house, find(&house, &acting, id).await?).await?))
}

/// Notes a verdict on the request `slot` of thread `id`, and rings for what goes on because of it.
pub(crate) async fn judge(
    house: &House,
    id: ThreadId,
    slot: usize,
    verdict: shared::Verdict,
    by: &str,
) -> Result<(), Problem> {
    first_or_again(|| settle(house, id, slot, &verdict, by)).await?;
    tracing::info!(thread = %id, slot, "reconciled");
    house.ring(id).await;
    Ok(())
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
    // While other calls of the node are under way, a verdict would cost their answers.
    let waits = matches!(log.thread().standing(), Standing::Waiting(_));
    if !waits || !doubted.contains(&slot) {
        let slots = doubted.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let words = match (waits, slots.is_empty()) {
            (_, true) => "no call of this thread is in doubt".to_owned(),
            (true, false) => format!("slot {slot} is not in doubt; in doubt: {slots}"),
            (false, false) => "the thread does not wait for a verdict, or not yet".to_owned(),
        };
        return Err(Kind::NotInDoubt.because(words));
    }
    append(house, &mut log, Reconciled { slot, verdict: verdict.clone(), by: by.to_owned() }.into()).await
}
