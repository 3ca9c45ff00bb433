//! The inbox: every question that waits for a person, and one way to answer them all.
//!
//! Nothing happens here that does not happen elsewhere: an answer is a turn, a verdict reconciles, and to ignore is to
//! call off.

mod deed;

use axum::{Json, extract::State, response::Response};
use serde::Deserialize;
use shared::{Event, Interrupt, InterruptKind, Request};
use store::{Idempotency, ThreadLog, time::rfc3339};
use utoipa::IntoParams;
use uuid::Uuid;

use self::deed::{Deed, deed};
use crate::{
    acts::withdraw,
    answers::{Saying, asked, judge, say},
    auth::{Acting, By},
    extract::{Body, IdempotencyKey, Path, Query},
    fold::Log,
    house::{House, Inside},
    page::{Page, limit},
    problem::{Kind, Problem},
    schema::{AskedKind, HumanInterrupt, InboxAnswer, InboxItem, Turn},
    submit::{hash_of, repeated, told},
    threads,
    turns::{Patience, look},
};

/// Which questions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those of this kind.
    #[param(inline)]
    kind: Option<AskedKind>,
    /// Those asked before that of this thread: the last of the page before. If it has moved on meanwhile, some come
    /// again; none is left out.
    after: Option<Uuid>,
    /// At most so many; 50 if nobody says.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Lists what waits for a person
