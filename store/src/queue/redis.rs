//! The doorbell of many processes, in Redis Streams.
//!
//! | key | what it is, and why |
//! |---|---|
//! | lists [`LANE`]` priority:tenant` | The tokens that wait, each `thread` or `thread head`, where its log ended. A tenant that has nothing waiting has no list. |
//! | sorted set [`TENANTS`] | The ring: every tenant with something waiting, by its place in the order of turns. Who has had its turn goes to the end with a higher number, and who has nothing left goes. |
//! | string [`CREDIT`] | How many tokens are left of the turn of the first in the ring, if it was not used up at once. All workers share it. |
//! | stream [`STREAM`] | Tokens that are taken, or are just being handed to a worker that waits: an entry `thread <uuid> lane <priority:tenant>`, perhaps with `head <n>`. Its id is the token's name. Entries are deleted when they are finished and only ever added at the tail, so the stream holds leases only. Never trimmed: a trimmed entry would be a lost token. |
//! | group [`GROUP`] on it | Redis' list of pending entries is the list of leases: who holds a token, and for how long it was not renewed. Reading hands a token to one consumer; claiming moves it when the lease has run out. |
//! | sorted set [`HUNGRY`] | Tickets of workers that wait with nothing to take: `<until> <room> <consumer>`, in the order in which they began to wait. Ends by itself when nobody waits any more. |
//! | sorted set [`LATER`] | Delayed rings: member `<uuid>`, score the time it is due, in milliseconds of Redis' clock. A thread is in it at most once, with its earliest time. |
//! | hash [`NOTES`] | What a delayed ring says beside its time: `<priority:tenant> <what holds it back>`. |
//!
//! All keys carry a version, so that two generations of workers can share a Redis, and the tag `{jobs}`, so that
//! they stay together in a Redis Cluster, as scripts need it.
//!
//! Nothing here is truth, so nothing is written that a sweep over the threads could not write again:
//!
//! | what happens | what is left | what follows |
//! |---|---|---|
//! | a ring is not sent after the append | a thread without a token | the sweep rings |
//! | a ring is sent, its answer lost | one or two tokens | the second finds nothing to do |
//! | a worker dies with tokens, or before it heard of them | pending entries | taken by others after the lease |
//! | a worker dies while it waits | its ticket, and the tokens that were handed to it, which nobody has read | whoever takes next reads them first; the ticket ends within [`LONGEST_WAIT`] |
//! | a worker stalls beyond its lease and wakes | a token of somebody else | `renew` reports it lost, `finish` does nothing |
//! | `finish` is sent, its answer lost | all of it happened, or nothing | repeated, it does nothing or all of it |
//! | Redis dies and comes back empty, `FLUSHALL` | nothing | the group is made anew, the sweep rings |
//! | Redis comes back with its last second lost | lost or resurrected tokens | the sweep rings; the resurrected find nothing to do |
//! | nobody rings while a delayed ring comes due | a sorted set | whoever waits in `take` has set its alarm |
//! | workers are told different weights | one ring, and turns of different lengths | each gives turns as long as it was told |
//!
//! ## Why a token is on the stream only once it is taken
//!
//! A stream is read in the order in which it was written, so whoever floods it first is served first, for hours if need
//! be. In lanes nothing is decided before a slot is free. The way through a lane costs less than an entry each way: lanes
//! are filled and emptied by one command for many tokens.
//!
//! ## Why there are tickets
//!
//! A blocking read of the stream hears nothing of lanes. So a worker that finds nothing leaves a ticket, in the same
//! script that looked, and waits for the stream; while no lane has anything, whoever rings uses up a ticket and writes to
//! the stream at once. A lone ring is one round trip and wakes its worker, as it ever did. A ticket says how many tokens
//! its worker can take, so what one script brings at once goes to free slots at once; and no more unread entries
//! are on the stream than workers had free slots. A ticket is no worker's own: Redis wakes the reader that has waited
//! longest, and the oldest ticket is used up first, which is nearly always that reader's. Where it is not (two began to
//! wait within one another's round trip), a worker may wait out its [`LONGEST_WAIT`] beside a lane, and no longer.
//!
//! ## Why reading has a connection of its own
//!
//! A read waits in Redis and holds up every command behind it. It is never dropped half way either: a delayed
//! ring that comes due during the wait is moved to the stream on the other connection, and wakes the read.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{InfoDict, RedisError, streams::StreamId};
use tokio::{sync::Mutex, time::Instant};
use tracing::debug;
use uuid::Uuid;

use super::{
    Depth, Job, LONGEST_WAIT, Lane, Listed, Queue, QueueError, Weights, When,
    alarm::Alarm,
    reader::Reader,
    scripts,
    wire::{Control, Wire},
};
use crate::gather::Gather;

/// The stream of tokens that are taken.
pub const STREAM: &str = "turnfold:{jobs}:v2:stream";

/// The sorted set of delayed rings.
pub const LATER: &str = "turnfold:{jobs}:v2:later";

/// The hash of what delayed rings say.
pub const NOTES: &str = "turnfold:{jobs}:v2:notes";

/// The ring of tenants.
pub const TENANTS: &str = "turnfold:{jobs}:v2:tenants";

/// What is left of a tenant's turn.
pub const CREDIT: &str = "turnfold:{jobs}:v2:credit";

/// The sorted set of tickets.
pub const HUNGRY: &str = "turnfold:{jobs}:v2:hungry";

