//! Who listens to what in this process.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio::sync::{
    Notify,
    broadcast::{self, error::RecvError},
    watch,
};
use uuid::Uuid;

use super::{BEHIND, Notice};

/// The listeners by thread. **Invariant:** a thread is listed as long as somebody listens to it, and no longer.
#[derive(Debug, Default)]
pub(super) struct Board {
    lines: Mutex<Lines>,
    /// Told when the list of threads changed.
    pub(super) changed: Notify,
}

#[derive(Debug, Default)]
struct Lines {
    by_thread: BTreeMap<Uuid, Line>,
    /// The threads that began or ceased to be listened to since somebody last asked.
    changed: BTreeSet<Uuid>,
}

#[derive(Debug)]
struct Line {
    notices: broadcast::Sender<Notice>,
    /// Whether notices from outside reach this line.
    stands: watch::Sender<bool>,
}

/// A listener that has not begun to listen.
pub(super) struct Listener {
    seat: Seat,
    stands: watch::Receiver<bool>,
}

/// A place among the listeners, given up when it is dropped.
struct Seat {
    board: Arc<Board>,
    thread: Uuid,
    // Always there, until `drop` takes it.
    notices: Option<broadcast::Receiver<Notice>>,
}

impl Board {
    /// Begins to keep what is delivered to a thread.
    pub(super) fn listen(self: &Arc<Self>, thread: Uuid) -> Listener {
        let mut lines = self.lines();
        let fresh = !lines.by_thread.contains_key(&thread);
        let line = lines.by_thread.entry(thread).or_insert_with(Line::new);
        let (notices, stands) = (Some(line.notices.subscribe()), line.stands.subscribe());
        if fresh {
            lines.changed.insert(thread);
            self.changed.notify_one();
        }
        Listener { seat: Seat { board: Arc::clone(self), thread, notices }, stands }
    }

    /// Tells every listener of a thread.
    pub(super) fn deliver(&self, thread: Uuid, notice: Notice) {
        if let Some(line) = self.lines().by_thread.get(&thread) {
            // Only without a listener does this fail, and then nobody misses it.
            let _ = line.notices.send(notice);
        }
    }

    /// Whether nobody listens to anything.
    pub(super) fn is_empty(&self) -> bool {
        self.lines().by_thread.is_empty()
    }

    /// The threads whose listeners came or went since this was last asked, and whether there are any now.
    pub(super) fn take_changed(&self) -> Vec<(Uuid, bool)> {
        let mut lines = self.lines();
        let changed = std::mem::take(&mut lines.changed);
        changed.into_iter().map(|thread| (thread, lines.by_thread.contains_key(&thread))).collect()
    }

    /// Notes that notices from outside reach these threads from now on.
    pub(super) fn stand(&self, threads: &[Uuid]) {
        let lines = self.lines();
        for line in threads.iter().filter_map(|thread| lines.by_thread.get(thread)) {
            line.stands.send_replace(true);
        }
    }

    /// Notes that nothing from outside reaches anybody: every thread is to be looked at again.
    pub(super) fn fall(&self) {
        let mut lines = self.lines();
        let Lines { by_thread, changed } = &mut *lines;
        changed.clear();
        changed.extend(by_thread.keys());
        for line in by_thread.values() {
            line.stands.send_replace(false);
        }
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    fn new() -> Self {
        Self { notices: broadcast::Sender::new(BEHIND), stands: watch::Sender::new(false) }
    }
}

impl Listener {
    /// Waits until notices from outside reach it.
    pub(super) async fn stands(&mut self) {
        // It closes only when the line is gone, and the seat keeps the line.
        let _ = self.stands.wait_for(|stands| *stands).await;
    }

    /// What it hears, and heard since it was made.
    pub(super) fn notices(self) -> BoxStream<'static, Notice> {
        let hear = |mut seat: Seat| async move {
            loop {
                match seat.notices.as_mut()?.recv().await {
                    Ok(notice) => return Some((notice, seat)),
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return None,
                }
            }
        };
        stream::unfold(self.seat, hear).boxed()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut lines = self.board.lines();
        // First, so that the count is right; under the lock, so that nobody sits down meanwhile.
        drop(self.notices.take());
        if lines.by_thread.get(&self.thread).is_some_and(|line| line.notices.receiver_count() == 0) {
            lines.by_thread.remove(&self.thread);
            lines.changed.insert(self.thread);
            self.board.changed.notify_one();
        }
    }
}
