//! The loop: takes jobs while there are free slots, keeps their leases, sweeps, and drains when told to stop.

use std::{
    pin::pin,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::join_all, poll};
use store::{Job, Log, Notice, Room, Slot, Store, WORKERS, When, queue::HeldBy};
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{Instrument, field::Empty, info, info_span, warn};

use crate::{
    desk::Desk,
    flights::{Begun, Flights},
    job::{Done, Hands},
    strange::Strange,
    sweep::Sweep,
    warm::Warm,
};

/// How often a slot comes free, about, while all are taken: a job goes on to its next node so long for each other slot, and
/// with one slot not at all. So whoever waits gets a slot at once, and quick nodes do not go through the queue one by one.
const FREED: Duration = Duration::from_millis(1);

/// How long a job goes on at most while all slots are taken: many may have begun at the same time.
const GOES_ON: Duration = Duration::from_millis(250);

/// How long a worker waits before it asks a queue or a store again that did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// How much a worker takes on, and how long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How many jobs at once.
    pub slots: usize,
    /// How many nodes of a thread one job lets happen, one after the other, while nobody waits for long for its slot; at
    /// least 1. More than one spares the way through the queue.
    pub nodes: usize,
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
pub struct Worker<L = Store> {
    desk: Arc<Desk<L>>,
    limits: Limits,
}

impl<L: Log> Worker<L> {
    /// A worker that has not begun.
    pub fn new(hands: Hands<L>, limits: Limits) -> Self {
        let others = u32::try_from(limits.slots.saturating_sub(1)).unwrap_or(u32::MAX);
        let desk = Desk {
            hands,
            nodes: limits.nodes,
            crowded: FREED.saturating_mul(others).min(GOES_ON),
            warm: Warm::new(),
            strange: Strange::new(),
            slots: Room::from(limits.slots),
            flights: Flights::default(),
            jobs: TaskTracker::new(),
            paused: Notify::new(),
            is_refused: AtomicBool::new(false),
        };
        Self { desk: Arc::new(desk), limits }
    }

    /// Works until it is told to stop.
    pub async fn run(self, stop: Stop) {
        let Desk { hands, .. } = &*self.desk;
        info!(worker = %hands.name, slots = self.limits.slots, "working");
        // Before anything is begun: it may be paused.
        hands.bounds.pauses.refresh(&hands.parts).await;
        let sweep = tokio::spawn(Sweep::new(hands.parts.clone(), self.limits.sweep, self.limits.lease).run());
        let pauses = tokio::spawn(keep_pauses(self.desk.clone(), self.limits.sweep));
        let leases = tokio::spawn(keep_leases(self.desk.clone(), self.limits.lease));
        let recalls = tokio::spawn(hear_news(self.desk.clone()));
        // Who is told to stop is handed nothing more, whatever comes free.
        let closes = stop.told().map(|()| self.desk.slots.close());
        tokio::join!(self.take_jobs(&stop), closes);
        sweep.abort();
        self.drain(&stop).await;
        pauses.abort();
        leases.abort();
        recalls.abort();
        info!(worker = %hands.name, "stopped");
    }

