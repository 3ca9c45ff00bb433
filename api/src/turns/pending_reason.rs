//! The reason why one turn is not running, from the jobs of the queue and the pauses.

use std::{collections::BTreeMap, time::Duration};

use api_types::{PendingCause, PendingTurn};
use queue::{
    BlockedBy, Enqueued, EntryState, MAX_LISTED, QueueEntry,
    clock::{self, rfc3339},
};
use store::{Pause, PauseKind, ThreadId};

use crate::{
    server::{
        problem::{ApiError, Kind},
        state::AppState,
    },
    views,
};

/// Detail of a turn whose job ran, but whose thread is waiting for a person.
const AWAITS_PERSON: &str = "its thread is waiting for a person";

/// A turn with the reason why it is not running.
pub(super) struct Pending {
    pub(super) cause: PendingCause,
    pub(super) detail: Option<String>,
    pub(super) place: Option<u64>,
    pub(super) until: Option<i64>,
    pub(super) turn: store::PendingTurn,
}

impl Pending {
    pub(super) fn into_response(self) -> PendingTurn {
        let Self { cause, detail, place, until, turn } = self;
        let store::PendingTurn {
            turn: turn_id, thread: thread_id, tenant, strategy, priority, since, ..
        } = turn;
        let (priority, since, until) = (views::priority(priority), rfc3339(since), until.map(rfc3339));
        PendingTurn { turn_id, thread_id, tenant, strategy, priority, cause, detail, place, since, until }
    }
}

/// Snapshot of the queue and the pauses.
pub(super) struct Jobs {
    listed: BTreeMap<ThreadId, QueueEntry>,
    /// All threads that have a job. Not read for one thread in a long queue, because that reads the whole queue.
    enqueued: Option<Enqueued>,
    pauses: Vec<Pause>,
    now: i64,
}

impl Jobs {
    /// Reads the pauses and the queue, which lists its first jobs. Explains the turns of one thread, or of all.
    pub(super) async fn load(app: &AppState, thread: Option<ThreadId>) -> Result<Self, ApiError> {
        let pauses = app.parts.store.pauses().await?;
        let unavailable = |error: queue::QueueError| Kind::Unavailable.because(error.to_string());
        let queue = &app.parts.queue;
        let list = queue.list(MAX_LISTED).await.map_err(unavailable)?;
        let is_long = list.len() >= MAX_LISTED;
        let enqueued = match thread {
            Some(_) if is_long => None,
            _ => Some(queue.enqueued().await.map_err(unavailable)?),
        };
        let mut listed: BTreeMap<ThreadId, QueueEntry> = BTreeMap::new();
        for job in list {
            // If a thread has several jobs, the first one counts: running jobs are listed before waiting ones.
            listed.entry(job.thread).or_insert(job);
        }
        Ok(Self { listed, enqueued, pauses, now: clock::now() })
    }

    /// Reports whether the turn has a job at an unknown position, or may have one on a node that does not answer.
    pub(super) fn is_unlisted(&self, turn: &store::PendingTurn) -> bool {
        !self.listed.contains_key(&turn.thread)
            && self.enqueued.as_ref().and_then(|filter| filter.contains(turn.thread)) != Some(false)
            && self.paused(turn).is_none()
    }

    /// Explains why a runnable turn is not running. Returns none if it is running.
    pub(super) fn explain(&self, turn: store::PendingTurn) -> Option<Pending> {
        let state = self.listed.get(&turn.thread).map(|job| &job.state);
        if let Some(EntryState::InFlight { consumer, since_renewal, expires_in, .. }) = state
            && expires_in < since_renewal
        {
            return Some(self.stalled(turn, consumer, *since_renewal, *expires_in));
        }
        let (cause, detail, place, until) = match (state, self.paused(&turn)) {
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

    /// Explains a turn whose worker is silent. Workers renew a lease after a third of it, so more than half of one without a
    /// renewal means that the worker missed one.
    fn stalled(
        &self,
        mut turn: store::PendingTurn,
        worker: &str,
        since_renewal: Duration,
        expires_in: Duration,
    ) -> Pending {
        let next = match expires_in {
            Duration::ZERO => "the lease has expired, and the next worker with a free slot takes over",
            _ => "another worker takes over when the lease expires",
        };
        let detail = format!("worker {worker} no longer renews its lease; {next}");
        turn.since = self.now.saturating_sub(clock::duration_micros(since_renewal));
        let expires_at = self.now.saturating_add(clock::duration_micros(expires_in));
        let until = (!expires_in.is_zero()).then_some(expires_at);
        Pending { cause: PendingCause::Stalled, detail: Some(detail), place: None, until, turn }
    }

    fn paused(&self, turn: &store::PendingTurn) -> Option<&Pause> {
        let holds = |pause: &&Pause| match pause.kind {
            PauseKind::Strategy => pause.name == turn.strategy,
            PauseKind::Tenant | PauseKind::OwnTenant => pause.name == turn.tenant,
            PauseKind::Model => false,
        };
        self.pauses.iter().find(holds)
    }
}
