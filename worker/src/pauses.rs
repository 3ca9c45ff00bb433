//! What is paused, as a worker knows it, and which threads it has put off for that.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use store::{
    Log, Parts, Pause, PauseKind, ThreadId, When,
    queue::{HeldBy, Why},
};
use tracing::{info, warn};

/// How many threads it remembers to have put off. Any other comes back by its own ring, a little later.
const HELD_MAX: usize = 100_000;

/// What is paused, and whom that holds.
#[derive(Default)]
pub(crate) struct Pauses(Mutex<Known>);

#[derive(Default)]
struct Known {
    in_force: BTreeMap<Paused, Pause>,
    held: BTreeMap<ThreadId, Paused>,
}

/// What, and which.
type Paused = (PauseKind, String);

impl Pauses {
    /// Why the thread may not begin what needs this, if it is paused; the thread is then rung for when it is resumed.
    pub(crate) fn hold(&self, thread: ThreadId, kind: PauseKind, name: &str) -> Option<Why> {
        let mut known = self.lock();
        if known.in_force.is_empty() {
            return None;
        }
        let paused = (kind, name.to_owned());
        let why = HeldBy::Pause.because(known.in_force.get(&paused)?.to_string());
        if known.held.len() < HELD_MAX {
            known.held.insert(thread, paused);
        }
        Some(why)
    }

    /// Reads what is paused now, and rings for those whom nothing holds any more.
    pub(crate) async fn refresh<L: Log>(&self, parts: &Parts<L>) {
        let pauses = match parts.store.pauses().await {
            Ok(pauses) => pauses,
            Err(error) => {
                warn!(%error, "cannot read what is paused; trying again with the next sweep");
                return;
            }
        };
        for thread in self.learn(pauses) {
            if let Err(error) = ring(parts, thread).await {
                warn!(%thread, error, "cannot ring for a thread that was resumed; it comes back by itself");
            }
        }
    }

    /// Takes in what is paused now; says which threads were held by something that is not.
    fn learn(&self, pauses: Vec<Pause>) -> BTreeSet<ThreadId> {
        let now: BTreeMap<Paused, Pause> =
            pauses.into_iter().map(|it| ((it.kind, it.name.clone()), it)).collect();
        let mut known = self.lock();
        let before = std::mem::replace(&mut known.in_force, now);
        let Known { in_force, held } = &mut *known;
        in_force
            .values()
            .filter(|it| !before.contains_key(&(it.kind, it.name.clone())))
            .for_each(|it| info!("{it}"));
        let mut free = BTreeSet::new();
        held.retain(|thread, by| in_force.contains_key(by) || !free.insert(*thread));
        if !free.is_empty() {
            info!(threads = free.len(), "resumed");
        }
        free
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[test]
fn whoever_was_held_is_named_once_it_is_resumed() {
    let pauses = Pauses::default();
    let [a, b] = [1, 2].map(uuid::Uuid::from_u128);
    let [model, strategy] =
        [PauseKind::Model, PauseKind::Strategy].map(|it| Pause::new(it, "x", "dear", "Ada"));
    assert_eq!(pauses.hold(a, PauseKind::Model, "x"), None);
    assert!(pauses.learn(vec![model.clone(), strategy.clone()]).is_empty());
    let why = pauses.hold(a, PauseKind::Model, "x").unwrap();
    assert_eq!(why, HeldBy::Pause.because("model x is paused by Ada: dear"));
    assert!(pauses.hold(b, PauseKind::Strategy, "x").is_some());
    assert_eq!(pauses.hold(b, PauseKind::Strategy, "y"), None);
    assert_eq!(pauses.learn(vec![strategy]), BTreeSet::from([a]));
    assert_eq!(pauses.learn(vec![]), BTreeSet::from([b]));
    assert!(pauses.learn(vec![]).is_empty());
}

async fn ring<L: Log>(parts: &Parts<L>, thread: ThreadId) -> Result<(), String> {
    let Some(lane) = parts.store.lane(thread).await.map_err(|it| it.to_string())? else { return Ok(()) };
    parts.queue.ring(thread, &lane, When::Now).await.map_err(|it| it.to_string())
}
