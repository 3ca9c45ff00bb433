//! Route that explains why turns are not running, from the rows, the queue and the pauses.
//!
//! ## Why some turns are only counted
//!
//! SQL finds the turns that are behind another turn, not due yet, or waiting for a person. Only the queue knows why a
//! runnable turn is not running. The first 10,000 runnable turns are inspected one by one; the rest are counted. The queue
//! lists its first thousand jobs; a turn whose job is not among them, or is on a Redis Cluster node that does not answer, has
//! no known reason.

use std::collections::BTreeMap;

use api_types::{Page, PendingCause, PendingGroup, PendingTurns};
use axum::{Json, extract::State};
use queue::clock::rfc3339;
use serde::Deserialize;
use store::{PendingFilter, WaitReason};
use utoipa::IntoParams;
use uuid::Uuid;

use super::pending_reason::{Jobs, Pending};
use crate::server::{
    extract::Query,
    pagination::{limit, page},
    principal::Principal,
    problem::ApiError,
    state::{AppState, SharedState},
};

/// Maximum number of runnable turns that are inspected.
const INSPECTED_MAX: u64 = 10_000;

/// Query parameters of the list of pending turns.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListPending {
    /// Only turns of this thread.
    thread_id: Option<Uuid>,
    /// Maximum number of turns. Default: 50. The groups always count all turns.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// List turns that are not running
///
/// Groups all turns that have not ended and are not running by the reason, and lists the first of them. With `thread_id`,
/// only the turns of one thread. A turn whose worker no longer renews its lease does not count as running.
#[utoipa::path(
    get, path = "/v1/queue", tag = "queue", operation_id = "list_waits", params(ListPending),
    responses((status = 200, description = "The pending turns.", body = PendingTurns))
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<ListPending>,
) -> Result<Json<PendingTurns>, ApiError> {
    let limit = limit(params.limit)?;
    let filter = PendingFilter { tenant: principal.only(), thread: params.thread_id };
    let store = &app.backends.store;
    let stances = store.count_pending(filter).await?;
    let Runnable { mut pending, not_inspected } = explain_runnable(&app, filter, &stances).await?;
    let mut groups = grouped(&pending);
    for (stance, cause) in BY_ROWS {
        let Some(crowd) = stances.get(&stance) else { continue };
        let some = store.pending_turns(stance, filter, limit + 1).await?;
        let until = crowd.due_at.filter(|_| cause == PendingCause::NotDue);
        let (turns, since, until) = (crowd.turns, rfc3339(crowd.since), until.map(rfc3339));
        groups.push(PendingGroup { cause, detail: None, turns, since, until, places: None });
        pending.extend(some.into_iter().map(|turn| Pending {
            cause,
            detail: None,
            place: None,
            until: turn.due_at.filter(|_| cause == PendingCause::NotDue),
            turn,
        }));
    }
    let Page { data, has_more } = page(pending, limit).map(Pending::into_response);
    Ok(Json(PendingTurns { groups, not_inspected, data, has_more }))
}

/// The reasons that rows show.
const BY_ROWS: [(WaitReason, PendingCause); 3] = [
    (WaitReason::Behind, PendingCause::Behind),
    (WaitReason::NotDue, PendingCause::NotDue),
    (WaitReason::AwaitingInput, PendingCause::Person),
];

/// Label of turns whose reason is unknown, because there are very many.
const NOT_INSPECTED: &str = "not_inspected";

/// Runnable turns that are not running.
struct Runnable {
    /// Those that were inspected, sorted by their reason.
    pending: Vec<Pending>,
    /// Number of the others.
    not_inspected: u64,
}

/// Explains why runnable turns are not running.
async fn explain_runnable(
    app: &AppState,
    filter: PendingFilter<'_>,
    stances: &BTreeMap<WaitReason, store::PendingCount>,
) -> Result<Runnable, ApiError> {
    let Some(all) = stances.get(&WaitReason::Runnable).map(|stance| stance.turns) else {
        return Ok(Runnable { pending: Vec::new(), not_inspected: 0 });
    };
    let runnable = app.backends.store.pending_turns(WaitReason::Runnable, filter, INSPECTED_MAX).await?;
    let count = |some: &[store::PendingTurn]| u64::try_from(some.len()).unwrap_or(u64::MAX);
    let jobs = Jobs::load(app, filter.thread).await?;
    let beyond = all.saturating_sub(count(&runnable));
    let (unlisted, runnable): (Vec<_>, Vec<_>) =
        runnable.into_iter().partition(|turn| jobs.is_unlisted(turn));
    let not_inspected = beyond.saturating_add(count(&unlisted));
    let mut pending: Vec<Pending> = runnable.into_iter().filter_map(|turn| jobs.explain(turn)).collect();
    pending.sort_by_key(|reason| (reason.cause, reason.detail.clone(), reason.place, reason.turn.since));
    Ok(Runnable { pending, not_inspected })
}

/// Turns with one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Number of turns.
    pub(crate) turns: u64,
    /// Time since which the first of them waits, in microseconds since the Unix epoch.
    pub(crate) since: Option<i64>,
}

/// Counts the turns of all tenants that are not running, by each reason. A reason is a label in metrics.
pub(crate) async fn count(app: &AppState) -> Result<BTreeMap<&'static str, Count>, ApiError> {
    let all = PendingFilter::default();
    let stances = app.backends.store.count_pending(all).await?;
    let Runnable { pending, not_inspected } = explain_runnable(app, all, &stances).await?;
    let mut counts: BTreeMap<&'static str, Count> =
        PendingCause::ALL.map(|cause| (cause.as_str(), Count::default())).into();
    let mut add = |cause: PendingCause, turns: u64, since: i64| {
        let count = counts.entry(cause.as_str()).or_default();
        count.turns = count.turns.saturating_add(turns);
        count.since = Some(count.since.map_or(since, |earliest| earliest.min(since)));
    };
    for (stance, cause) in BY_ROWS {
        if let Some(stance) = stances.get(&stance) {
            add(cause, stance.turns, stance.since);
        }
    }
    pending.iter().for_each(|reason| add(reason.cause, 1, reason.turn.since));
    counts.insert(NOT_INSPECTED, Count { turns: not_inspected, since: None });
    Ok(counts)
}

/// Groups sorted turns by their reason.
fn grouped(pending: &[Pending]) -> Vec<PendingGroup> {
    let same_reason = |a: &Pending, b: &Pending| a.cause == b.cause && a.detail == b.detail;
    let group = |some: &[Pending]| {
        let first = some.first()?;
        let places = || some.iter().filter_map(|reason| reason.place);
        Some(PendingGroup {
            cause: first.cause,
            detail: first.detail.clone(),
            turns: u64::try_from(some.len()).unwrap_or(u64::MAX),
            since: rfc3339(some.iter().map(|reason| reason.turn.since).min()?),
            until: some.iter().filter_map(|reason| reason.until).min().map(rfc3339),
            places: places().min().zip(places().max()),
        })
    };
    pending.chunk_by(same_reason).filter_map(group).collect()
}
