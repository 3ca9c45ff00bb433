//! The doorbell of many processes, in Redis Streams.
//!
//! | structure | what it is, and why |
//! |---|---|
//! | stream [`STREAM`] | Every token is an entry `thread <uuid>`, perhaps with `head <where its log ended>`, and its id is the token's name. Entries are deleted when they are finished and only ever added at the tail, so the stream holds live tokens only, and one ascending scan meets them all. Never trimmed: a trimmed entry would be a lost token. |
//! | group [`GROUP`] on it | Redis' list of pending entries is the list of leases: who holds a token, and for how long it was not renewed. Reading hands a token to one consumer; claiming moves it when the lease has run out. |
//! | sorted set [`LATER`] | Delayed rings: member `<uuid>`, score the time it is due, in milliseconds of Redis' clock. A thread is in it at most once, with its earliest time. |
//!
//! Both keys carry a version, so that two generations of workers can share a Redis, and the tag `{jobs}`, so that
//! they stay together in a Redis Cluster, as scripts need it.
//!
//! Nothing here is truth, so nothing is written that a sweep over the threads could not write again:
//!
//! | what happens | what is left | what follows |
//! |---|---|---|
//! | a ring is not sent after the append | a thread without a token | the sweep rings |
//! | a ring is sent, its answer lost | one or two tokens | the second finds nothing to do |
//! | a worker dies with tokens, or before it heard of them | pending entries | taken by others after the lease |
//! | a worker stalls beyond its lease and wakes | a token of somebody else | `renew` reports it lost, `finish` does nothing |
//! | `finish` is sent, its answer lost | all of it happened, or nothing | repeated, it does nothing or all of it |
//! | Redis dies and comes back empty, `FLUSHALL` | nothing | the group is made anew, the sweep rings |
//! | Redis comes back with its last second lost | lost or resurrected tokens | the sweep rings; the resurrected find nothing to do |
//! | nobody rings while a delayed ring comes due | a sorted set | whoever waits in `take` has set its alarm |
//!
//! ## Why reading has a connection of its own
//!
//! A read waits in Redis and holds up every command behind it. It is never dropped half way either: a delayed
//! ring that comes due during the wait is moved to the stream on the other connection, and wakes the read.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use async_trait::async_trait;
use redis::{
    InfoDict, RedisError, RedisResult,
    streams::{StreamId, StreamRangeReply},
};
use tokio::{sync::Mutex, time::Instant};
use tracing::debug;
use uuid::Uuid;

use super::{
    Depth, Job, LONGEST_WAIT, Queue, QueueError, When,
    alarm::Alarm,
    reader::Reader,
    scripts,
    wire::{Control, Wire},
};
use crate::gather::Gather;

/// The stream of tokens.
pub const STREAM: &str = "turnfold:{jobs}:v1:stream";

/// The sorted set of delayed rings.
pub const LATER: &str = "turnfold:{jobs}:v1:later";

/// The consumer group on the stream.
pub const GROUP: &str = "workers";

/// The fields of an entry; the second only where it is known.
const THREAD: &str = "thread";
pub(super) const HEAD: &str = "head";

/// The oldest Redis with `XAUTOCLAIM`.
const NEEDED: (u32, u32) = (6, 2);

/// How much one command or script does at most, so that Redis is never busy with it for long.
const MOST_TAKEN: usize = 1000;
const MOST_RENEWED: usize = 128;
const MOST_FINISHED: usize = 128;
const PAGE: usize = 1000;

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
        let this = Self { wire, control, consumer: consumer.to_owned(), lease, alarm, reader, finisher };
        this.check_version().await?;
        this.make_group().await?;
        // Only tidiness: what it does not forget today it forgets another day.
        match this.forget_consumers(FORGET_AFTER).await {
            Ok(forgotten) => debug!(forgotten, "forgot consumers that were gone"),
            Err(error) => debug!(%error, "did not forget consumers that are gone"),
        }
        Ok(this)
    }

    /// Takes consumers off Redis' list that hold nothing and have not been seen for this long; says how many.
    /// [`Self::connect`] does it too, with a day: every worker that ever ran would stay on the list.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    pub async fn forget_consumers(&self, unseen: Duration) -> Result<u64, QueueError> {
        let mut script = scripts::FORGET.prepare_invoke();
        script.key(STREAM).arg(GROUP).arg(millis(unseen));
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

    async fn rung_later(&self, rung: &mut BTreeSet<Uuid>) -> RedisResult<()> {
        let mut cursor = 0;
        loop {
            let mut command = redis::cmd("ZSCAN");
            command.arg(LATER).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, members): (u64, Vec<(String, f64)>) = self.control.ask(&command).await?;
            rung.extend(members.iter().filter_map(|(thread, _)| thread.parse::<Uuid>().ok()));
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    async fn rung_now(&self, rung: &mut BTreeSet<Uuid>) -> RedisResult<()> {
        let mut start = "-".to_owned();
        loop {
            let mut command = redis::cmd("XRANGE");
            command.arg(STREAM).arg(&start).arg("+").arg("COUNT").arg(PAGE);
            let page: StreamRangeReply = self.control.ask(&command).await?;
            rung.extend(page.ids.iter().filter_map(thread_of));
            match page.ids.last() {
                Some(last) if page.ids.len() == PAGE => start = format!("({}", last.id),
                _ => return Ok(()),
            }
        }
    }
}

