//! The loop: takes jobs while there are free slots, keeps their leases, sweeps, and drains when told to stop.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use store::{Job, ThreadId, When};
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, field::Empty, info, info_span, warn};

use crate::{
    job::{Done, Hands},
    sweep::Sweep,
};

/// How long a worker waits before it asks a queue or a store again that did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// How much a worker takes on, and how long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many jobs at once.
    pub slots: usize,
    /// How long a job is held without a sign of life; the queue's own lease.
    pub lease: Duration,
    /// How often threads are looked for that nobody rang for.
    pub sweep: Duration,
    /// How long jobs may finish once the worker is told to stop.
    pub drain: Duration,
}

/// How a worker is told to stop: [`Stop::drain`] lets jobs finish, [`Stop::halt`] gives them back at once.
#[derive(Clone, Default)]
pub struct Stop {
    draining: CancellationToken,
    halted: CancellationToken,
}

impl Stop {
    /// Take nothing new, finish what is under way.
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Give back what is under way.
    pub fn halt(&self) {
        self.draining.cancel();
        self.halted.cancel();
    }

    /// Until it is told to stop.
    pub async fn told(&self) {
        self.draining.cancelled().await;
    }

    /// Whether it was told to stop.
    pub fn is_told(&self) -> bool {
        self.draining.is_cancelled()
    }
}

/// Takes jobs and does them.
pub struct Worker {
    hands: Arc<Hands>,
    limits: Limits,
    /// A job holds one of them until it is acknowledged.
    slots: Arc<Semaphore>,
    flights: Arc<Flights>,
}

/// The jobs under way.
#[derive(Default)]
struct Flights(Mutex<HashMap<ThreadId, Flight>>);

struct Flight {
    job: Job,
    /// Somebody rang while the job was under way: look once more.
    rung_again: bool,
    /// Tells the job so.
    rung: Arc<Notify>,
    task: Option<AbortHandle>,
}

/// What became of the wish to begin a job.
enum Begun {
    /// It begins, and is told by this that somebody rang.
    Anew(Arc<Notify>),
    /// Another for its thread is under way, and was told.
    Rung,
    /// It is under way already.
    Same,
}

impl Worker {
    /// A worker that has not begun.
    pub fn new(hands: Hands, limits: Limits) -> Self {
        let slots = Arc::new(Semaphore::new(limits.slots));
        Self { hands: Arc::new(hands), limits, slots, flights: Arc::default() }
    }

    /// Works until it is told to stop.
    pub async fn run(self, stop: Stop) {
        info!(worker = %self.hands.name, slots = self.limits.slots, "working");
        let sweep = tokio::spawn(Sweep::new(self.hands.parts.clone(), self.limits.sweep).run());
        let leases = tokio::spawn(keep_leases(self.hands.clone(), self.flights.clone(), self.limits.lease));
        self.take_jobs(&stop).await;
        sweep.abort();
        self.drain(&stop).await;
        leases.abort();
        info!(worker = %self.hands.name, "stopped");
    }

