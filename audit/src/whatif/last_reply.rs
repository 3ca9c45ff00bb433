//! The last replies of recorded threads, for a judge that grades them.

use std::collections::BTreeMap;

use shared::{DynThread, Event};
use store::{Error, Reader, Recorded, Store, ThreadId, ThreadScan};
use threads::StrategyRegistry;

use super::record::add_people;
use crate::judge::Single;

/// The last reply of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastReply {
    /// Tenant that owns the thread.
    pub tenant: String,
    /// The reply, and what people wrote.
    pub single: Single,
}

/// Last replies of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastReplies {
    /// Those of the newest threads that have one.
    pub replies: BTreeMap<ThreadId, LastReply>,
    /// Number of threads without a reply.
    pub without: u64,
    /// Number of threads whose log cannot be read, or whose strategy is unknown.
    pub unreadable: u64,
    /// Number of threads with a reply that are older than those.
    pub older: u64,
}

/// Returns the last replies of the newest threads of a range, at most `limit`.
///
/// # Errors
///
/// As [`Store::read_logs`].
pub async fn last_replies(
    store: &Store,
    strategies: &StrategyRegistry,
    round: &ThreadScan,
    limit: usize,
) -> Result<LastReplies, Error> {
    let strategies = strategies.clone();
    let make =
        move || Lane { strategies: strategies.clone(), limit, found: LastReplies::default(), log: None };
    let mut all = LastReplies::default();
    for mut lane in store.read_logs(round, make).await? {
        lane.end();
        all.without += lane.found.without;
        all.unreadable += lane.found.unreadable;
        all.older += lane.found.older;
        all.replies.extend(lane.found.replies);
    }
    all.keep(limit);
    Ok(all)
}

impl LastReplies {
    /// Keeps the newest ones. Ids begin with a time.
    fn keep(&mut self, limit: usize) {
        while limit < self.replies.len() {
            self.replies.pop_first();
            self.older += 1;
        }
    }
}

/// Reads logs of a part of the range.
struct Lane {
    strategies: StrategyRegistry,
    limit: usize,
    found: LastReplies,
    log: Option<Log>,
}

/// The log that is being read.
struct Log {
    id: ThreadId,
    /// `None` once the log is known not to be readable.
    thread: Option<Box<dyn DynThread>>,
    input: String,
}

impl Reader for Lane {
    fn read(&mut self, id: ThreadId, event: Result<Recorded, Error>) {
        if self.log.as_ref().is_none_or(|log| log.id != id) {
            self.end();
            let graph = match event.as_ref().map(|first| &first.event) {
                Ok(Event::Opened(opened)) => self.strategies.find(&opened.strategy),
                Ok(_) | Err(_) => None,
            };
            let thread = graph.map(shared::Graph::begin);
            self.log = Some(Log { id, thread, input: String::new() });
        }
        let Some(log) = &mut self.log else { return };
        let Some(thread) = &mut log.thread else { return };
        match event.ok().filter(|recorded| thread.apply(&recorded.event).is_ok()) {
            Some(recorded) => add_people(&mut log.input, &recorded.event),
            None => log.thread = None,
        }
    }
}

impl Lane {
    fn end(&mut self) {
        let Some(Log { id, thread, input }) = self.log.take() else { return };
        let Some(thread) = thread else {
            self.found.unreadable += 1;
            return;
        };
        let Some(answer) = thread.reply().filter(|reply| !reply.trim().is_empty()) else {
            self.found.without += 1;
            return;
        };
        let single = Single { input, answer: answer.to_owned() };
        self.found.replies.insert(id, LastReply { tenant: thread.tenant().to_owned(), single });
        self.found.keep(self.limit);
    }
}
