//! Route that explains why turns are not running, from the rows, the queue and the pauses.
//!
//! ## Why some turns are only counted
//!
//! SQL finds the turns that are behind another turn, not due yet, or waiting for a person. Only the queue knows why a
//! runnable turn is not running. The first 10,000 runnable turns are inspected one by one; the rest are counted. The queue
//! lists its first thousand jobs; a turn whose job is not among them, or is on a Redis Cluster node that does not answer, has
//! no known reason.

use std::collections::BTreeMap;

use api_types::{Page, PendingCause, PendingGroup, PendingTurn, PendingTurns};
use axum::{Json, extract::State};
use queue::{
    BlockedBy, Enqueued, EntryState, MAX_LISTED, QueueEntry,
    clock::{self, rfc3339},
};
use serde::Deserialize;
use store::{Pause, PauseKind, ThreadId, WaitReason};
use utoipa::IntoParams;

use crate::{
    server::{
        auth::Principal,
        extract::Query,
        pagination::{limit, page},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
    views,
};

/// Detail of a turn whose job ran, but whose thread is waiting for a person.
const AWAITS_PERSON: &str = "its thread is waiting for a person";

/// Maximum number of runnable turns that are inspected.
const INSPECTED_MAX: u64 = 10_000;

/// Query parameters of the list of pending turns.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListPending {
    /// Maximum number of turns. Default: 50. The groups always count all turns.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// List turns that are not running
///
/// Groups all turns that have not ended and are not running by the reason, and lists the first of them.
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
    let (tenant, store) = (principal.only(), &app.parts.store);
    let stances = store.count_pending(tenant).await?;
    let Runnable { mut pending, not_inspected } = explain_runnable(&app, tenant, &stances).await?;
    let mut groups = grouped(&pending);
    for (stance, cause) in BY_ROWS {
        let Some(crowd) = stances.get(&stance) else { continue };
        let some = store.pending_turns(stance, tenant, limit + 1).await?;
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

/// Every reason why a turn is not running.
const CAUSES: [PendingCause; 9] = [
    PendingCause::Worker,
    PendingCause::Limit,
    PendingCause::Provider,
    PendingCause::Paused,
    PendingCause::Retry,
    PendingCause::NotEnqueued,
    PendingCause::Behind,
    PendingCause::NotDue,
    PendingCause::Person,
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
    tenant: Option<&str>,
    stances: &BTreeMap<WaitReason, store::PendingCount>,
) -> Result<Runnable, ApiError> {
    let runnable = app.parts.store.pending_turns(WaitReason::Runnable, tenant, INSPECTED_MAX).await?;
    let all = stances.get(&WaitReason::Runnable).map_or(0, |it| it.turns);
    let count = |some: &[store::PendingTurn]| u64::try_from(some.len()).unwrap_or(u64::MAX);
    let jobs = Jobs::load(app).await?;
    let beyond = all.saturating_sub(count(&runnable));
    let (unlisted, runnable): (Vec<_>, Vec<_>) = runnable.into_iter().partition(|it| jobs.is_unlisted(it));
    let not_inspected = beyond.saturating_add(count(&unlisted));
    let mut pending: Vec<Pending> = runnable.into_iter().filter_map(|it| jobs.explain(it)).collect();
    pending.sort_by_key(|it| (it.cause, it.detail.clone(), it.place, it.turn.since));
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
    let stances = app.parts.store.count_pending(None).await?;
    let Runnable { pending, not_inspected } = explain_runnable(app, None, &stances).await?;
    let mut counts: BTreeMap<&'static str, Count> =
        CAUSES.into_iter().map(|it| (label(it), Count::default())).collect();
    let mut add = |cause, turns: u64, since: i64| {
        let count = counts.entry(label(cause)).or_default();
        count.turns = count.turns.saturating_add(turns);
        count.since = Some(count.since.map_or(since, |it| it.min(since)));
    };
    for (stance, cause) in BY_ROWS {
        if let Some(it) = stances.get(&stance) {
            add(cause, it.turns, it.since);
        }
    }
    pending.iter().for_each(|it| add(it.cause, 1, it.turn.since));
    counts.insert(NOT_INSPECTED, Count { turns: not_inspected, since: None });
    Ok(counts)
}

fn label(cause: PendingCause) -> &'static str {
    match cause {
        PendingCause::Worker => "worker",
        PendingCause::Limit => "limit",
        PendingCause::Provider => "provider",
        PendingCause::Paused => "paused",
        PendingCause::Retry => "retry",
        PendingCause::Died => "died",
        PendingCause::NotEnqueued => "not_enqueued",
        PendingCause::Behind => "behind",
        PendingCause::NotDue => "not_due",
        PendingCause::Person => "person",
    }
}

/// A turn with the reason why it is not running.
struct Pending {
    cause: PendingCause,
    detail: Option<String>,
    place: Option<u64>,
    until: Option<i64>,
    turn: store::PendingTurn,
}

/// Snapshot of the queue and the pauses.
struct Jobs {
    listed: BTreeMap<ThreadId, QueueEntry>,
    /// All threads that have a job.
    enqueued: Enqueued,
    pauses: Vec<Pause>,
    now: i64,
}

impl Jobs {
    async fn load(app: &AppState) -> Result<Self, ApiError> {
        let pauses = app.parts.store.pauses().await?;
        let unavailable = |error: queue::QueueError| Kind::Unavailable.because(error.to_string());
        let queue = &app.parts.queue;
        let list = queue.list(MAX_LISTED).await.map_err(unavailable)?;
        let enqueued = queue.enqueued().await.map_err(unavailable)?;
        let mut listed: BTreeMap<ThreadId, QueueEntry> = BTreeMap::new();
        for it in list {
            // If a thread has several jobs, the first one counts: running jobs are listed before waiting ones.
            listed.entry(it.thread).or_insert(it);
        }
        Ok(Self { listed, enqueued, pauses, now: clock::now() })
    }

    /// Reports whether the turn has a job at an unknown position, or may have one on a node that does not answer.
    fn is_unlisted(&self, turn: &store::PendingTurn) -> bool {
        !self.listed.contains_key(&turn.thread)
            && self.enqueued.contains(turn.thread) != Some(false)
            && self.paused(turn).is_none()
    }

    /// Explains why a runnable turn is not running. Returns none if it is running.
    fn explain(&self, turn: store::PendingTurn) -> Option<Pending> {
        let place = self.listed.get(&turn.thread).map(|it| &it.state);
        let (cause, detail, place, until) = match (place, self.paused(&turn)) {
            (Some(EntryState::InFlight { deaths: 0, .. }), _) => return None,
            (Some(EntryState::InFlight { deaths, .. }), _) => {
                let times = if *deaths == 1 { "once".to_owned() } else { format!("{deaths} times") };
                (PendingCause::Died, Some(format!("its worker died {times}")), None, None)
            }
            (_, Some(pause)) => (PendingCause::Paused, Some(pause.to_string()), None, None),
            (Some(EntryState::Waiting { position }), None) => {
                let lane = format!("tenant {}, {}", turn.tenant, turn.priority);
                (PendingCause::Worker, Some(lane), Some(position + 1), None)
            }
            (Some(EntryState::Delayed { due_in, reason: Some(why) }), None) => {
                let cause = match why.by {
                    BlockedBy::Retry => PendingCause::Retry,
                    BlockedBy::Pause => PendingCause::Paused,
                    BlockedBy::Limit => PendingCause::Limit,
                    BlockedBy::Provider => PendingCause::Provider,
                    BlockedBy::Worker => return None,
                };
                (
                    cause,
                    Some(why.detail.clone()),
                    None,
                    Some(self.now.saturating_add(clock::duration_micros(*due_in))),
                )
            }
            // A delayed job without a reason belongs to another turn of the thread.
            (Some(EntryState::Delayed { reason: None, .. }) | None, None) if turn.is_asked => {
                (PendingCause::Behind, Some(AWAITS_PERSON.to_owned()), None, None)
            }
            (Some(EntryState::Delayed { reason: None, .. }) | None, None) => {
                (PendingCause::NotEnqueued, None, None, None)
            }
        };
        Some(Pending { cause, detail, place, until, turn })
    }

    fn paused(&self, turn: &store::PendingTurn) -> Option<&Pause> {
        let holds = |it: &&Pause| match it.kind {
            PauseKind::Strategy => it.name == turn.strategy,
            PauseKind::Tenant | PauseKind::OwnTenant => it.name == turn.tenant,
            PauseKind::Model => false,
        };
        self.pauses.iter().find(holds)
    }
}

/// Groups sorted turns by their reason.
fn grouped(pending: &[Pending]) -> Vec<PendingGroup> {
    let same_reason = |a: &Pending, b: &Pending| a.cause == b.cause && a.detail == b.detail;
    let group = |some: &[Pending]| {
        let first = some.first()?;
        let places = || some.iter().filter_map(|it| it.place);
        Some(PendingGroup {
            cause: first.cause,
            detail: first.detail.clone(),
            turns: u64::try_from(some.len()).unwrap_or(u64::MAX),
            since: rfc3339(some.iter().map(|it| it.turn.since).min()?),
            until: some.iter().filter_map(|it| it.until).min().map(rfc3339),
            places: places().min().zip(places().max()),
        })
    };
    pending.chunk_by(same_reason).filter_map(group).collect()
}

impl Pending {
    fn into_response(self) -> PendingTurn {
        let Self { cause, detail, place, until, turn } = self;
        let store::PendingTurn {
            turn: turn_id, thread: thread_id, tenant, strategy, priority, since, ..
        } = turn;
        let (priority, since, until) = (views::priority(priority), rfc3339(since), until.map(rfc3339));
        PendingTurn { turn_id, thread_id, tenant, strategy, priority, cause, detail, place, since, until }
    }
}