///
/// Every thread that asks something, the one asked last first.
#[utoipa::path(
    get, path = "/v1/inbox", tag = "inbox", operation_id = "list_inbox", params(Which),
    responses(
        (status = 200, description = "A page of questions.", body = Page<InboxItem>),
        (status = 404, description = "There is no thread `after`.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list(
    State(house): Inside,
    acting: Acting,
    Query(which): Query<Which>,
) -> Result<Json<Page<InboxItem>>, Problem> {
    let limit = limit(which.limit)?;
    let mut after = match which.after {
        Some(id) => Some(threads::find(&house, &acting, id).await?).map(|it| (it.updated_at, it.id)),
        None => None,
    };
    let mut items = Vec::new();
    let full = |items: &Vec<InboxItem>| items.len() as u64 > limit;
    while !full(&items) {
        let rows = house.parts.store.waiting(acting.only(), after, limit + 1).await?;
        let Some(last) = rows.last() else { break };
        after = Some((last.updated_at, last.id));
        for row in rows {
            let item = listed(&house, row).await?;
            items.extend(item.filter(|it| which.kind.is_none_or(|kind| it.kind == kind)));
            if full(&items) {
                break;
            }
        }
    }
    Ok(Json(Page::cut(items, limit)))
}

/// What the thread of this row asks. None if it has moved on since the row was read, and none if its log cannot be
/// read: one thread that nobody can answer must not hide the others.
async fn listed(house: &House, row: store::Thread) -> Result<Option<InboxItem>, Problem> {
    let id = row.id;
    match item(house, row).await {
        Ok(item) => Ok(Some(item)),
        Err(problem) if problem.kind == Kind::NothingAsked => Ok(None),
        Err(problem) if problem.kind == Kind::Damaged => {
            tracing::warn!(thread = %id, error = problem.detail(), "it waits for a person, and cannot be read");
            Ok(None)
        }
        Err(problem) => Err(problem),
    }
}

async fn item(house: &House, row: store::Thread) -> Result<InboxItem, Problem> {
    let log = Log::load(house, row.id).await?;
    let thread = log.thread()?;
    let standing = thread.standing();
    let it = asked(&standing)?;
    let slot = slot(it, &log);
    Ok(InboxItem {
        thread_id: row.id,
        turn_id: thread.turn(),
        seq: thread.seq() as u64,
        strategy: row.strategy,
        asked_at: rfc3339(row.updated_at),
        interrupt: HumanInterrupt::new(it, slot.and_then(|slot| request(&log, slot))),
        kind: it.kind.into(),
        question: it.question.clone(),
        options: it.options.clone(),
        schema: it.form.as_ref().map(|it| it.schema.clone()).filter(|it| !it.is_null()),
        url: it.form.as_ref().and_then(|it| it.url.clone()),
        slot,
    })
}

/// The slot of the request that the thread asks about, if one is in doubt.
fn slot(it: &Interrupt, log: &Log) -> Option<usize> {
    if it.kind == InterruptKind::InDoubt { log.doubted(None).first().copied() } else { None }
}

/// The request in this slot of the node that asked last.
fn request(log: &Log, slot: usize) -> Option<&Request> {
    let asked = log.recorded.iter().rev().find_map(|it| match &it.event {
        Event::Asked(asked) => Some(asked),
        Event::Opened(_)
        | Event::Heard(_)
        | Event::Attempted(_)
        | Event::Answered(_)
        | Event::Faltered(_)
        | Event::GaveUp(_)
        | Event::Doubted(_)
        | Event::Reconciled(_)
        | Event::Wanted(_)
        | Event::Supplied(_)
        | Event::Decided(_)
        | Event::Failed(_)
        | Event::Retried(_)
        | Event::Cancelled(_)
        | Event::Forked(_) => None,
    });
    asked?.requests.get(slot)
}

/// Shows what a thread asks
#[utoipa::path(
    get, path = "/v1/inbox/{thread_id}", tag = "inbox", operation_id = "get_inbox_item",
    params(("thread_id" = Uuid, Path, description = "The thread.")),
    responses(
        (status = 200, description = "The question.", body = InboxItem),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "It asks nothing.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
) -> Result<Json<InboxItem>, Problem> {
    let row = threads::find(&house, &acting, id).await?;
    Ok(Json(item(&house, row).await?))
}

/// Answers what a thread asks, whatever that is
///
/// `accept` says yes: to an approval its first option, or `yes` where it has none; of a call in doubt that it
/// happened; to a tool's form that its defaults are right. `edit` answers a question without options with a text or
/// JSON; a tool's form with its fields. `respond` answers with words: where there are options with one of them, by its
/// words or its number; of a call in doubt with `happened`, `did not`, `skip` or a verdict; a tool's form with the value
/// of its one field, or with `decline`. `ignore` calls the turn off, and the thread is idle; but a tool that wants input
/// hears `cancel`, and the turn goes on. What a question does not allow is refused, and the detail says what it allows.
///
/// The response is the turn that goes on because of it: of an answer a new one, else the one that waited.
#[utoipa::path(
    post, path = "/v1/inbox/{thread_id}", tag = "inbox", operation_id = "answer_inbox_item",
    request_body = InboxAnswer,
    params(
        ("thread_id" = Uuid, Path, description = "The thread."), Patience,
        ("Idempotency-Key" = Option<String>, Header, description = "Makes a repeated answer in words the same one."),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who answers; `api` if nobody says.")
    ),
    responses(
        (status = 202, description = "It is queued, or under way.", body = Turn),
        (status = 200, description = "It has ended within `wait`, or was called off.", body = Turn),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "Nothing is asked, something else is, or it is not answered in this way.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "It is none of the options, or makes no sense.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn answer(
    State(house): Inside,
    acting: Acting,
    By(author): By,
    IdempotencyKey(key): IdempotencyKey,
    Path(id): Path<Uuid>,
    Query(patience): Query<Patience>,
    Body { value: InboxAnswer { way, args, turn_id, seq }, raw }: Body<InboxAnswer>,
) -> Result<Response, Problem> {
    let wait = patience.check()?;
    let tenant = threads::find(&house, &acting, id).await?.tenant;
    let idempotency = key.map(|key| Idempotency { key, request_hash: hash_of("inbox", id, &raw) });
    if let Some(response) = repeated(&house, &tenant, idempotency.as_ref(), wait).await? {
        return Ok(response);
    }
    let log = ThreadLog::open(&house.parts, &house.strategies, id).await?;
    let standing = log.thread().standing();
    let it = asked(&standing)?;
    let turn = log.thread().turn().ok_or_else(|| Kind::Internal.because("a question of no turn"))?;
    if turn_id.is_some_and(|it| it != turn) {
        let words = format!("that question is settled; turn {turn} asks another");
        return Err(Kind::Stale.because(words).mend("look at the inbox again"));
    }
    if seq.is_some_and(|it| it != log.head().seq) {
        return Err(Kind::Stale
            .because("that question is settled, and another is asked")
            .mend("look at the inbox again"));
    }
    match deed(it, way, args)? {
        Deed::Say(text) => return say(&house, &log, text, Saying { author, idempotency, wait }).await,
        Deed::Judge { slot: named, verdict } => {
            let slot = match named {
                Some(named) => Some(named),
                None => slot(it, &Log::load(&house, id).await?),
            };
            let slot = slot.ok_or_else(|| Kind::NotInDoubt.because("no call of this thread is in doubt"))?;
            judge(&house, id, slot, verdict, &author).await?;
        }
        Deed::CallOff => withdraw(&house, turn, &author).await?,
    }
    told(&house, look(&house, turn).await?, wait).await
}
