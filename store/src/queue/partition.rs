//! One partition of the doorbell in Redis: a whole doorbell, whose keys stand together.

use std::{collections::BTreeSet, time::Duration};

use redis::{RedisError, streams::StreamId};
use tokio::{sync::Mutex, time::Instant};
use tracing::debug;
use uuid::Uuid;

use super::{
    Depth, Job, Lane, Listed, QueueError, Room, Weights, When,
    alarm::Alarm,
    desk::Desk,
    keys::{GROUP, Keys},
    reader::Reader,
    rung::Threads,
    scripts,
    wire::{Control, Wire},
};

/// The field of an entry: one, because whoever removes an entry walks over the fields of others.
const JOB: &str = "job";

/// How much one command or script does at most, so that Redis is never busy with it for long.
const MOST_TAKEN: usize = 1000;
const MOST_RUNG: usize = 1000;
const MOST_RENEWED: usize = 128;

/// How long a consumer that holds nothing stays on Redis' list.
const FORGET_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// One consumer of one partition.
pub(super) struct Partition {
    pub(super) keys: Keys,
    pub(super) wire: Wire,
    pub(super) control: Control,
    pub(super) consumer: String,
    pub(super) lease: Duration,
    pub(super) alarm: Alarm,
    pub(super) weights: Weights,
    reader: Mutex<Reader>,
    pub(super) desk: Desk,
}

impl Partition {
    /// On a connection that stands, under these keys.
    pub(super) fn new(keys: Keys, wire: Wire, control: Control, lease: Duration, consumer: &str) -> Self {
        let (alarm, reader) = (Alarm::at(Instant::now()), Mutex::new(Reader::new()));
        let desk = Desk::new(keys.clone(), control.clone(), consumer, lease);
        let (consumer, weights) = (consumer.to_owned(), Weights::default());
        Self { keys, wire, control, consumer, lease, alarm, weights, reader, desk }
    }

    /// Makes the group if there is none, and tidies up.
    pub(super) async fn open(&self) -> Result<(), QueueError> {
        self.make_group().await?;
        // What it is held against when tokens are taken over.
        self.is_clock_steady(&mut *self.reader.lock().await).await?;
        // What it does not forget today it forgets another day.
        match self.forget_consumers(FORGET_AFTER).await {
            Ok(forgotten) => debug!(forgotten, "forgot consumers that were gone"),
            Err(error) => debug!(%error, "did not forget consumers that are gone"),
        }
        Ok(())
    }

    /// Every thread that has a token or a delayed ring.
    pub(super) async fn threads(&self) -> Result<Threads, QueueError> {
        self.every_thread().await.map_err(|error| self.wire.error("list tokens", &error))
    }

    /// Takes consumers off Redis' list that hold nothing and have not been seen for this long; says how many.
    pub(super) async fn forget_consumers(&self, unseen: Duration) -> Result<u64, QueueError> {
        let mut script = self.keys.prepare(&scripts::FORGET);
        script.arg(GROUP).arg(millis(unseen));
        self.control.run(&script).await.map_err(|error| self.wire.error("forget consumers", &error))
    }

    /// From 0: what was rung before there was a group is heard too.
    pub(super) async fn make_group(&self) -> Result<(), QueueError> {
        let mut command = redis::cmd("XGROUP");
        command.arg("CREATE").arg(&self.keys.stream).arg(GROUP).arg(0).arg("MKSTREAM");
        match self.control.ask::<()>(&command).await {
            Err(error) if error.code() != Some("BUSYGROUP") => Err(self.wire.error("make the group", &error)),
            _ => Ok(()),
        }
    }

    /// As [`Queue::take`](super::Queue::take), and waits for so long at most.
    pub(super) async fn take_within(&self, room: Room, longest: Duration) -> Result<Vec<Job>, QueueError> {
        let mut reader = self.reader.lock().await;
        let deadline = Instant::now() + longest;
        loop {
            let mut jobs = Vec::new();
            // Also by who is always busy: else nobody would.
            if Instant::now() >= self.claims_at(&reader) {
                if !room.any_until(deadline).await {
                    return Ok(Vec::new());
                }
                jobs = self.claim(&mut reader, most(&room)).await?;
            }
            if jobs.is_empty() {
                let until = deadline.min(self.claims_at(&reader));
                let Some((drawn, wait)) = self.draw(&room, until).await? else { return Ok(Vec::new()) };
                jobs = drawn;
                if jobs.is_empty() {
                    jobs = self.read(&mut reader, most(&room), wait).await?;
                }
            }
            if !jobs.is_empty() || Instant::now() >= deadline {
                return Ok(jobs);
            }
        }
    }

