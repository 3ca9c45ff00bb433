//! Active pauses as a worker knows them, and the threads it has blocked for them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use queue::{BlockReason, BlockedBy, Schedule};
use shared::PauseKind;
use store::{Pause, ThreadId};
use threads::{Backends, Log};
use tracing::{info, warn};

/// Maximum blocked threads remembered. Any other becomes due when its delay ends, a little later.
const MAX_BLOCKED: usize = 100_000;

/// Active pauses and the threads blocked by them.
#[derive(Default)]
pub(crate) struct Pauses(Mutex<State>);

#[derive(Default)]
struct State {
    active: BTreeMap<PauseKey, Pause>,
    blocked: BTreeMap<ThreadId, PauseKey>,
}

/// Kind and name of a paused strategy, model or tenant.
type PauseKey = (PauseKind, String);

impl Pauses {
    /// Returns the reason if the strategy, model or tenant is paused. The thread is then enqueued when the pause ends.
    pub(crate) fn block_reason(&self, thread: ThreadId, kind: PauseKind, name: &str) -> Option<BlockReason> {
        let mut state = self.lock();
        if state.active.is_empty() {
            return None;
        }
        let paused = (kind, name.to_owned());
        let why = BlockedBy::Pause.because(state.active.get(&paused)?.to_string());
        if state.blocked.len() < MAX_BLOCKED {
            state.blocked.insert(thread, paused);
        }
        Some(why)
    }

    /// Reads the active pauses and enqueues the threads that are no longer blocked.
    pub(crate) async fn refresh<L: Log>(&self, parts: &Backends<L>) {
        let pauses = match parts.store.pauses().await {
            Ok(pauses) => pauses,
            Err(error) => {
                warn!(%error, "cannot read the active pauses, retrying at the next sweep");
                return;
            }
        };
        for thread in self.update(pauses) {
            if let Err(error) = enqueue(parts, thread).await {
                warn!(%thread, error, "cannot enqueue a resumed thread; it becomes due when its delay ends");
            }
        }
    }

    /// Replaces the active pauses. Returns the threads whose pause ended.
    fn update(&self, pauses: Vec<Pause>) -> BTreeSet<ThreadId> {
        let now: BTreeMap<PauseKey, Pause> =
            pauses.into_iter().map(|pause| ((pause.kind, pause.name.clone()), pause)).collect();
        let mut state = self.lock();
        let before = std::mem::replace(&mut state.active, now);
        let State { active, blocked } = &mut *state;
        active
            .values()
            .filter(|pause| !before.contains_key(&(pause.kind, pause.name.clone())))
            .for_each(|pause| info!("{pause}"));
        let mut resumed = BTreeSet::new();
        blocked.retain(|thread, by| active.contains_key(by) || !resumed.insert(*thread));
        if !resumed.is_empty() {
            info!(threads = resumed.len(), "resumed");
        }
        resumed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[test]
fn a_blocked_thread_is_returned_once_its_pause_ends() {
    let pauses = Pauses::default();
    let [a, b] = [1, 2].map(uuid::Uuid::from_u128);
    let [model, strategy] =
        [PauseKind::Model, PauseKind::Strategy].map(|kind| Pause::new(kind, "x", "dear", "Ada"));
    assert_eq!(pauses.block_reason(a, PauseKind::Model, "x"), None);
    assert!(pauses.update(vec![model.clone(), strategy.clone()]).is_empty());
    let why = pauses.block_reason(a, PauseKind::Model, "x").unwrap();
    assert_eq!(why, BlockedBy::Pause.because("model x is paused by Ada: dear"));
    assert!(pauses.block_reason(b, PauseKind::Strategy, "x").is_some());
    assert_eq!(pauses.block_reason(b, PauseKind::Strategy, "y"), None);
    assert_eq!(pauses.update(vec![strategy]), BTreeSet::from([a]));
    assert_eq!(pauses.update(vec![]), BTreeSet::from([b]));
    assert!(pauses.update(vec![]).is_empty());
}

/// Enqueues a thread that waits no longer, unless it has nothing to do.
pub(crate) async fn enqueue<L: Log>(parts: &Backends<L>, thread: ThreadId) -> Result<(), String> {
    let Some(lane) = parts.store.lane(thread).await.map_err(|error| error.to_string())? else {
        return Ok(());
    };
    parts.queue.enqueue(thread, &lane, Schedule::Now).await.map_err(|error| error.to_string())
}
