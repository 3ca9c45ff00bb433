//! All jobs of an in-process queue, by state.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use shared::{BlockReason, BlockedBy};
use tokio::time::Instant;
use uuid::Uuid;

use super::round_robin::RoundRobin;
use crate::{
    enqueued::BloomFilter,
    job::{Deaths, Depth, EntryState, Job, QUARANTINE_DEATHS, QueueEntry, Schedule},
    lane::{Lane, Weights},
};

/// All jobs of a queue, by state. A job's token is its number.
#[derive(Debug)]
pub(super) struct Jobs {
    last_token: u64,
    waiting: RoundRobin<(u64, Target)>,
    leased: BTreeMap<u64, Leased>,
    /// The leased jobs by the end of their lease.
    lease_ends: BTreeSet<(Instant, u64)>,
    delayed: BTreeMap<Uuid, Delayed>,
    /// The delayed jobs by due time.
    due_times: BTreeSet<(Instant, Uuid)>,
}

/// The thread of a job, and what is known of its log.
#[derive(Clone, Debug)]
struct Target {
    thread: Uuid,
    head: Option<u64>,
    note: Option<String>,
}

/// A job under a lease.
#[derive(Debug)]
struct Leased {
    target: Target,
    lane: Lane,
    consumer: Arc<str>,
    renewed_at: Instant,
    expires_at: Instant,
    deaths: Option<Deaths>,
}

impl Leased {
    /// Number of consumers that have lost the job once its lease has expired.
    fn deaths_with_this(&self) -> u64 {
        1 + self.deaths.as_ref().map_or(0, |deaths| deaths.count)
    }
}

/// A job that is not due yet.
#[derive(Debug)]
struct Delayed {
    due: Instant,
    lane: Lane,
    reason: Option<BlockReason>,
}

impl Delayed {
    /// Returns true if the worker that is busy with the thread repeats its own job, which postpones it.
    fn postpones(&self, earlier: &Self) -> bool {
        let is_by_worker = self.reason.as_ref().is_some_and(|reason| reason.by == BlockedBy::Worker);
        is_by_worker && self.reason == earlier.reason && self.lane == earlier.lane
    }
}

impl Jobs {
    pub(super) fn new(weights: Weights) -> Self {
        let (leased, delayed) = (BTreeMap::new(), BTreeMap::new());
        let (lease_ends, due_times) = (BTreeSet::new(), BTreeSet::new());
        Self { last_token: 0, waiting: RoundRobin::new(weights), leased, lease_ends, delayed, due_times }
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.leased.len() + self.delayed.len()
    }

    pub(super) fn enqueue(&mut self, thread: Uuid, lane: &Lane, schedule: &Schedule) {
        let Some(delay) = schedule.delay_ms() else {
            let note = schedule.note().map(str::to_owned);
            return self.add_waiting(lane, Target { thread, head: schedule.seq(), note });
        };
        let due = Instant::now() + Duration::from_millis(delay);
        let delayed = Delayed { due, lane: lane.clone(), reason: schedule.reason() };
        if self.delayed.get(&thread).is_some_and(|earlier| earlier.due <= due && !delayed.postpones(earlier))
        {
            return;
        }
        if let Some(replaced) = self.delayed.insert(thread, delayed) {
            self.due_times.remove(&(replaced.due, thread));
        }
        self.due_times.insert((due, thread));
    }

    fn add_waiting(&mut self, lane: &Lane, target: Target) {
        self.last_token += 1;
        self.waiting.push(lane, (self.last_token, target));
    }

    /// Claims up to `max` jobs, expired leases first, so that a stalled thread waits no longer than necessary.
    pub(super) fn claim(&mut self, consumer: &Arc<str>, lease: Duration, max: usize) -> Vec<Job> {
        let now = Instant::now();
        while let Some((due, thread)) = self.due_times.first().copied().filter(|(due, _)| *due <= now) {
            self.due_times.remove(&(due, thread));
            if let Some(delayed) = self.delayed.remove(&thread) {
                self.add_waiting(&delayed.lane, Target { thread, head: None, note: None });
            }
        }
        let mut jobs = Vec::new();
        while jobs.len() < max {
            let (lane, (token, target), deaths) = match self.take_expired(consumer, now) {
                Some(job) => job,
                None => match self.waiting.pop() {
                    Some((lane, job)) => (lane, job, None),
                    None => break,
                },
            };
            let expires_at = now + lease;
            let Target { thread, head, note } = target.clone();
            let job = Job { thread, token: token.to_string(), head, note, lane, deaths };
            let (lane, consumer, deaths) = (job.lane.clone(), Arc::clone(consumer), job.deaths.clone());
            self.leased.insert(token, Leased { target, lane, consumer, renewed_at: now, expires_at, deaths });
            self.lease_ends.insert((expires_at, token));
            jobs.push(job);
        }
        jobs
    }