    async fn take_jobs(&self, stop: &Stop) {
        let Desk { hands, slots, .. } = &*self.desk;
        while !stop.is_told() {
            // It comes back within a second by itself; what it hands to someone who no longer listens waits for its lease.
            let taken = hands.parts.queue.take(slots.clone()).await;
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
                    self.desk.finish(&job, Some(When::Now), stop).await;
                } else {
                    self.start(job, slots.fill().await, stop);
                }
            }
        }
    }

    fn start(&self, mut job: Job, slot: Slot, stop: &Stop) {
        let (desk, stop) = (self.desk.clone(), stop.clone());
        let rung = match self.desk.flights.begin(&job) {
            Begun::Anew(rung) => rung,
            // The job under way will look once more; this ring has done its work. Whoever was taken with it does not wait.
            Begun::Rung => {
                self.desk.jobs.spawn(async move {
                    desk.finish(&job, None, &stop).await;
                    drop(slot);
                });
                return;
            }
            // Its lease ran out and it came back to us; whoever is at it still holds it.
            Begun::Same => return,
        };
        let thread = job.thread;
        let span = info_span!("job", thread = %job.thread, turn = Empty, node = Empty, seq = Empty);
        let task = self.desk.jobs.spawn(
            async move {
                let (done, head) = desk.attempt(&job, rung, &stop).await;
                let rung_again = desk.flights.end(&job);
                // Whoever rang may have appended something.
                let now = head.filter(|_| !rung_again).map_or(When::Now, When::NowAt);
                if let Done::Next(priority) = done {
                    job.lane.priority = priority;
                }
                let next = match done {
                    Done::Moved | Done::Next(_) => Some(now),
                    Done::Rested | Done::Faltered { .. } | Done::Held { .. } if rung_again => Some(now),
                    Done::Faltered { after, why } => {
                        Some(When::Held { after, why: HeldBy::Retry.because(why) })
                    }
                    Done::Held { after, why } => Some(When::Held { after, why }),
                    Done::Rested => None,
                };
                let mut finish = pin!(desk.finish(&job, next, &stop));
                let finished = poll!(&mut finish);
                // Whoever takes the slot comes to the queue after the token and its successor, so that tenants have
                // their turns; but with them, and not after they are acknowledged.
                drop(slot);
                if finished.is_pending() {
                    finish.await;
                }
            }
            .instrument(span)
            // A task is copied as a whole when it begins, and twice when it ends.
            .boxed(),
        );
        self.desk.flights.hold(thread, task.abort_handle());
    }

    /// Lets jobs finish, for as long as they may; then gives them back.
    async fn drain(&self, stop: &Stop) {
        let under_way = self.desk.flights.len();
        if under_way > 0 {
            info!(under_way, limit = ?self.limits.drain, "draining; a second signal gives the jobs back at once");
        }
        self.desk.jobs.close();
        tokio::select! {
            () = self.desk.jobs.wait() => return,
            () = stop.halted.cancelled() => (),
            () = tokio::time::sleep(self.limits.drain) => (),
        }
        // At once, and not one after the other: a queue that is gone keeps each waiting.
        join_all(self.desk.flights.break_off().iter().map(async |job| {
            self.desk.finish(job, Some(When::Now), stop).await;
            info!(thread = %job.thread, "given back");
        }))
        .await;
    }
}

/// Renews the lease of every job under way, from outside of the jobs' own tasks; a job whose lease is lost looks whether
/// it was overtaken.
async fn keep_leases<L: Log>(desk: Arc<Desk<L>>, lease: Duration) {
    let Desk { hands, flights, .. } = &*desk;
    let mut ticks = tokio::time::interval(lease / 3);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let jobs = flights.jobs();
        if jobs.is_empty() {
            continue;
        }
        match hands.parts.queue.renew(&jobs).await {
            Ok(lost) => {
                for job in &lost {
                    desk.goes_on_without_token(job).await;
                }
            }
            Err(err) => warn!(error = %err, "cannot renew leases; trying again"),
        }
    }
}

/// Reads what is paused when that has changed, and with every sweep: news of it may be missed.
async fn keep_pauses<L: Log>(desk: Arc<Desk<L>>, period: Duration) {
    loop {
        tokio::select! {
            () = desk.paused.notified() => (),
            () = tokio::time::sleep(period) => (),
        }
        desk.hands.bounds.pauses.refresh(&desk.hands.parts).await;
    }
}

/// Has jobs under way look at their thread when others have moved it, and passes on that something was paused. A recall
/// that is missed costs nothing but what is asked in vain: the log refuses what comes of it.
async fn hear_news<L: Log>(desk: Arc<Desk<L>>) {
    loop {
        match desk.hands.parts.news.subscribe(WORKERS).await {
            Ok(mut notices) => {
                while let Some(notice) = notices.next().await {
                    match notice {
                        Notice::Recalled { thread } => desk.flights.recall(thread),
                        Notice::Paused => desk.paused.notify_one(),
                        Notice::Appended { .. } | Notice::Delta { .. } => (),
                    }
                }
            }
            Err(err) => warn!(error = %err, "cannot hear of cancellations and pauses; trying again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
