//! One partition of the doorbell in Redis: a whole doorbell, whose keys stand together.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{RedisError, streams::StreamId};
use tokio::{sync::Mutex, time::Instant};
use tracing::debug;
use uuid::Uuid;

use super::{
    Depth, Job, LONGEST_WAIT, Lane, Listed, Queue, QueueError, Weights, When,
    alarm::Alarm,
    keys::{GROUP, Keys},
    reader::Reader,
    scripts,
    wire::{Control, Wire},
};
use crate::gather::Gather;

/// The fields of an entry; the last only where it is known.
const THREAD: &str = "thread";
pub(super) const LANE_FIELD: &str = "lane";
pub(super) const HEAD: &str = "head";

/// How much one command or script does at most, so that Redis is never busy with it for long.
const MOST_TAKEN: usize = 1000;
const MOST_RUNG: usize = 1000;
const MOST_RENEWED: usize = 128;
const MOST_FINISHED: usize = 128;

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
    finisher: Finisher,
}

/// Ends tokens, many at once; tells of each whether it was held.
type Finisher = Gather<(Job, Option<When>), Result<bool, RedisError>>;

impl Partition {
    /// On a connection that stands, under these keys; makes the group if there is none.
    pub(super) async fn open(
        keys: Keys,
        wire: Wire,
        control: Control,
        lease: Duration,
        consumer: &str,
    ) -> Result<Self, QueueError> {
        let (alarm, reader) = (Alarm::at(Instant::now()), Mutex::new(Reader::new()));
        let finisher = finisher(keys.clone(), control.clone(), consumer);
        let (consumer, weights) = (consumer.to_owned(), Weights::default());
        let this = Self { keys, wire, control, consumer, lease, alarm, weights, reader, finisher };
        this.make_group().await?;
        // Only tidiness: what it does not forget today it forgets another day.
        match this.forget_consumers(FORGET_AFTER).await {
            Ok(forgotten) => debug!(forgotten, "forgot consumers that were gone"),
            Err(error) => debug!(%error, "did not forget consumers that are gone"),
        }
        Ok(this)
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

    /// As [`Queue::take`], with another longest wait.
    pub(super) async fn take_within(&self, max: usize, longest: Duration) -> Result<Vec<Job>, QueueError> {
        let room = max.min(MOST_TAKEN);
        if room == 0 {
            return Ok(Vec::new());
        }
        let mut reader = self.reader.lock().await;
        let deadline = Instant::now() + longest;
        loop {
            let mut jobs = self.claim(&mut reader, room).await?;
            if jobs.is_empty() {
                let until = deadline.min(reader.claim_at);
                let wait = until.saturating_duration_since(Instant::now());
                jobs = self.draw(room, wait).await?;
                if jobs.is_empty() {
                    jobs = self.read(&mut reader, room, wait).await?;
                }
            }
            if !jobs.is_empty() || Instant::now() >= deadline {
                return Ok(jobs);
            }
        }
    }
}

#[async_trait]
impl Queue for Partition {
    async fn ring(&self, thread: Uuid, lane: &Lane, when: When) -> Result<(), QueueError> {
        let mut script = self.keys.prepare(&scripts::RING);
        let delay = when.delay_ms();
        script.arg(thread.to_string()).arg(lane.to_string()).arg(delay.unwrap_or(0));
        script.arg(head_text(&when)).arg(when.why());
        let rung = self.control.run::<()>(&script).await;
        if let Some(delay) = delay {
            self.alarm.sooner(Instant::now() + Duration::from_millis(delay));
        }
        rung.map_err(|error| self.wire.error("ring", &error))
    }

    async fn ring_many(&self, threads: &[Uuid], lane: &Lane) -> Result<(), QueueError> {
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

    async fn take(&self, max: usize) -> Result<Vec<Job>, QueueError> {
        self.take_within(max, LONGEST_WAIT).await
    }

    async fn renew(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        let mut lost = BTreeSet::new();
        for jobs in jobs.chunks(MOST_RENEWED) {
            let mut script = self.keys.prepare(&scripts::RENEW);
            script.arg(GROUP).arg(&self.consumer);
            for job in jobs {
                script.arg(&job.token);
            }
            let some: Vec<String> =
                self.control.run(&script).await.map_err(|error| self.wire.error("renew leases", &error))?;
            lost.extend(some);
        }
        Ok(jobs.iter().filter(|job| lost.contains(&job.token)).cloned().collect())
    }

    async fn finish(&self, job: &Job, next: Option<When>) -> Result<(), QueueError> {
        let error = |error: &RedisError| self.wire.error("finish a token", error);
        let delay = next.as_ref().and_then(When::delay_ms);
        // A process that comes to its end leaves the token to its lease.
        let Some(held) = self.finisher.bring((job.clone(), next)).await else { return Ok(()) };
        if !held.map_err(|it| error(&it))? {
            debug!(thread = %job.thread, token = job.token, "the token was not ours any more");
        } else if let Some(delay) = delay {
            self.alarm.sooner(Instant::now() + Duration::from_millis(delay));
        }
        Ok(())
    }

    async fn rung(&self) -> Result<BTreeSet<Uuid>, QueueError> {
        self.every_thread().await.map_err(|error| self.wire.error("list tokens", &error))
    }

    async fn len(&self) -> Result<Depth, QueueError> {
        self.depth().await.map_err(|error| self.wire.error("measure", &error))
    }

    async fn list(&self, limit: usize) -> Result<Vec<Listed>, QueueError> {
        self.places(limit).await.map_err(|error| self.wire.error("list tokens", &error))
    }
}

fn finisher(keys: Keys, control: Control, consumer: &str) -> Finisher {
    let (keys, consumer): (_, Arc<str>) = (Arc::new(keys), consumer.into());
    Gather::new(1, MOST_FINISHED, move |ended: Vec<(Job, Option<When>)>| {
        let (keys, control, consumer) = (Arc::clone(&keys), control.clone(), Arc::clone(&consumer));
        async move {
            let mut script = keys.prepare(&scripts::FINISH);
            script.arg(GROUP).arg(&*consumer);
            for (job, next) in &ended {
                let next = next.as_ref();
                let delay = next.map_or(-1, |it| it.delay_ms().map_or(0, saturated));
                script.arg(&job.token).arg(job.thread.to_string()).arg(job.lane.to_string()).arg(delay);
                script.arg(next.map(head_text).unwrap_or_default()).arg(next.map_or("", When::why));
            }
            match control.run::<Vec<u64>>(&script).await {
                Ok(held) => held.into_iter().map(|it| Ok(it == 1)).collect(),
                Err(error) => ended.iter().map(|_| Err(error.clone())).collect(),
            }
        }
    })
}

/// Where the log ends, if that is said.
fn head_text(when: &When) -> String {
    when.head().map(|it| it.to_string()).unwrap_or_default()
}

fn saturated(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn thread_of(entry: &StreamId) -> Option<Uuid> {
    entry.get::<String>(THREAD)?.parse().ok()
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