    /// Removes the job whose lease expired first and that this consumer may hold.
    fn take_expired(
        &mut self,
        consumer: &str,
        now: Instant,
    ) -> Option<(Lane, (u64, Target), Option<Deaths>)> {
        let is_quarantined = |leased: &Leased| leased.deaths_with_this() >= QUARANTINE_DEATHS;
        let mut expired = self.lease_ends.iter().copied().take_while(|(end, _)| *end <= now);
        let (expires_at, token) = expired.find(|(_, token)| {
            self.leased.get(token).is_none_or(|it| !is_quarantined(it) || !self.quarantines(consumer, now))
        })?;
        self.lease_ends.remove(&(expires_at, token));
        let leased = self.leased.remove(&token)?;
        let deaths = Deaths { count: leased.deaths_with_this(), last: leased.consumer.to_string() };
        Some((leased.lane, (token, leased.target), Some(deaths)))
    }

    /// Returns whether the consumer holds a job that it must not hold together with another one of this kind.
    fn quarantines(&self, consumer: &str, now: Instant) -> bool {
        let is_quarantined =
            |leased: &Leased| leased.deaths.as_ref().is_some_and(|deaths| deaths.count >= QUARANTINE_DEATHS);
        let mut held =
            self.leased.values().filter(|lease| *lease.consumer == *consumer && now < lease.expires_at);
        held.any(is_quarantined)
    }

    /// Renews a lease. Returns `false` if the consumer does not hold it.
    pub(super) fn renew_lease(&mut self, consumer: &str, lease: Duration, job: &Job) -> bool {
        let Ok(token) = job.token.parse::<u64>() else { return false };
        let Some(leased) = self.leased.get_mut(&token).filter(|leased| *leased.consumer == *consumer) else {
            return false;
        };
        self.lease_ends.remove(&(leased.expires_at, token));
        leased.renewed_at = Instant::now();
        leased.expires_at = leased.renewed_at + lease;
        self.lease_ends.insert((leased.expires_at, token));
        true
    }

    /// Removes a leased job. Returns `false` if the consumer does not hold it.
    pub(super) fn remove_leased(&mut self, consumer: &str, job: &Job) -> bool {
        let Ok(token) = job.token.parse::<u64>() else { return false };
        if self.leased.get(&token).is_none_or(|leased| *leased.consumer != *consumer) {
            return false;
        }
        if let Some(leased) = self.leased.remove(&token) {
            self.lease_ends.remove(&(leased.expires_at, token));
        }
        true
    }

    pub(super) fn has_other_holder(&self, job: &Job) -> bool {
        let mut leased = self.leased.iter();
        leased.any(|(token, lease)| lease.target.thread == job.thread && token.to_string() != job.token)
    }

    /// The threads of all jobs.
    pub(super) fn threads(&self) -> BloomFilter {
        let waiting = self.waiting.iter().map(|(_, _, (_, target))| target.thread);
        let leased = self.leased.values().map(|lease| lease.target.thread);
        let mut threads = BloomFilter::with_capacity(self.len() as u64);
        threads.extend(waiting.chain(leased).chain(self.delayed.keys().copied()));
        threads
    }

    pub(super) fn depth(&self) -> Depth {
        Depth {
            waiting: self.waiting.len() as u64,
            in_flight: self.leased.len() as u64,
            delayed: self.delayed.len() as u64,
        }
    }

    pub(super) fn list(&self, limit: usize) -> Vec<QueueEntry> {
        let now = Instant::now();
        let leased = self.leased.values().map(|lease| {
            let since_renewal = now.duration_since(lease.renewed_at);
            let expires_in = lease.expires_at.saturating_duration_since(now);
            let (consumer, deaths) =
                (lease.consumer.to_string(), lease.deaths.as_ref().map_or(0, |deaths| deaths.count));
            let state = EntryState::InFlight { consumer, since_renewal, expires_in, deaths };
            QueueEntry { thread: lease.target.thread, lane: lease.lane.clone(), state }
        });
        let waiting = self.waiting.iter().map(|(lane, position, (_, target))| QueueEntry {
            thread: target.thread,
            lane,
            state: EntryState::Waiting { position: position as u64 },
        });
        let delayed =
            self.due_times.iter().filter_map(|(_, thread)| Some((*thread, self.delayed.get(thread)?)));
        let delayed = delayed.map(|(thread, schedule)| {
            let due_in = schedule.due.saturating_duration_since(now);
            let state = EntryState::Delayed { due_in, reason: schedule.reason.clone() };
            QueueEntry { thread, lane: schedule.lane.clone(), state }
        });
        leased.chain(waiting).chain(delayed).take(limit).collect()
    }

    /// The time at which the next lease expires or the next delayed job is due. A lease that has expired belongs to a job in
    /// quarantine, or it would have been claimed.
    pub(super) fn next_event(&self) -> Option<Instant> {
        let lease_end = self.lease_ends.range((Instant::now(), u64::MAX)..).next().map(|(end, _)| *end);
        let due = self.due_times.first().map(|(due, _)| *due);
        lease_end.into_iter().chain(due).min()
    }
}
