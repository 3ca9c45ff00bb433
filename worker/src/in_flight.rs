//! Running jobs of a worker: at most one per thread, however often the thread is enqueued.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use queue::Job;
use store::ThreadId;
use tokio::{sync::Notify, task::AbortHandle};
use tracing::warn;

/// Running jobs, by thread.
#[derive(Default)]
pub(crate) struct InFlight(Mutex<BTreeMap<ThreadId, Entry>>);

struct Entry {
    job: Job,
    /// Set when the thread was enqueued again while its job ran: read the log once more.
    was_woken: bool,
    /// Wakes the job when its thread was enqueued again, or when its lease was lost.
    wake: Arc<Notify>,
    task: Option<AbortHandle>,
}

/// Result of admitting a claimed job.
pub(crate) enum Admitted {
    /// The job starts. The handle wakes it when its thread is enqueued again.
    New(Arc<Notify>),
    /// Another job of the thread is running and was woken instead.
    Merged,
    /// The same job is already running here.
    Redelivered,
}

impl InFlight {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ThreadId, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a job unless one of its thread is running here; that one is woken instead.
    pub(crate) fn admit(&self, job: &Job) -> Admitted {
        let mut running = self.lock();
        if let Some(entry) = running.get_mut(&job.thread) {
            if entry.job.token == job.token {
                return Admitted::Redelivered;
            }
            entry.was_woken = true;
            entry.wake.notify_one();
            return Admitted::Merged;
        }
        let wake = Arc::<Notify>::default();
        let entry = Entry { job: job.clone(), was_woken: false, wake: wake.clone(), task: None };
        running.insert(job.thread, entry);
        Admitted::New(wake)
    }

    /// Registers the job's task, so that [`InFlight::abort_all`] aborts it.
    pub(crate) fn set_task(&self, thread: ThreadId, task: AbortHandle) {
        if let Some(entry) = self.lock().get_mut(&thread) {
            entry.task = Some(task);
        }
    }

    /// Number of running jobs.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Copies of all running jobs.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        self.lock().values().map(|entry| entry.job.clone()).collect()
    }

    /// Aborts all running jobs and returns them.
    pub(crate) fn abort_all(&self) -> Vec<Job> {
        let running = std::mem::take(&mut *self.lock());
        let job = |entry: Entry| {
            if let Some(task) = entry.task {
                task.abort();
            }
            entry.job
        };
        running.into_values().map(job).collect()
    }

    /// Removes a finished job. Returns true if its thread was enqueued again while it ran.
    pub(crate) fn remove(&self, job: &Job) -> bool {
        self.lock().remove(&job.thread).is_some_and(|entry| entry.was_woken)
    }

    /// Wakes the thread's job, if one is running, so that it checks the log for events of other processes.
    pub(crate) fn wake(&self, thread: ThreadId) {
        if let Some(entry) = self.lock().get(&thread) {
            entry.wake.notify_one();
        }
    }

    /// Wakes a job whose lease was lost, so that it stops if another worker appended. Returns false if the job has
    /// ended.
    ///
    /// ## Why the job is not aborted
    ///
    /// A lease is also lost when Redis loses its data, and then no other worker has the thread, so the running request
    /// may as well finish. If another worker did take over, the log accepts the writes of only one of them.
    pub(crate) fn lease_lost(&self, job: &Job) -> bool {
        let running = self.lock();
        let Some(entry) = running.get(&job.thread).filter(|entry| entry.job.token == job.token) else {
            return false;
        };
        warn!(thread = %job.thread, "lease lost; checking whether another worker took over");
        entry.wake.notify_one();
        true
    }
}
