//! Route that rates the answer of a turn.

use api_types::{NewRating, Problem, TurnRating};
use axum::{Json, extract::State};
use shared::{RATING_NOTE_MAX, Rated, Rating, RunStatus};
use store::{Counted, TurnId};
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

/// Rate the answer of a turn
///
/// Records the judgement of a person in the log. It changes nothing else, and replay ignores it. Another rating of the same turn
/// replaces the first in the counts by strategy, model and prompt; the log keeps both.
#[utoipa::path(
    post, path = "/v1/turns/{id}/rating", tag = "turns", operation_id = "rate_turn", request_body = NewRating,
    params(
        ("id" = Uuid, Path, description = "Id of the turn."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who rates the answer. Default: `api`.")
    ),
    responses(
        (status = 200, description = "The rating is recorded.", body = TurnRating),
        (status = 404, description = "The turn does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The turn has not ended, or its thread is busy.", body = Problem, content_type = "application/problem+json"),
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
        return Err(Kind::Invalid.because(detail));
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
    // An append beside a running worker would discard the answers that it waits for.
    if log.thread().status() == RunStatus::Busy {
        let detail = format!("thread {} is running another turn", turn.thread);
        return Err(Kind::ThreadBusy.because(detail).hint("rate the answer once that turn has ended"));
    }
    let seq = log.head().seq;
    let mut rated = RatedTurn::new(id);
    let mut from = started;
    while from < seq {
        let rows = app.backends.store.events(turn.thread, from.checked_sub(1), READ_AT_ONCE).await?;
        let Some(last) = rows.last().map(|row| row.seq) else { break };
        rows.iter().for_each(|row| rated.read(&row.event));
        from = last + 1;
    }
    let (actor, caller) = (by.name.clone(), by.caller.clone());
    let event = Rated { turn: id, rating, note: note.to_owned(), actor, caller };
    let strategy = log.thread().strategy();
    append(app, &mut log, event.into()).await?;
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
    let (note, author) = (note.to_owned(), by.name.clone());
    Ok(TurnRating { turn_id: id, thread_id: turn.thread, seq, rating, note, author })
}