    async fn take_jobs(&self, stop: &Stop) {
        loop {
            let free = tokio::select! {
                () = stop.told() => return,
                free = self.slots.acquire() => free.map(|_| self.slots.available_permits()),
            };
            // Whatever is free stays free, as only this loop takes slots: the one just held, at least. The queue comes
            // back within a second by itself; what it hands to someone who no longer listens waits for its lease.
            let taken = self.hands.parts.queue.take(free.map_or(1, |it| it + 1)).await;
            let jobs = match taken {
                Ok(jobs) => jobs,
                Err(err) => {
                    warn!(error = %err, "cannot take jobs; trying again");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
            };
            for job in jobs {
                if stop.is_told() {
                    finish(&self.hands, &job, Some(When::Now)).await;
                } else if let Ok(slot) = self.slots.clone().acquire_owned().await {
                    self.start(job, slot).await;
                }
            }
        }
    }

    async fn start(&self, job: Job, slot: OwnedSemaphorePermit) {
        let rung = match self.flights.begin(&job) {
            Begun::Anew(rung) => rung,
            // The job under way will look once more; this ring has done its work.
            Begun::Rung => return finish(&self.hands, &job, None).await,
            // Its lease ran out and it came back to us; whoever is at it still holds it.
            Begun::Same => return,
        };
        let (hands, flights) = (self.hands.clone(), self.flights.clone());
        let thread = job.thread;
        let span = info_span!("job", thread = %job.thread, turn = Empty, node = Empty, seq = Empty);
        let task = tokio::spawn(
            async move {
                let done = attempt(&hands, &job, rung).await;
                let rung_again = flights.end(&job);
                let next = match done {
                    Done::Moved => Some(When::Now),
                    Done::Rested if rung_again => Some(When::Now),
                    Done::Faltered(_) if rung_again => Some(When::Now),
                    Done::Faltered(pause) => Some(When::After(pause)),
                    Done::Rested => None,
                };
                finish(&hands, &job, next).await;
                drop(slot);
            }
            .instrument(span),
        );
        if let Some(flight) = self.flights.lock().get_mut(&thread) {
            flight.task = Some(task.abort_handle());
        }
    }

    /// Lets jobs finish, for as long as they may; then gives them back.
    async fn drain(&self, stop: &Stop) {
        let under_way = self.flights.lock().len();
        if under_way > 0 {
            info!(under_way, limit = ?self.limits.drain, "draining; a second signal gives the jobs back at once");
        }
        let all = u32::try_from(self.limits.slots).unwrap_or(u32::MAX);
        tokio::select! {
            _ = self.slots.acquire_many(all) => return,
            () = stop.halted.cancelled() => (),
            () = tokio::time::sleep(self.limits.drain) => (),
        }
        let flights: Vec<Flight> = self.flights.lock().drain().map(|(_, it)| it).collect();
        for flight in flights {
            if let Some(task) = &flight.task {
                task.abort();
            }
            finish(&self.hands, &flight.job, Some(When::Now)).await;
            info!(thread = %flight.job.thread, "given back");
        }
    }
}

/// Does a job; a panic is a bug in one strategy and must not take the worker down or ring for ever.
async fn attempt(hands: &Arc<Hands>, job: &Job, rung: Arc<Notify>) -> Done {
    let work = {
        let (hands, thread) = (hands.clone(), job.thread);
        AbortOnDrop(tokio::spawn(async move { hands.work(thread, &rung).await }.in_current_span()))
    };
    match work.join().await {
        Ok(Ok(done)) => done,
        Ok(Err(store::Error::UnknownThread(thread))) => {
            warn!(%thread, "rung for a thread that is not in the store");
            Done::Rested
        }
        Ok(Err(err)) => {
            warn!(error = %err, "the job could not be done; it comes back");
            Done::Faltered(PAUSE)
        }
        Err(panic) => {
            error!(%panic, "a bug in the strategy; the thread is parked");
            let parked =
                store::park(&hands.parts, job.thread, &format!("a bug in the strategy: {panic}")).await;
            parked.map_or(Done::Faltered(PAUSE), |()| Done::Rested)
        }
    }
}

/// A task that ends with whoever waits for it.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> AbortOnDrop<T> {
    async fn join(mut self) -> Result<T, tokio::task::JoinError> {
        (&mut self.0).await
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn finish(hands: &Hands, job: &Job, next: Option<When>) {
    if let Err(err) = hands.parts.queue.finish(job, next).await {
        warn!(thread = %job.thread, error = %err, "cannot acknowledge; the job comes back when its lease ends");
    }
}

/// Renews the lease of every job under way, from outside of the jobs' own tasks; a job whose lease is lost looks whether
/// it was overtaken.
async fn keep_leases(hands: Arc<Hands>, flights: Arc<Flights>, lease: Duration) {
    let mut ticks = tokio::time::interval(lease / 3);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let jobs: Vec<Job> = flights.lock().values().map(|it| it.job.clone()).collect();
        if jobs.is_empty() {
            continue;
        }
        match hands.parts.queue.renew(&jobs).await {
            Ok(lost) => lost.iter().for_each(|job| flights.doubt(job)),
            Err(err) => warn!(error = %err, "cannot renew leases; trying again"),
        }
    }
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, HashMap<ThreadId, Flight>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the job, unless one for its thread is under way here: that is told instead.
    fn begin(&self, job: &Job) -> Begun {
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

    /// Whether somebody rang while it was under way.
    fn end(&self, job: &Job) -> bool {
        self.lock().remove(&job.thread).is_some_and(|it| it.rung_again)
    }

    /// Has the job look whether another was faster; it stops if so.
    ///
    /// ## Why it is not aborted
    ///
    /// A lease is also lost when Redis forgets everything, and then nobody else is at it: what is under way may as well
    /// be finished. If another worker did take the thread over, the log's fence lets one of them win.
    fn doubt(&self, job: &Job) {
        let flights = self.lock();
        if let Some(flight) = flights.get(&job.thread).filter(|it| it.job.token == job.token) {
            warn!(thread = %job.thread, "the lease is lost; looking whether another worker is ahead");
            flight.rung.notify_one();
        }
    }
}
