//! The jobs that a worker has under way: one for a thread, however often that is rung for.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use store::{Job, ThreadId};
use tokio::{sync::Notify, task::AbortHandle};
use tracing::warn;

/// The jobs under way.
#[derive(Default)]
pub(crate) struct Flights(Mutex<BTreeMap<ThreadId, Flight>>);

/// One of them.
struct Flight {
    job: Job,
    /// Somebody rang while the job was under way: look once more.
    rung_again: bool,
    /// Tells the job so, or that its lease was lost.
    rung: Arc<Notify>,
    task: Option<AbortHandle>,
}

/// What became of the wish to begin a job.
pub(crate) enum Begun {
    /// It begins, and is told by this that somebody rang.
    Anew(Arc<Notify>),
    /// Another for its thread is under way, and was told.
    Rung,
    /// It is under way already.
    Same,
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ThreadId, Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the job, unless one for its thread is under way here: that is told instead.
    pub(crate) fn begin(&self, job: &Job) -> Begun {
        let mut flights = self.lock();
        if let Some(flight) = flights.get_mut(&job.thread) {
            if flight.job.token == job.token {
                return Begun::Same;
            }
            flight.rung_again = true;
            flight.rung.notify_one();
            return Begun::Rung;
        }
        let rung = Arc::<Notify>::default();
        let flight = Flight { job: job.clone(), rung_again: false, rung: rung.clone(), task: None };
        flights.insert(job.thread, flight);
        Begun::Anew(rung)
    }

    /// Has it be broken off with the others, from now on.
    pub(crate) fn hold(&self, thread: ThreadId, task: AbortHandle) {
        if let Some(flight) = self.lock().get_mut(&thread) {
            flight.task = Some(task);
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// All of them.
    pub(crate) fn jobs(&self) -> Vec<Job> {
        self.lock().values().map(|it| it.job.clone()).collect()
    }

    /// Breaks all of them off.
    pub(crate) fn break_off(&self) -> Vec<Job> {
        let flights = std::mem::take(&mut *self.lock());
        let job = |flight: Flight| {
            if let Some(task) = flight.task {
                task.abort();
            }
            flight.job
        };
        flights.into_values().map(job).collect()
    }

    /// Whether somebody rang while it was under way.
    pub(crate) fn end(&self, job: &Job) -> bool {
        self.lock().remove(&job.thread).is_some_and(|it| it.rung_again)
    }

    /// Has the job of this thread, if there is one, look whether it was moved.
    pub(crate) fn recall(&self, thread: ThreadId) {
        if let Some(flight) = self.lock().get(&thread) {
            flight.rung.notify_one();
        }
    }

    /// Has the job look whether another was faster; it stops if so. Says whether it is under way: it may have ended meanwhile.
    ///
    /// ## Why it is not aborted
    ///
    /// A lease is also lost when Redis forgets everything, and then nobody else is at it: what is under way may as well
    /// be finished. If another worker did take the thread over, the log's fence lets one of them win.
    pub(crate) fn doubt(&self, job: &Job) -> bool {
        let flights = self.lock();
        let Some(flight) = flights.get(&job.thread).filter(|it| it.job.token == job.token) else {
            return false;
        };
        warn!(thread = %job.thread, "the lease is lost; looking whether another worker is ahead");
        flight.rung.notify_one();
        true
    }
}
