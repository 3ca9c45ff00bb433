//! The doorbell of one process: the same promises, and gone with it. On start, a sweep rings for every thread.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use uuid::Uuid;

use super::{
    Depth, HeldBy, Job, LIST_MAX, LONGEST_WAIT, Lane, Listed, Place, Queue, QueueError, Room, Rung, Weights,
    When, Why, lanes::Lanes, rung::Threads,
};

/// How many tokens and delayed rings it may hold: some 100 MB of them.
pub const MOST_TOKENS: usize = 1 << 20;

/// One consumer of a doorbell in process. A clone is the same consumer; [`Self::consumer`] makes another.
#[derive(Clone, Debug)]
pub struct MemoryQueue {
    bell: Arc<Bell>,
    consumer: Arc<str>,
}

/// What its consumers share.
#[derive(Debug)]
struct Bell {
    lease: Duration,
    tokens: Mutex<Tokens>,
    rung: Notify,
}

/// Where every token is.
#[derive(Debug)]
struct Tokens {
    last: u64,
    waiting: Lanes<(u64, Ring)>,
    held: BTreeMap<u64, Held>,
    /// The same leases by their end.
    ends: BTreeSet<(Instant, u64)>,
    later: BTreeMap<Uuid, Delayed>,
    /// The same delays by their end.
    dues: BTreeSet<(Instant, Uuid)>,
}

/// What a token says.
#[derive(Clone, Copy, Debug)]
struct Ring {
    thread: Uuid,
    head: Option<u64>,
}

/// A token under its lease.
#[derive(Debug)]
struct Held {
    ring: Ring,
    lane: Lane,
    consumer: Arc<str>,
    renewed: Instant,
    until: Instant,
}

/// A ring that is not due yet.
#[derive(Debug)]
struct Delayed {
    due: Instant,
    lane: Lane,
    why: Option<Why>,
}

impl Delayed {
    /// Whether who is at the thread says the same again.
    fn puts_off(&self, earlier: &Self) -> bool {
        let is_at_it = self.why.as_ref().is_some_and(|it| it.held == HeldBy::Worker);
        is_at_it && self.why == earlier.why && self.lane == earlier.lane
    }
}

impl MemoryQueue {
    /// An empty doorbell where all tenants weigh the same, and the consumer `local` of it.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        Self::weighing(lease, Weights::default())
    }

    /// An empty doorbell where tenants weigh so, and the consumer `local` of it.
    #[must_use]
    pub fn weighing(lease: Duration, weights: Weights) -> Self {
        let bell = Bell { lease, tokens: Mutex::new(Tokens::new(weights)), rung: Notify::new() };
        Self { bell: Arc::new(bell), consumer: "local".into() }
    }

    /// Another consumer of the same doorbell.
    #[must_use]
    pub fn consumer(&self, name: &str) -> Self {
        Self { bell: Arc::clone(&self.bell), consumer: name.into() }
    }

    fn tokens(&self) -> MutexGuard<'_, Tokens> {
        // Nothing below panics half way through a change.
        self.bell.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Queue for MemoryQueue {
    async fn ring(&self, thread: Uuid, lane: &Lane, when: When) -> Result<(), QueueError> {
        let mut tokens = self.tokens();
        if tokens.count() >= MOST_TOKENS {
            return Err(QueueError::Full { limit: MOST_TOKENS });
        }
        tokens.ring(thread, lane, &when);
        self.bell.rung.notify_waiters();
        Ok(())
    }

    async fn take(&self, room: Room) -> Result<Vec<Job>, QueueError> {
        let deadline = Instant::now() + LONGEST_WAIT;
        if !room.any_until(deadline).await {
            return Ok(Vec::new());
        }
        loop {
            // Listening before looking, so that a ring in between is heard.
            let rung = self.bell.rung.notified();
            let (jobs, next) = {
                let mut tokens = self.tokens();
                (tokens.take(&self.consumer, self.bell.lease, room.free()), tokens.next())
            };
            if !jobs.is_empty() || Instant::now() >= deadline {
                return Ok(jobs);
            }
            tokio::select! {
                biased;
                () = rung => {}
                () = sleep_until(next.map_or(deadline, |next| next.min(deadline))) => {}
            }
        }
    }

    async fn renew(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        let mut tokens = self.tokens();
        let lost = jobs.iter().filter(|job| !tokens.renew(&self.consumer, self.bell.lease, job));
        Ok(lost.cloned().collect())
    }

    async fn finish(&self, job: &Job, next: Option<When>) -> Result<bool, QueueError> {
        let mut tokens = self.tokens();
        let held = tokens.release(&self.consumer, job);
        if held && let Some(when) = next {
            tokens.ring(job.thread, &job.lane, &when);
            self.bell.rung.notify_waiters();
        }
        Ok(held)
    }

    async fn is_held_besides(&self, job: &Job) -> Result<bool, QueueError> {
        let tokens = self.tokens();
        let mut held = tokens.held.iter();
        Ok(held.any(|(token, it)| it.ring.thread == job.thread && token.to_string() != job.token))
    }

    async fn rung(&self) -> Result<Rung, QueueError> {
        let tokens = self.tokens();
        let waiting = tokens.waiting.iter().map(|(_, _, (_, ring))| ring.thread);
        let held = tokens.held.values().map(|held| held.ring.thread);
        let many = tokens.waiting.len() + tokens.held.len() + tokens.later.len();
        let mut all = Threads::about(many as u64);
        all.extend(waiting.chain(held).chain(tokens.later.keys().copied()));
        Ok(Rung::of(vec![Some(all)]))
    }

    fn outlives_process(&self) -> bool {
        false
    }

    async fn len(&self) -> Result<Depth, QueueError> {
        let tokens = self.tokens();
        Ok(Depth {
            waiting: tokens.waiting.len() as u64,
            in_flight: tokens.held.len() as u64,
            delayed: tokens.later.len() as u64,
        })
    }

    async fn list(&self, limit: usize) -> Result<Vec<Listed>, QueueError> {
        Ok(self.tokens().list(limit.min(LIST_MAX)))
    }
}