    pub(super) async fn ring(&self, thread: Uuid, lane: &Lane, when: When) -> Result<(), QueueError> {
        let mut script = self.keys.prepare(&scripts::RING);
        let (delay, says) = told(thread, &when);
        script.arg(lane.to_string()).arg(delay).arg(says);
        let rung = self.control.run::<()>(&script).await;
        if delay > 0 {
            self.alarm.sooner(Instant::now() + Duration::from_millis(delay));
        }
        rung.map_err(|error| self.wire.error("ring", &error))
    }

    pub(super) async fn ring_many(&self, threads: &[Uuid], lane: &Lane) -> Result<(), QueueError> {
        for threads in threads.chunks(MOST_RUNG) {
            let mut script = self.keys.prepare(&scripts::RING_MANY);
            script.arg(lane.to_string());
            for thread in threads {
                script.arg(thread.to_string());
            }
            self.control.run::<()>(&script).await.map_err(|error| self.wire.error("ring", &error))?;
        }
        Ok(())
    }

    pub(super) async fn renew(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        let mut lost = BTreeSet::new();
        for jobs in jobs.chunks(MOST_RENEWED) {
            let mut script = self.keys.prepare(&scripts::RENEW);
            script.arg(GROUP).arg(&self.consumer);
            for job in jobs {
                script.arg(&job.token);
            }
            let some = self.control.run::<Vec<String>>(&script).await;
            lost.extend(some.map_err(|error| self.wire.error("renew leases", &error))?);
        }
        Ok(jobs.iter().filter(|job| lost.contains(&job.token)).cloned().collect())
    }

    pub(super) async fn finish(&self, job: &Job, next: Option<When>) -> Result<bool, QueueError> {
        let error = |error: &RedisError| self.wire.error("finish a token", error);
        let delay = next.as_ref().and_then(When::delay_ms);
        // A process that comes to its end leaves the token to its lease.
        let Some(held) = self.desk.end(job.clone(), next).await else { return Ok(true) };
        let held = held.map_err(|it| error(&it))?;
        if !held {
            debug!(thread = %job.thread, token = job.token, "the token was not ours any more");
        } else if let Some(delay) = delay {
            self.alarm.sooner(Instant::now() + Duration::from_millis(delay));
        }
        Ok(held)
    }

    pub(super) async fn is_held_besides(&self, job: &Job) -> Result<bool, QueueError> {
        self.has_another_holder(job).await.map_err(|error| self.wire.error("look who holds tokens", &error))
    }

    pub(super) async fn len(&self) -> Result<Depth, QueueError> {
        self.depth().await.map_err(|error| self.wire.error("measure", &error))
    }

    pub(super) async fn list(&self, limit: usize) -> Result<Vec<Listed>, QueueError> {
        self.places(limit).await.map_err(|error| self.wire.error("list tokens", &error))
    }
}

/// How many tokens one command takes at most; one, if the room was closed just now, as none would mean all.
pub(super) fn most(room: &Room) -> usize {
    room.free().clamp(1, MOST_TAKEN)
}

/// What the scripts are told of a ring: its delay in milliseconds, and what it says.
pub(super) fn told(thread: Uuid, when: &When) -> (u64, String) {
    match (when.delay_ms(), when.head()) {
        (Some(delay), _) => {
            (delay, format!("{thread} {}", when.why().map(|it| it.to_string()).unwrap_or_default()))
        }
        (None, Some(head)) => (0, format!("{thread} {head}")),
        (None, None) => (0, thread.to_string()),
    }
}

/// An entry of the stream.
pub(super) struct Entry {
    pub(super) token: String,
    /// What it says; nothing, if it is none of ours.
    pub(super) says: String,
}

impl Entry {
    /// As a job; none, if it names no thread.
    pub(super) fn job(&self) -> Option<Job> {
        let mut words = self.says.split(' ');
        let (lane, thread) = (words.next()?.parse().unwrap_or_default(), words.next()?.parse().ok()?);
        let head = words.next().and_then(|it| it.parse().ok());
        Some(Job { thread, token: self.token.clone(), head, lane })
    }
}

impl From<StreamId> for Entry {
    fn from(it: StreamId) -> Self {
        Self { says: it.get(JOB).unwrap_or_default(), token: it.id }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
