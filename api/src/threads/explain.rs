//! Routes that explain a thread's last decision and compare two threads.

use api_types::{DiffRow, Difference, Divide, Explanation, Problem, ThreadDiff, TurnTimeline, UsagePair};
use audit::{Explainer, Side, time::Timekeeper};
use axum::{Json, extract::State};
use queue::clock;
use serde::Deserialize;
use shared::Event;
use store::ThreadId;
use utoipa::IntoParams;
use uuid::Uuid;

use super::routes::AtParams;
use crate::{
    logs::{
        folded::invalid_log,
        folded_log::{graph_of, up_to},
        lookup::find_thread,
    },
    server::{
        extract::{Path, Query},
        principal::Principal,
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
    turns::timeline::ready_at,
};

/// Explain the status of a thread
///
/// Returns the last decision up to an event and its inputs: the reason given by the node, its requests and their answers,
/// and the other steps that were possible. Without `at`, it also returns pauses and queued turns. `GET /v1/queue` explains why
/// a queued turn is not running.
#[utoipa::path(
    get, path = "/v1/threads/{id}/why", tag = "threads", operation_id = "explain_thread",
    params(("id" = Uuid, Path, description = "Id of the thread."), AtParams),
    responses(
        (status = 200, description = "The explanation.", body = Explanation),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The event does not exist yet.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn why(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
    Query(AtParams { at }): Query<AtParams>,
) -> Result<Json<Explanation>, ApiError> {
    find_thread(&app, &principal, id).await?;
    let last = up_to(&app, id, at).await?;
    let mut explainer = Explainer::new(graph_of(&app, id).await?);
    let (mut keeper, mut last_at) = (Timekeeper::default(), 0);
    let each = |recorded: store::Recorded| {
        keeper.see(&recorded);
        last_at = recorded.at;
        explainer.see(&recorded.event).map_err(|err| invalid_log(&err))
    };
    app.backends.store.along(id, 0, Some(last), each).await?;
    let mut why = explainer.finish().map_err(|err| invalid_log(&err))?;
    let now = if at.is_none() { clock::now() } else { last_at };
    if let Some(time) = keeper.finish(now).pop() {
        let row = app.backends.store.turn(time.turn).await?;
        let TurnTimeline { totals, takeovers, .. } =
            time.ready_from(row.as_ref().map_or(i64::MAX, ready_at)).timeline(id);
        (why.time, why.takeovers) = (totals, takeovers);
    }
    if at.is_none() {
        why.waits = audit::waits(&app.backends.store, id).await?;
    }
    Ok(Json(why))
}

/// Query parameters of a comparison.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct DiffParams {
    /// Id of the thread on the right.
    with: Uuid,
}

/// Compare two threads
///
/// Aligns the events of two threads by their steps. Returns the events that differ or exist in only one thread, the point at
/// which the threads diverge with the differences of their states, and their usage. Authors, times and ids of turns are
/// ignored.
#[utoipa::path(
    get, path = "/v1/threads/{id}/diff", tag = "threads", operation_id = "diff_threads",
    params(("id" = Uuid, Path, description = "Id of the thread on the left."), DiffParams),
    responses(
        (status = 200, description = "The differences.", body = ThreadDiff),
        (status = 404, description = "One of the threads does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn diff(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
    Query(DiffParams { with }): Query<DiffParams>,
) -> Result<Json<ThreadDiff>, ApiError> {
    find_thread(&app, &principal, id).await?;
    find_thread(&app, &principal, with).await?;
    let (graph_left, graph_right) = (graph_of(&app, id).await?, graph_of(&app, with).await?);
    let (left, right) = (whole_log(&app, id).await?, whole_log(&app, with).await?);
    let compare =
        move || audit::diff(Side { graph: graph_left, log: &left }, Side { graph: graph_right, log: &right });
    // Comparing long logs takes long enough to block the executor.
    let compared = tokio::task::spawn_blocking(compare).await;
    let compared = compared.map_err(|err| Kind::Internal.because(format!("the comparison failed: {err}")))?;
    Ok(Json(thread_diff(compared.map_err(|err| invalid_log(&err))?)))
}

async fn whole_log(app: &AppState, id: ThreadId) -> Result<Vec<Event>, ApiError> {
    let (_, recorded) = app.backends.store.load(id).await?;
    Ok(recorded.into_iter().map(|recorded| recorded.event).collect())
}

fn thread_diff(diff: audit::ThreadDiff) -> ThreadDiff {
    let audit::ThreadDiff { same, rows, split } = diff;
    ThreadDiff { same: same as u64, rows: rows.into_iter().map(row).collect(), split: split.map(divide) }
}

fn row(row: audit::Row) -> DiffRow {
    match row {
        audit::Row::Changed { left, right, step, differs } => DiffRow {
            left: Some(left as u64),
            right: Some(right as u64),
            text: step,
            differs: differences(differs),
        },
        audit::Row::Left { left, text } => {
            DiffRow { left: Some(left as u64), right: None, text, differs: Vec::new() }
        }
        audit::Row::Right { right, text } => {
            DiffRow { left: None, right: Some(right as u64), text, differs: Vec::new() }
        }
    }
}

fn differences(all: Vec<shared::ValueDifference>) -> Vec<Difference> {
    let convert = |difference: shared::ValueDifference| Difference {
        path: difference.path,
        left: difference.left,
        right: difference.right,
    };
    all.into_iter().map(convert).collect()
}

fn divide(divergence: audit::Divergence) -> Divide {
    let audit::Divergence { left, right, state, before, all } = divergence;
    let pair = |sides: audit::Sides| UsagePair { left: (&sides.left).into(), right: (&sides.right).into() };
    Divide {
        left: left as u64,
        right: right as u64,
        state: differences(state),
        before: pair(before),
        all: pair(all),
    }
}
