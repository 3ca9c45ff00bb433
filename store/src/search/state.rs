//! State of the search index in this process.

use std::{
    collections::VecDeque,
    mem::ManuallyDrop,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use queue::clock;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::{load::Load, marks::Marks};
use crate::ThreadId;

/// State of the search index in this process.
#[derive(Debug)]
pub(crate) struct SearchIndex {
    pub(super) is_on: AtomicBool,
    /// True once a task of this process indexes what is marked.
    pub(super) is_attended: AtomicBool,
    pub(crate) marks: Marks,
    /// Held by the task that indexes: API and worker of one process have one of them.
    pub(super) turn: Mutex<()>,
    /// Tasks of this process that index, or wait until no other one does.
    pub(super) tasks: AtomicUsize,
    /// Scans of this process. The last one continues.
    pub(super) scans: Mutex<Vec<Scan>>,
    /// Id of the row of this process in `search_writers`.
    pub(super) writer: Uuid,
    pub(super) load: Load,
}

impl Default for SearchIndex {
    fn default() -> Self {
        Self {
            is_on: AtomicBool::new(true),
            is_attended: AtomicBool::new(false),
            marks: Marks::default(),
            turn: Mutex::default(),
            tasks: AtomicUsize::new(0),
            scans: Mutex::default(),
            writer: clock::new_id(),
            load: Load::default(),
        }
    }
}

/// A task that indexes, or waits until no other task of its process does.
#[derive(Debug)]
pub struct IndexingTask<'a>(&'a AtomicUsize);

impl<'a> IndexingTask<'a> {
    /// Counts a task.
    pub(super) fn of(tasks: &'a AtomicUsize) -> Self {
        tasks.fetch_add(1, Ordering::AcqRel);
        Self(tasks)
    }

    /// Leaves. Returns true if no other task goes on with what is marked, so that the caller ends the indexing.
    pub fn leave(self) -> bool {
        ManuallyDrop::new(self).0.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

impl Drop for IndexingTask<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl SearchIndex {
    /// Marks a thread whose log has grown, if a task of this process indexes it.
    pub(crate) fn appended(&self, thread: crate::ThreadId, at: i64) {
        if self.is_attended.load(Ordering::Relaxed) {
            self.marks.mark(thread, at);
        }
    }

    /// Returns true if logs that this process imports would be left out.
    pub(crate) fn is_unattended(&self) -> bool {
        self.is_on.load(Ordering::Relaxed) && !self.is_attended.load(Ordering::Relaxed)
    }
}

/// A scan of threads in the order of their ids.
#[derive(Debug)]
pub(super) struct Scan {
    pub(super) id: Uuid,
    /// Threads that changed since this time are read.
    pub(super) since: i64,
    /// Last thread that is indexed.
    pub(super) after: Option<ThreadId>,
    /// Threads that were found and not yet read.
    pub(super) page: VecDeque<ThreadId>,
}

impl Scan {
    pub(super) fn new(id: Uuid, since: i64, after: Option<ThreadId>) -> Self {
        Self { id, since, after, page: VecDeque::new() }
    }
}
