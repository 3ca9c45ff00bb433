//! Clients of this process that wait for an answer, and the task that keeps which ones.
//!
//! A process that is killed cannot keep that answers were lost. What its clients waited for is therefore written while they wait.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use queue::clock;
use store::{ANSWER_BEAT, AwaitedAnswer, Store, TurnId};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use uuid::Uuid;

/// Time that a client waits before it is written.
const WRITTEN_AFTER: Duration = Duration::from_secs(1);

/// Clients of this process that wait for an answer.
pub(crate) struct Waits {
    /// Id of this process.
    process: Uuid,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: WaitId,
    waits: BTreeMap<WaitId, Wait>,
    /// Turns of ended waits that are written.
    ended: Vec<TurnId>,
}

/// Number of a wait within its process.
pub(super) type WaitId = u64;

struct Wait {
    answer: AwaitedAnswer,
    is_written: bool,
}

/// Changes since the last write.
struct Changes {
    added: Vec<(WaitId, AwaitedAnswer)>,
    removed: Vec<TurnId>,
    /// True if something is written that has not ended.
    goes_on: bool,
}

impl Waits {
    pub(crate) fn new() -> Self {
        Self { process: clock::new_id(), open: Mutex::default() }
    }

    /// Begins the wait for the answer of a turn.
    pub(super) fn begin(&self, turn: TurnId, key: String) -> WaitId {
        let mut open = self.open();
        let id = open.next;
        open.next += 1;
        let answer = AwaitedAnswer { turn, key, since: clock::now() };
        open.waits.insert(id, Wait { answer, is_written: false });
        id
    }

    /// Ends a wait. Returns its turn and the request of the client, unless it ended before.
    pub(super) fn end(&self, id: WaitId) -> Option<AwaitedAnswer> {
        let mut open = self.open();
        let Wait { answer, is_written } = open.waits.remove(&id)?;
        if is_written {
            open.ended.push(answer.turn);
        }
        Some(answer)
    }

    /// Writes what clients wait for, until shutdown. Each answer that is lost afterwards is kept by itself.
    pub(crate) async fn keep_writing(&self, store: &Store, stop: &CancellationToken) {
        let beats = async {
            loop {
                sleep(ANSWER_BEAT).await;
                self.write(store).await;
            }
        };
        stop.run_until_cancelled(beats).await;
        if let Err(error) = store.end_awaiting(self.process).await {
            warn!(%error, "cannot delete what clients waited for; a repetition may join a turn whose answer arrived");
        }
    }

    /// Writes what changed, and that this process runs. Without long waits, writes nothing.
    async fn write(&self, store: &Store) {
        let Changes { added, removed, goes_on } = self.changes();
        if added.is_empty() && removed.is_empty() && !goes_on {
            return;
        }
        let (ids, added): (Vec<_>, Vec<_>) = added.into_iter().unzip();
        if let Err(error) = store.write_awaited_answers(self.process, added, removed.clone()).await {
            warn!(%error, "cannot write what clients wait for; retrying");
            let mut open = self.open();
            open.ended.extend(removed);
            for id in ids {
                open.waits.entry(id).and_modify(|wait| wait.is_written = false);
            }
        }
    }

    fn changes(&self) -> Changes {
        let mut open = self.open();
        let removed = std::mem::take(&mut open.ended);
        let long_since = clock::now() - clock::duration_micros(WRITTEN_AFTER);
        let goes_on = open.waits.values().any(|wait| wait.is_written);
        let mut added = Vec::new();
        for (id, wait) in &mut open.waits {
            if !wait.is_written && wait.answer.since <= long_since {
                wait.is_written = true;
                added.push((*id, wait.answer.clone()));
            }
        }
        Changes { added, removed, goes_on }
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