impl Tokens {
    fn new(weights: Weights) -> Self {
        let (held, later) = (BTreeMap::new(), BTreeMap::new());
        let (ends, dues) = (BTreeSet::new(), BTreeSet::new());
        Self { last: 0, waiting: Lanes::new(weights), held, ends, later, dues }
    }

    fn count(&self) -> usize {
        self.waiting.len() + self.held.len() + self.later.len()
    }

    fn ring(&mut self, thread: Uuid, lane: &Lane, when: &When) {
        let Some(delay) = when.delay_ms() else { return self.add(lane, Ring { thread, head: when.head() }) };
        let due = Instant::now() + Duration::from_millis(delay);
        let delayed = Delayed { due, lane: lane.clone(), why: when.why() };
        if self.later.get(&thread).is_some_and(|earlier| earlier.due <= due && !delayed.puts_off(earlier)) {
            return;
        }
        if let Some(before) = self.later.insert(thread, delayed) {
            self.dues.remove(&(before.due, thread));
        }
        self.dues.insert((due, thread));
    }

    fn add(&mut self, lane: &Lane, ring: Ring) {
        self.last += 1;
        self.waiting.push(lane, (self.last, ring));
    }

    /// What ran out first, so that a stalled thread waits no longer than it must.
    fn take(&mut self, consumer: &Arc<str>, lease: Duration, max: usize) -> Vec<Job> {
        let now = Instant::now();
        while let Some((due, thread)) = self.dues.first().copied().filter(|(due, _)| *due <= now) {
            self.dues.remove(&(due, thread));
            if let Some(delayed) = self.later.remove(&thread) {
                self.add(&delayed.lane, Ring { thread, head: None });
            }
        }
        let mut jobs = Vec::new();
        while jobs.len() < max {
            let expired = self.expired(now);
            let Some((lane, (token, ring))) = expired.or_else(|| self.waiting.pop()) else { break };
            let until = now + lease;
            let job = Job { thread: ring.thread, token: token.to_string(), head: ring.head, lane };
            let (lane, consumer) = (job.lane.clone(), Arc::clone(consumer));
            self.held.insert(token, Held { ring, lane, consumer, renewed: now, until });
            self.ends.insert((until, token));
            jobs.push(job);
        }
        jobs
    }

    fn expired(&mut self, now: Instant) -> Option<(Lane, (u64, Ring))> {
        let (until, token) = self.ends.first().copied().filter(|(until, _)| *until <= now)?;
        self.ends.remove(&(until, token));
        self.held.remove(&token).map(|held| (held.lane, (token, held.ring)))
    }

    fn renew(&mut self, consumer: &str, lease: Duration, job: &Job) -> bool {
        let Ok(token) = job.token.parse::<u64>() else { return false };
        let Some(held) = self.held.get_mut(&token).filter(|held| *held.consumer == *consumer) else {
            return false;
        };
        self.ends.remove(&(held.until, token));
        held.renewed = Instant::now();
        held.until = held.renewed + lease;
        self.ends.insert((held.until, token));
        true
    }

    fn release(&mut self, consumer: &str, job: &Job) -> bool {
        let Ok(token) = job.token.parse::<u64>() else { return false };
        if self.held.get(&token).is_none_or(|held| *held.consumer != *consumer) {
            return false;
        }
        if let Some(held) = self.held.remove(&token) {
            self.ends.remove(&(held.until, token));
        }
        true
    }

    fn list(&self, limit: usize) -> Vec<Listed> {
        let now = Instant::now();
        let held = self.held.values().map(|it| {
            let unrenewed = now.duration_since(it.renewed);
            let place = Place::InFlight { consumer: it.consumer.to_string(), unrenewed };
            Listed { thread: it.ring.thread, lane: it.lane.clone(), place }
        });
        let waiting = self.waiting.iter().map(|(lane, nth, (_, ring))| Listed {
            thread: ring.thread,
            lane,
            place: Place::Waiting { position: nth as u64 },
        });
        let later = self.dues.iter().filter_map(|(_, thread)| Some((*thread, self.later.get(thread)?)));
        let later = later.map(|(thread, it)| {
            let due_in = it.due.saturating_duration_since(now);
            let place = Place::Delayed { due_in, why: it.why.clone() };
            Listed { thread, lane: it.lane.clone(), place }
        });
        held.chain(waiting).chain(later).take(limit).collect()
    }

    /// When something happens by itself.
    fn next(&self) -> Option<Instant> {
        let end = self.ends.first().map(|(end, _)| *end);
        let due = self.dues.first().map(|(due, _)| *due);
        end.into_iter().chain(due).min()
    }
}