/// What the key of each lane begins with.
pub const LANE: &str = "turnfold:{jobs}:v2:lane:";

/// The consumer group on the stream.
pub const GROUP: &str = "workers";

/// What every script is given.
pub(super) const KEYS: [&str; 7] = [STREAM, LATER, NOTES, TENANTS, CREDIT, HUNGRY, LANE];

/// The fields of an entry; the last only where it is known.
const THREAD: &str = "thread";
pub(super) const LANE_FIELD: &str = "lane";
pub(super) const HEAD: &str = "head";

/// The oldest Redis with `XAUTOCLAIM`.
const NEEDED: (u32, u32) = (6, 2);

/// How much one command or script does at most, so that Redis is never busy with it for long.
const MOST_TAKEN: usize = 1000;
const MOST_RUNG: usize = 1000;
const MOST_RENEWED: usize = 128;
const MOST_FINISHED: usize = 128;

/// How long a consumer that holds nothing stays on Redis' list.
const FORGET_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// One consumer of the doorbell in Redis. Its name must be its own: two consumers of one name would each think
/// that they hold the other's tokens.
pub struct RedisQueue {
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

impl RedisQueue {
    /// Connects, and makes the group if there is none.
    ///
    /// # Errors
    ///
    /// [`QueueError::Address`], [`QueueError::TooOld`], or that Redis is not there or refuses.
    pub async fn connect(url: &str, lease: Duration, consumer: &str) -> Result<Self, QueueError> {
        let wire = Wire::open(url)?;
        let control = wire.control().await?;
        let (alarm, reader) = (Alarm::at(Instant::now()), Mutex::new(Reader::new()));
        let finisher = finisher(control.clone(), consumer);
        let (consumer, weights) = (consumer.to_owned(), Weights::default());
        let this = Self { wire, control, consumer, lease, alarm, weights, reader, finisher };
        this.check_version().await?;
        this.make_group().await?;
        // Only tidiness: what it does not forget today it forgets another day.
        match this.forget_consumers(FORGET_AFTER).await {
            Ok(forgotten) => debug!(forgotten, "forgot consumers that were gone"),
            Err(error) => debug!(%error, "did not forget consumers that are gone"),
        }
        Ok(this)
    }

    /// The same consumer, for whom tenants weigh so; without it, all weigh the same.
    #[must_use]
    pub fn weighing(self, weights: Weights) -> Self {
        Self { weights, ..self }
    }

    /// Takes consumers off Redis' list that hold nothing and have not been seen for this long; says how many.
    /// [`Self::connect`] does it too, with a day: every worker that ever ran would stay on the list.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    pub async fn forget_consumers(&self, unseen: Duration) -> Result<u64, QueueError> {
        let mut script = scripts::on_keys(&scripts::FORGET);
        script.arg(GROUP).arg(millis(unseen));
        self.control.run(&script).await.map_err(|error| self.wire.error("forget consumers", &error))
    }

    async fn check_version(&self) -> Result<(), QueueError> {
        match self.control.ask::<InfoDict>(redis::cmd("INFO").arg("server")).await {
            Ok(info) => match info.get::<String>("redis_version") {
                Some(found) if version(&found).is_some_and(|found| found < NEEDED) => {
                    Err(QueueError::TooOld { found })
                }
                _ => Ok(()),
            },
            // A Redis that does not say may still be new enough, and the first XAUTOCLAIM will tell.
            Err(error) if error.code() == Some("NOPERM") => Ok(()),
            Err(error) => Err(self.wire.error("ask for the version", &error)),
        }
    }

    /// From 0: what was rung before there was a group is heard too.
    pub(super) async fn make_group(&self) -> Result<(), QueueError> {
        let mut command = redis::cmd("XGROUP");
        command.arg("CREATE").arg(STREAM).arg(GROUP).arg(0).arg("MKSTREAM");
        match self.control.ask::<()>(&command).await {
            Err(error) if error.code() != Some("BUSYGROUP") => Err(self.wire.error("make the group", &error)),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl Queue for RedisQueue {
    async fn ring(&self, thread: Uuid, lane: &Lane, when: When) -> Result<(), QueueError> {
        let mut script = scripts::on_keys(&scripts::RING);
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
            let mut script = scripts::on_keys(&scripts::RING_MANY);
            script.arg(lane.to_string());
            for thread in threads {
                script.arg(thread.to_string());
            }
            self.control.run::<()>(&script).await.map_err(|error| self.wire.error("ring", &error))?;
        }
        Ok(())
    }

    async fn take(&self, max: usize) -> Result<Vec<Job>, QueueError> {
        let room = max.min(MOST_TAKEN);
        if room == 0 {
            return Ok(Vec::new());
        }
        let mut reader = self.reader.lock().await;
        let deadline = Instant::now() + LONGEST_WAIT;
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

    async fn renew(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        let mut lost = BTreeSet::new();
        for jobs in jobs.chunks(MOST_RENEWED) {
            let mut script = scripts::on_keys(&scripts::RENEW);
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

fn finisher(control: Control, consumer: &str) -> Finisher {
    let consumer: Arc<str> = consumer.into();
    Gather::new(1, MOST_FINISHED, move |ended: Vec<(Job, Option<When>)>| {
        let (control, consumer) = (control.clone(), Arc::clone(&consumer));
        async move {
            let mut script = scripts::on_keys(&scripts::FINISH);
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

/// Major and minor.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
