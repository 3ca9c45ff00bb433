//! Route that rates the answer of a turn.

use api_types::{NewRating, Problem, TurnRating};
use axum::{Json, extract::State};
use shared::{Event, RATING_NOTE_MAX, Rated, Rating, RunStatus};
use store::{Counted, ThreadId, Turn, TurnId};
use threads::RatedTurn;
use uuid::Uuid;

use super::{
    cancel_retry::{append, retry_if_stale},
    lookup::{find, load},
};
use crate::{
    logs::folded::Folded,
    server::{
        extract::{Body, Path},
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
};

/// Events that are read at once.
const READ_AT_ONCE: u64 = 500;

/// Maximum number of ratings of a turn.
const RATINGS_MAX: u64 = 100;

/// The ratings that a turn has.
struct Earlier {
    rated: RatedTurn,
    count: u64,
    /// Position of the last one, and the rating.
    last: Option<(u64, Rated)>,
}

/// Rate the answer of a turn
///
/// Records the judgement of a person in the log. It changes nothing else, and replay ignores it. Another rating of the same turn
/// replaces the first in the counts by strategy, model and prompt; the log keeps both, at most 100. A rating that repeats the last one of
/// the turn, with the same note and author, is not recorded again.
#[utoipa::path(
    post, path = "/v1/turns/{id}/rating", tag = "turns", operation_id = "rate_turn", request_body = NewRating,
    params(
        ("id" = Uuid, Path, description = "Id of the turn."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who rates the answer. Default: `api`.")
    ),
    responses(
        (status = 200, description = "The rating is recorded.", body = TurnRating),
        (status = 404, description = "The turn does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The turn has not ended, its thread is busy or waits for an answer, or it has 100 ratings.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The note is too long.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn rate(
    State(app): SharedState,
    principal: Principal,
    by: Actor,
    Path(id): Path<Uuid>,
    Body { value: NewRating { rating, note }, .. }: Body<NewRating>,
) -> Result<Json<TurnRating>, ApiError> {
    find(&app, &principal, id).await?;
    let note = note.unwrap_or_default().trim().to_owned();
    let length = note.chars().count();
    if RATING_NOTE_MAX < length {
        let detail = format!("note: it has {length} characters, and may have {RATING_NOTE_MAX}");
        return Err(Kind::Invalid.because(detail).hint("shorten the note"));
    }
    let rated = retry_if_stale(|| try_rate(&app, id, rating, &note, &by)).await?;
    tracing::info!(turn = %id, rating = rating.name(), "answer rated");
    Ok(Json(rated))
}

async fn try_rate(
    app: &AppState,
    id: TurnId,
    rating: Rating,
    note: &str,
    by: &Actor,
) -> Result<TurnRating, ApiError> {
    let turn = load(app, id).await?;
    let Some(started) = turn.started_seq.filter(|_| turn.status.is_over()) else {
        let detail = format!("turn {id} is {} and has no answer to rate", turn.status);
        return Err(Kind::NotNow.because(detail).hint("rate it once it has ended"));
    };
    let mut log = Folded::open(app, turn.thread).await?;
    check_free(&log.thread().status(), turn.thread)?;
    let seq = log.head().seq;
    let Earlier { rated, count, last } = earlier(app, &turn, started, seq).await?;
    if let Some((seq, last)) = last
        && (last.rating, last.note.as_str(), last.actor.as_str()) == (rating, note, by.name.as_str())
    {
        return Ok(shown(turn.thread, seq, last));
    }
    if RATINGS_MAX <= count {
        let detail = format!("turn {id} has {count} ratings, and may have {RATINGS_MAX}");
        return Err(Kind::NotNow.because(detail).hint("the last one counts"));
    }
    let (actor, caller) = (by.name.clone(), by.caller.clone());
    let event = Rated { turn: id, rating, note: note.to_owned(), actor, caller };
    let strategy = log.thread().strategy();
    append(app, &mut log, event.clone().into()).await?;
    app.backends.store.count_recorded(&Counted {
        at: queue::clock::now(),
        thread: turn.thread,
        tenant: &turn.tenant,
        strategy,
        ended: None,
        in_doubt: false,
        responses: Vec::new(),
        asked: Vec::new(),
        ratings: rated.rate(rating),
    });
    Ok(shown(turn.thread, seq, event))
}

/// Refuses a rating that would change what others refer to by the head of the log.
fn check_free(status: &RunStatus, thread: ThreadId) -> Result<(), ApiError> {
    match status {
        // An append beside a running worker would discard the answers that it waits for.
        RunStatus::Busy => Err(Kind::ThreadBusy
            .because(format!("thread {thread} is running another turn"))
            .hint("rate the answer once that turn has ended")),
        // The head identifies the open question, for people who read it and for answers that are queued.
        RunStatus::Waiting(_) => Err(Kind::ThreadBusy
            .because(format!("thread {thread} waits for the answer of a person"))
            .hint("answer the question first, and rate once its turn has ended")),
        RunStatus::Idle | RunStatus::Failed { .. } => Ok(()),
    }
}

/// Reads the ratings of a turn that started at an event, up to the head of its log.
async fn earlier(app: &AppState, turn: &Turn, started: u64, head: u64) -> Result<Earlier, ApiError> {
    let mut earlier = Earlier { rated: RatedTurn::new(turn.id), count: 0, last: None };
    let mut from = started;
    while from < head {
        let rows = app.backends.store.events(turn.thread, from.checked_sub(1), READ_AT_ONCE).await?;
        let Some(last) = rows.last().map(|row| row.seq) else { break };
        for row in rows {
            earlier.rated.read(&row.event);
            if let Event::Rated(rated) = row.event
                && rated.turn == turn.id
            {
                earlier.count += 1;
                earlier.last = Some((row.seq, rated));
            }
        }
        from = last + 1;
    }
    Ok(earlier)
}

fn shown(thread_id: ThreadId, seq: u64, rated: Rated) -> TurnRating {
    let Rated { turn: turn_id, rating, note, actor: author, .. } = rated;
    TurnRating { turn_id, thread_id, seq, rating, note, author }
}
