//! Route that returns the time of a turn by its uses.

use api_types::{Problem, TurnTimeline};
use audit::time::{Timekeeper, TurnTime};
use axum::{Json, extract::State};
use queue::clock;
use shared::Event;
use threads::Log;
use uuid::Uuid;

use super::lookup::find;
use crate::server::{
    extract::Path,
    principal::Principal,
    problem::ApiError,
    state::{AppState, SharedState},
};

/// Show the time of a turn
///
/// Returns the time from which the turn could run until its end, or until now, divided by its uses: waiting for a slot, for a limit or
/// provider, for a person, a model, a tool, the engine, and no worker alive. Each moment has exactly one use, so the parts add up
/// to the whole. It is derived from the log.
#[utoipa::path(
    get, path = "/v1/turns/{id}/timeline", tag = "turns", operation_id = "get_turn_timeline",
    params(("id" = Uuid, Path, description = "Id of the turn.")),
    responses(
        (status = 200, description = "The timeline.", body = TurnTimeline),
        (status = 404, description = "The turn does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn timeline(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
) -> Result<Json<TurnTimeline>, ApiError> {
    let turn = find(&app, &principal, id).await?;
    Ok(Json(time_of(&app, &turn).await?.timeline(turn.thread)))
}

/// Returns the time of a turn by its uses, from its log.
pub(crate) async fn time_of(app: &AppState, turn: &store::Turn) -> Result<TurnTime, ApiError> {
    let now = clock::now();
    let Some(started) = turn.started_seq else {
        let end = if turn.status.is_over() { turn.updated_at } else { now };
        // Until the turn before it ends, it could not run.
        let is_behind =
            Log::running(&app.backends.store, turn.thread).await?.is_some_and(|other| other != turn.id);
        let ready = if is_behind { end } else { ready_at(turn) };
        return Ok(TurnTime::queued(turn.id, ready, end, turn.status.is_over()));
    };
    // A turn that brings an input continues the requests of the one before it.
    let first = app.backends.store.events(turn.thread, started.checked_sub(1), 1).await?;
    let brings_input = first.first().is_some_and(|first| matches!(first.event, Event::InputProvided(_)));
    let from = if brings_input { 0 } else { started.saturating_sub(1) };
    let mut keeper = Timekeeper::default();
    let mut is_next = false;
    let each = |recorded: store::Recorded| {
        let begun = recorded.event.turn_started();
        is_next |= started < recorded.seq && begun.is_some();
        if !is_next {
            keeper.see(&recorded);
        }
        Ok::<_, ApiError>(())
    };
    app.backends.store.along(turn.thread, from, turn.ended_seq, each).await?;
    let times = keeper.finish(now);
    let time = times.into_iter().rfind(|time| time.turn == turn.id);
    let time = time.unwrap_or_else(|| TurnTime::queued(turn.id, now, now, turn.status.is_over()));
    Ok(time.ready_from(ready_at(turn)))
}

/// Returns the time from which a turn could run, as far as its row tells: it was submitted and due.
pub(crate) fn ready_at(turn: &store::Turn) -> i64 {
    turn.created_at.max(turn.due_at.unwrap_or_default())
}
