//! A world that replays the answers of the fixtures with delays, loses answers, and records every write.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use shared::{DynThread, Event, Fault, Graph, Response, Safety, ToolOutput};
use store::ThreadId;
use world::{Outcome, RecordedWorld, RequestContext, World};

use super::faults::{Dice, Life};

/// The record of all writes.
#[derive(Default)]
pub(super) struct Book(Mutex<Pages>);

#[derive(Default)]
struct Pages {
    /// Results of each write, by idempotency key.
    done: BTreeMap<String, Vec<Write>>,
    under_way: BTreeMap<ThreadId, Vec<Arc<Life>>>,
}

struct Write {
    result: String,
    safety: Safety,
}

impl Book {
    /// Returns true if a living process is performing a write. The call of a dead process has ended, whatever its
    /// result.
    pub(super) fn under_way(&self, thread: ThreadId) -> bool {
        self.0.lock().unwrap().under_way.get(&thread).is_some_and(|it| it.iter().any(|life| life.is_alive()))
    }

    pub(super) fn result(&self, key: &str) -> Option<String> {
        self.0.lock().unwrap().done.get(key)?.first().map(|it| it.result.clone())
    }

    /// **Property:** no write that must not be repeated was repeated.
    pub(super) fn balances(&self) -> Result<(), String> {
        for (key, writes) in &self.0.lock().unwrap().done {
            if writes.len() > 1 && writes.iter().any(|it| it.safety == Safety::Write) {
                return Err(format!("the write {key} happened {} times", writes.len()));
            }
        }
        Ok(())
    }
}

/// The world shared by all processes.
pub(super) struct SimWorld {
    dice: Dice,
    book: Arc<Book>,
    threads: Mutex<BTreeMap<ThreadId, Arc<RecordedWorld>>>,
}

impl SimWorld {
    pub(super) fn new(dice: Dice, book: Arc<Book>) -> Self {
        Self { dice, book, threads: Mutex::default() }
    }

    /// Adds the answers for this thread.
    pub(super) fn learn(&self, thread: ThreadId, graph: &'static dyn Graph, script: &[Event]) {
        let says = RecordedWorld::new(graph, script).unwrap();
        self.threads.lock().unwrap().insert(thread, Arc::new(says));
    }

    /// Returns the world as seen by one process.
    pub(super) fn of(self: &Arc<Self>, life: Arc<Life>) -> Arc<dyn World> {
        Arc::new(Met { world: self.clone(), life })
    }
}

struct Met {
    world: Arc<SimWorld>,
    life: Arc<Life>,
}

#[async_trait]
impl World for Met {
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let SimWorld { dice, book, threads } = &*self.world;
        let says = threads.lock().unwrap().get(&ask.thread).cloned().unwrap();
        // A few calls take longer than a lease.
        let ms = if dice.once_in(30) { dice.below(5_000) } else { dice.below(40) };
        self.life.reaches(Duration::from_millis(ms / 2)).await;
        let outcome = says.perform(thread, ask).await;
        if ask.due.is_write() {
            let _call = UnderWay::begin(book, ask.thread, &self.life);
            if let Ok((Response::Output(ToolOutput::Ok(text)), _)) = &outcome {
                let write = Write { result: text.clone(), safety: ask.due.safety };
                book.0.lock().unwrap().done.entry(ask.key.to_owned()).or_default().push(write);
            }
            self.life.reaches(Duration::from_millis(ms / 2)).await;
            if self.life.is_faulty() && ask.due.safety == Safety::Write && outcome.is_ok() && dice.once_in(10)
            {
                return Err(Fault::in_doubt("the connection was lost"));
            }
            return outcome;
        }
        self.life.reaches(Duration::from_millis(ms / 2)).await;
        outcome
    }
}

/// A call in flight; it also ends when it is dropped.
struct UnderWay<'a>(&'a Book, ThreadId, &'a Arc<Life>);

impl<'a> UnderWay<'a> {
    fn begin(book: &'a Book, thread: ThreadId, life: &'a Arc<Life>) -> Self {
        book.0.lock().unwrap().under_way.entry(thread).or_default().push(life.clone());
        Self(book, thread, life)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(calls) = self.0.0.lock().unwrap().under_way.get_mut(&self.1)
            && let Some(nth) = calls.iter().position(|it| Arc::ptr_eq(it, self.2))
        {
            calls.swap_remove(nth);
        }
    }
}
