//! One job, from its token to its end: the nodes of a thread, one after the other, and what becomes of the token.

use std::{
    any::Any,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt as _;
use shared::Standing;
use store::{
    Job, Log, PauseKind, QueueError, Room, Store, ThreadLog, When, limits::LONGEST_PAUSE, queue::HeldBy,
};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::task::TaskTracker;
use tracing::{error, warn};

use crate::{
    flights::Flights,
    job::{Done, Hands},
    strange::{self, Strange},
    warm::Warm,
    worker::Stop,
};

/// How long a job is put off that could not be done.
const PAUSE: Duration = Duration::from_secs(1);

/// How often a token is given back to a queue that is away: for about as long as a server takes to start.
const TRIES: usize = 10;

/// How many nodes are decided before they are stored, at most: a batch has a size, and a cancellation is heard.
const TOGETHER: usize = 64;

/// What the jobs of a worker share.
pub(crate) struct Desk<L = Store> {
    pub(crate) hands: Hands<L>,
    /// How many nodes one job lets happen at most.
    pub(crate) nodes: usize,
    /// How long a job goes on while all slots are taken.
    pub(crate) crowded: Duration,
    pub(crate) warm: Warm,
    pub(crate) strange: Strange,
    /// A job holds one of them until its token is on its way back.
    pub(crate) slots: Room,
    pub(crate) flights: Flights,
    /// Jobs until they are acknowledged.
    pub(crate) jobs: TaskTracker,
    /// Told when something was paused or resumed.
    pub(crate) paused: Notify,
    /// Whether the store refused a job last: then nothing more is asked of the world, and paid, before it takes a write. Its
    /// disk may be full, or it may be a standby, and answer all the same whatever is read.
    pub(crate) is_refused: AtomicBool,
}

impl<L: Log> Desk<L> {
    /// Does a job, and says where its log ends then; a panic is a bug in one strategy and must not take the worker down
    /// or ring for ever.
    pub(crate) async fn attempt(&self, job: &Job, rung: Arc<Notify>, stop: &Stop) -> (Done, Option<u64>) {
        let hands = &self.hands;
        let mut log = None;
        let done = match AssertUnwindSafe(self.nodes(job, &mut log, &rung, stop)).catch_unwind().await {
            Ok(Ok((done, head))) => return (done, head),
            Ok(Err(err @ store::Error::Stuck { .. })) => self.store_decided(log).await.and(Err(err)),
            // The turn that was to be heard may have been called off, and another may wait behind it.
            Ok(Err(store::Error::Stale { .. })) if log.as_ref().is_some_and(ThreadLog::begins_turn) => {
                return (Done::Moved, None);
            }
            Ok(Err(err)) => Err(err),
            Err(panic) => self.park(job, log, words(&*panic)).await,
        };
        let done = match done {
            Err(err) if err.is_of_another_version() => self.leave_to_others(job, err).await,
            done => done,
        };
        match hands.sorted(job.thread, done).await {
            Ok(done) => (done, None),
            Err(store::Error::UnknownThread(thread)) => {
                warn!(%thread, "rung for a thread that is not in the store");
                (Done::Rested, None)
            }
            Err(err) => {
                warn!(error = %err, "the job could not be done; it comes back");
                self.is_refused.store(true, Ordering::Relaxed);
                (Done::Faltered { after: PAUSE, why: err.to_string() }, None)
            }
        }
    }

    /// Lets nodes happen, one after the other, while nobody else needs the slot.
    ///
    /// The token is kept meanwhile: it is the lease of the thread.
    ///
    /// The log is left in `opened` if it could not go on, with what it was to store.
    async fn nodes(
        &self,
        job: &Job,
        opened: &mut Option<ThreadLog>,
        rung: &Notify,
        stop: &Stop,
    ) -> Result<(Done, Option<u64>), store::Error> {
        let began = Instant::now();
        if let Some(why) = self.hands.bounds.pauses.hold(job.thread, PauseKind::Tenant, &job.lane.tenant) {
            return Ok((Done::Held { after: LONGEST_PAUSE, why }, job.head));
        }
        let log = opened.insert(self.warm.open(&self.hands, job).await?);
        if let Some(done) = self.hands.leaves_alone(log, job).await? {
            // Not kept: what others wrote last is looked at anew.
            return Ok((done, None));
        }
        // Whatever else is done with a thread begins with a write.
        if self.is_refused.load(Ordering::Relaxed) && log.thread().standing() == Standing::Busy {
            log.rewrite(&self.hands.parts).await?;
            self.is_refused.store(false, Ordering::Relaxed);
        }
        let mut nodes = 0;
        loop {
            let done = self.hands.step(log, rung).await?;
            nodes += 1;
            // While a slot is free, nobody waits for this one.
            let others_turn = self.slots.free() == 0 && began.elapsed() > self.crowded;
            let goes_on = match done {
                Done::Moved => true,
                // A turn that is less urgent waits as such.
                Done::Next(priority) => priority == job.lane.priority,
                Done::Rested | Done::Faltered { .. } | Done::Held { .. } => false,
            };
            if !goes_on || nodes >= self.nodes || stop.is_told() || others_turn {
                log.flush(&self.hands.parts).await?;
                let head = log.head().seq;
                if let Some(log) = opened.take() {
                    self.warm.keep(log);
                }
                return Ok((done, Some(head)));
            }
            // Somebody rang, or the lease was lost: others may have moved the thread.
            if rung.notified().now_or_never().is_some() {
                log.flush(&self.hands.parts).await?;
                let head = log.head().seq;
                log.refresh(&self.hands.parts).await?;
                // Whoever did may be at it still: that is looked at by whoever comes next.
                if log.head().seq != head && log.thread().standing() == Standing::Busy {
                    return Ok((Done::Moved, None));
                }
            }
            if nodes % TOGETHER == 0 {
                log.flush(&self.hands.parts).await?;
            }
        }
    }

    /// Has a thread that only another version of turnfold can go on with wait for a worker of that, or fails with the same error.
    async fn leave_to_others(&self, job: &Job, err: store::Error) -> Result<Done, store::Error> {
        let seq = self.hands.parts.store.head(job.thread).await?.seq;
        if !self.strange.waits(job.thread, seq) {
            return Err(err);
        }
        warn!(error = %err, "the job is left to a worker of another version");
        Ok(Done::Held { after: strange::PAUSE, why: HeldBy::Worker.because(err.to_string()) })
    }

    /// Fails the turn of a thread whose strategy has a bug, and takes the thread out of the way if it is in the middle of it.
    async fn park(&self, job: &Job, log: Option<ThreadLog>, panic: &str) -> Result<Done, store::Error> {
        let node = log.as_ref().and_then(|it| it.thread().node()).unwrap_or_default();
        error!(node, panic, "a bug in the strategy; its turn fails");
        let reason = format!("a bug in the strategy, at node {node:?}: {panic}");
        self.store_decided(log).await?;
        store::park(&self.hands.parts, job.thread, &reason).await.map(|()| Done::Rested)
    }

    /// Stores what was answered and decided before the node that cannot go on. A turn of which nothing is stored yet has
    /// asked nothing of the world either: it is as if it had not been heard, and the thread can hear another.
    ///
    /// # Errors
    ///
    /// [`store::Error::Stale`] and [`store::Error::Unavailable`]: then it is not this worker's to say that it cannot go on.
    async fn store_decided(&self, log: Option<ThreadLog>) -> Result<(), store::Error> {
        let Some(mut log) = log.filter(|it| !it.begins_turn()) else { return Ok(()) };
        match log.flush(&self.hands.parts).await {
            Err(err @ (store::Error::Stale { .. } | store::Error::Unavailable(_))) => Err(err),
            Err(err) => {
                warn!(thread = %log.id(), error = %err, "cannot store what was decided before");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Gives the token back, and rings again when that is to be. A queue that is away is told when it is back, unless the
    /// worker stops meanwhile: nobody renews this token any more, and its lease is long.
    pub(crate) async fn finish(&self, job: &Job, next: Option<When>, stop: &Stop) {
        let mut tries_left = TRIES;
        while let Err(err) = self.give_back(job, next.clone()).await {
            tries_left -= 1;
            if tries_left == 0 || stop.is_told() || !matches!(err, QueueError::Unavailable { .. }) {
                warn!(thread = %job.thread, error = %err, "cannot acknowledge; the job comes back when its lease ends");
                return;
            }
            sleep(PAUSE).await;
        }
    }

    async fn give_back(&self, job: &Job, next: Option<When>) -> Result<(), QueueError> {
        let queue = &self.hands.parts.queue;
        match (queue.finish(job, next.clone()).await, next) {
            // The queue has forgotten the token, and who is at the thread knows that it goes on. Or the answer was lost that
            // told of its successor: then this one is no other, and looks who is at the thread.
            (Ok(false), Some(when)) => queue.ring(job.thread, &job.lane, when.without_head()).await,
            (Ok(_), _) => Ok(()),
            (Err(err), _) => Err(err),
        }
    }

    /// A job goes on whose token the queue has lost: it looks whether it was overtaken. If Redis came back empty nobody is at
    /// the thread but we, and a ring that is delayed keeps the sweeps from bringing others to it: each time anew, so that it
    /// comes when we are gone.
    pub(crate) async fn goes_on_without_token(&self, job: &Job) {
        if !self.flights.doubt(job) {
            return;
        }
        let why = HeldBy::Worker.because("a worker is at it whose token was lost");
        let held = When::Held { after: LONGEST_PAUSE, why };
        if let Err(err) = self.hands.parts.queue.ring(job.thread, &job.lane, held).await {
            warn!(thread = %job.thread, error = %err, "cannot ring; a sweep will");
        }
    }
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("it panicked without a word")
}