#[async_trait]
impl Queue for RedisQueue {
    async fn ring(&self, thread: Uuid, when: When) -> Result<(), QueueError> {
        let rung = match when.delay_ms() {
            None => {
                let mut command = redis::cmd("XADD");
                command.arg(STREAM).arg("*").arg(THREAD).arg(thread.to_string());
                if let Some(head) = when.head() {
                    command.arg(HEAD).arg(head);
                }
                self.control.ask::<()>(&command).await
            }
            Some(delay) => {
                let mut script = scripts::LATER.prepare_invoke();
                script.key(STREAM).key(LATER).arg(thread.to_string()).arg(delay);
                let rung = self.control.run::<()>(&script).await;
                self.alarm.sooner(Instant::now() + Duration::from_millis(delay));
                rung
            }
        };
        rung.map_err(|error| self.wire.error("ring", &error))
    }

    async fn take(&self, max: usize) -> Result<Vec<Job>, QueueError> {
        let room = max.min(MOST_TAKEN);
        if room == 0 {
            return Ok(Vec::new());
        }
        let mut reader = self.reader.lock().await;
        let deadline = Instant::now() + LONGEST_WAIT;
        loop {
            self.fire_due().await?;
            let mut jobs = self.claim(&mut reader, room).await?;
            if jobs.is_empty() {
                let until = deadline.min(reader.claim_at);
                jobs = self.read(&mut reader, room, until).await?;
            }
            if !jobs.is_empty() || Instant::now() >= deadline {
                return Ok(jobs);
            }
        }
    }

    async fn renew(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        let mut lost = BTreeSet::new();
        for jobs in jobs.chunks(MOST_RENEWED) {
            let mut script = scripts::RENEW.prepare_invoke();
            script.key(STREAM).key(LATER).arg(GROUP).arg(&self.consumer);
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
        // A process that comes to its end leaves the token to its lease.
        let Some(held) = self.finisher.bring((job.clone(), next)).await else { return Ok(()) };
        if !held.map_err(|it| error(&it))? {
            debug!(thread = %job.thread, token = job.token, "the token was not ours any more");
        } else if let Some(delay) = next.and_then(When::delay_ms) {
            self.alarm.sooner(Instant::now() + Duration::from_millis(delay));
        }
        Ok(())
    }

    async fn rung(&self) -> Result<BTreeSet<Uuid>, QueueError> {
        let mut rung = BTreeSet::new();
        let error = |error: RedisError| self.wire.error("list tokens", &error);
        // Delayed rings become tokens and tokens delayed rings; looking at the delays before and after meets
        // whatever changed its place once.
        self.rung_later(&mut rung).await.map_err(error)?;
        self.rung_now(&mut rung).await.map_err(error)?;
        self.rung_later(&mut rung).await.map_err(error)?;
        Ok(rung)
    }

    async fn len(&self) -> Result<Depth, QueueError> {
        let mut script = scripts::DEPTH.prepare_invoke();
        script.key(STREAM).key(LATER).arg(GROUP);
        let (tokens, in_flight, delayed): (u64, u64, u64) =
            self.control.run(&script).await.map_err(|error| self.wire.error("measure", &error))?;
        Ok(Depth { waiting: tokens.saturating_sub(in_flight), in_flight, delayed })
    }
}

fn finisher(control: Control, consumer: &str) -> Finisher {
    let consumer: Arc<str> = consumer.into();
    Gather::new(1, MOST_FINISHED, move |ended: Vec<(Job, Option<When>)>| {
        let (control, consumer) = (control.clone(), Arc::clone(&consumer));
        async move {
            let mut script = scripts::FINISH.prepare_invoke();
            script.key(STREAM).key(LATER).arg(GROUP).arg(&*consumer);
            for (job, next) in &ended {
                let delay = next.map_or(-1, |it| it.delay_ms().map_or(0, saturated));
                let head = next.and_then(When::head).map_or(-1, saturated);
                script.arg(&job.token).arg(job.thread.to_string()).arg(delay).arg(head);
            }
            match control.run::<Vec<u64>>(&script).await {
                Ok(held) => held.into_iter().map(|it| Ok(it == 1)).collect(),
                Err(error) => ended.iter().map(|_| Err(error.clone())).collect(),
            }
        }
    })
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
