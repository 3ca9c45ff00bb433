//! The search index: words of messages, arguments and tool results, and the tools, models, prompts and workers of each turn.
//!
//! ```text
//!   words      splits a text into words, alike for both engines
//!   content    the indexed parts of an event
//!   marks      threads that this process appended to and has not indexed
//!   writers    what is indexed: rows of the processes, and scans
//!   load       the load of the deployment, and the rest of the task
//!   round      reads the next logs and writes their entries
//!   entries    rows of the index
//!   removal    deletes rows
//!   matching   the query of an engine
//!   query      hits of a query, with snippets from the log
//! ```
//!
//! ## Why no append writes it
//!
//! An append is the hot path. A process marks the thread in memory, and a task indexes the new events of its log a second later. The
//! task rests much longer than it works while turns run, and about as long as it works otherwise.
//!
//! ## Why nothing is left out, and nothing is indexed twice
//!
//! A row says for each log how far it is indexed. It moves in the transaction that writes the entries, and only from where the
//! process has read. Each process keeps a row with the time up to which everything it appended is indexed. If that process is
//! killed, another one takes the row over and reads the logs that changed since then.
//!
//! **Invariant:** the index is a cache. The log has every text; an entry leads to an event and is deleted with its thread.

mod content;
mod entries;
mod load;
mod marks;
mod matching;
mod query;
mod removal;
mod round;
pub(crate) mod state;
mod words;
mod worker_load;
mod writers;

use std::sync::atomic::Ordering;

use tokio::sync::MutexGuard;

use crate::{Error, Store};

pub(crate) use content::{TermKind, rating_number};
pub(crate) use matching::matching;
pub(crate) use removal::delete;
pub(crate) use writers::scan_imported;

pub use content::Speaker;
pub use query::{Found, MOST_FOUND};
pub use round::IndexRound;
pub use state::IndexingTask;
pub use words::QueryWords;
pub use writers::SearchProgress;

impl Store {
    /// Switches the search index of this process on or off.
    #[must_use]
    pub fn with_search(self, on: bool) -> Self {
        self.search.is_on.store(on, Ordering::Relaxed);
        self
    }

    /// Returns true unless the search index is switched off.
    pub fn has_search(&self) -> bool {
        self.search.is_on.load(Ordering::Relaxed)
    }

    /// Counts a task of this process that indexes, or waits until no other one does.
    pub fn join_indexing(&self) -> IndexingTask<'_> {
        IndexingTask::of(&self.search.tasks)
    }

    /// Waits until no other task of this process indexes. The caller indexes until it drops the result.
    pub async fn index_alone(&self) -> MutexGuard<'_, ()> {
        self.search.turn.lock().await
    }

    /// Returns the store as another process has it: it has marked nothing, and indexes nothing yet.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn in_another_process(&self) -> Self {
        let mut other = self.clone();
        other.search = std::sync::Arc::default();
        other
    }

    /// Marks a thread as if its log had grown a while ago.
    #[cfg(feature = "testing")]
    pub fn mark_grown(&self, thread: crate::ThreadId) {
        self.search.marks.mark(thread, 0);
    }

    /// Returns an error if the index is switched off.
    pub(crate) fn check_search(&self) -> Result<(), Error> {
        if self.has_search() { Ok(()) } else { Err(Error::SearchOff) }
    }
}
