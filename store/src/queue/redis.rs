//! The doorbell of many processes, in Redis Streams.
//!
//! | key | what it is, and why |
//! |---|---|
//! | lists [`lane`](Keys::lane)` priority:tenant` | The tokens that wait, each `thread` or `thread head`, where its log ended. A tenant that has nothing waiting has no list. |
//! | sorted set [`tenants`](Keys::tenants) | The ring: every tenant with something waiting, by its place in the order of turns. Who has had its turn goes to the end with a higher number, and who has nothing left goes. |
//! | string [`credit`](Keys::credit) | How many tokens are left of the turn of the first in the ring, if it was not used up at once. All workers share it. |
//! | stream [`stream`](Keys::stream) | Tokens that are taken, or are just being handed to a worker that waits: an entry `job <priority:tenant> <uuid>`, perhaps with the number behind it where the log ended. Its id is the token's name. Entries are deleted when they are finished and only ever added at the tail, so the stream holds leases only. Never trimmed: a trimmed entry would be a lost token. |
//! | group [`GROUP`] on it | Redis' list of pending entries is the list of leases: who holds a token, and for how long it was not renewed. Reading hands a token to one consumer; claiming moves it when the lease has run out. |
//! | sorted set [`hungry`](Keys::hungry) | Tickets of workers that wait with nothing to take: `<until> <room> <consumer>`, in the order in which they began to wait. Ends by itself when nobody waits any more. |
//! | sorted set [`later`](Keys::later) | Delayed rings: member `<uuid>`, score the time it is due, in milliseconds of Redis' clock. A thread is in it at most once, with its earliest time, or the latest that one worker tells that is at it. |
//! | hash [`notes`](Keys::notes) | What a delayed ring says beside its time: `<priority:tenant> <what holds it back>`. |
//!
//! All keys carry a version, so that two generations of workers can share a Redis, and a tag, so that they stay together
//! in a Redis Cluster, as scripts need it.
//!
//! In a Redis Cluster there are [`PARTITIONS`] of all that, under tags of their own, so that the cluster spreads them over
//! its nodes. Which partition a thread's tokens are in follows from its id. Tenants take turns in each partition by itself. That a
//! server is one of a cluster is seen when connecting, so nobody has to agree on anything.
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
//! | Redis dies and comes back empty, `FLUSHALL` | nothing | the group is made anew; workers are told that their tokens are lost, go on, and ring when they are done; the sweep rings for the others |
//! | Redis is away for longer than a lease, and comes back with all | leases that ran out | nothing is taken over before Redis has answered for half a lease; who is well renews within a third |
//! | Redis' clock is set forward, or a replica takes over whose clock is ahead | leases that ran out | nothing is taken over for half a lease; who is well renews within a third |
//! | Redis comes back with its last second lost | lost or resurrected tokens | the sweep rings; the resurrected find nothing to do |
//! | nobody rings while a delayed ring comes due | a sorted set | whoever waits in `take` has set its alarm |
//! | a node of a cluster dies | its partitions, until a replica takes over or it comes back | the others go on; the sweep rings |
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

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{
    FutureExt, StreamExt,
    future::{BoxFuture, join_all, try_join_all},
    stream::FuturesUnordered,
};
use tokio::{
    sync::Mutex,
    time::{Instant, timeout_at},
};
use tracing::{debug, warn};
use uuid::Uuid;

pub use super::keys::{GROUP, Keys};
use super::{
    Depth, Job, LONGEST_WAIT, Lane, Listed, Place, Queue, QueueError, Room, Rung, Weights, When,
    partition::Partition, rung::partition, wire::Wire,
};

/// How many partitions there are in a Redis Cluster.
pub const PARTITIONS: usize = 16;

/// For how long nothing is asked of a partition that failed while others answer.
const LEFT_ALONE: Duration = Duration::from_secs(1);

/// What is said of it then.
const SILENT: &str = "one partition of the queue does not answer; the others go on";

/// One consumer of the doorbell in Redis. Its name must be its own: two consumers of one name would each think
/// that they hold the other's tokens.
pub struct RedisQueue {
    partitions: Vec<Arc<Partition>>,
    takes: Mutex<Takes>,
}

impl RedisQueue {
    /// Connects, and makes the group if there is none.
    ///
    /// # Errors
    ///
    /// [`QueueError::Address`], [`QueueError::TooOld`], or that Redis is not there or refuses.
    pub async fn connect(url: &str, lease: Duration, consumer: &str) -> Result<Self, QueueError> {
        let wire = Wire::open(url)?;
        let control = wire.control().await?;
        let keys = match control.is_cluster() {
            true => (0..PARTITIONS).map(Keys::of).collect(),
            false => vec![Keys::of_all()],
        };
        let open = |keys| Arc::new(Partition::new(keys, wire.clone(), control.apart(), lease, consumer));
        let partitions: Vec<Arc<Partition>> = keys.into_iter().map(open).collect();
        // A group that is not made now is made by whoever misses it.
        told(join_all(partitions.iter().map(|it| it.open())).await)?;
        Ok(Self { partitions, takes: Mutex::default() })
    }

    /// The same consumer, for whom tenants weigh so; without it, all weigh the same.
    #[must_use]
    pub fn weighing(mut self, weights: Weights) -> Self {
        for partition in self.partitions.iter_mut().filter_map(Arc::get_mut) {
            partition.weights = weights.clone();
        }
        self
    }

    /// Takes consumers off Redis' list that hold nothing and have not been seen for this long; says how many.
    /// [`Self::connect`] does it too, with a day: every worker that ever ran would stay on the list.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    pub async fn forget_consumers(&self, unseen: Duration) -> Result<u64, QueueError> {
        Ok(try_join_all(self.partitions.iter().map(|it| it.forget_consumers(unseen))).await?.iter().sum())
    }

    fn number(&self, thread: Uuid) -> usize {
        partition(thread, self.partitions.len())
    }

    fn of(&self, thread: Uuid) -> &Partition {
        &self.partitions[self.number(thread)]
    }

    fn sorted<T: Clone>(&self, all: &[T], thread: impl Fn(&T) -> Uuid) -> BTreeMap<usize, Vec<T>> {
        let mut sorted = BTreeMap::<usize, Vec<T>>::new();
        for it in all {
            sorted.entry(self.number(thread(it))).or_default().push(it.clone());
        }
        sorted
    }
}

/// What each of the partitions that were asked tells; none of one that does not answer. The error, if that is all of them.
fn told<T>(answers: Vec<Result<T, QueueError>>) -> Result<Vec<Option<T>>, QueueError> {
    let mut silent = Vec::new();
    let told: Vec<Option<T>> =
        answers.into_iter().map(|it| it.map_err(|error| silent.push(error)).ok()).collect();
    if told.iter().any(Option::is_some) {
        silent.iter().for_each(|error| warn!(%error, "{SILENT}"));
        return Ok(told);
    }
    silent.into_iter().next().map_or(Ok(told), Err)
}

/// What is asked of each partition at the same time; what has not answered yet is heard in the next `take`.
#[derive(Default)]
struct Takes {
    under_way: FuturesUnordered<BoxFuture<'static, Taken>>,
    /// Of which partitions, and how many tokens at most.
    rooms: BTreeMap<usize, usize>,
    /// Those that failed, and until when they are left alone.
    failed: BTreeMap<usize, Instant>,
    /// Whose turn it is to be asked first.
    first: usize,
}

struct Taken {
    number: usize,
    jobs: Result<Vec<Job>, QueueError>,
}

impl Takes {
    /// Asks as many partitions as there is room for, and each for its share.
    ///
    /// **Invariant:** no more is ever asked for than there is room, so whoever takes with all the room they have is never
    /// given more.
    fn begin(&mut self, partitions: &[Arc<Partition>], max: usize) {
        let all = partitions.len();
        self.failed.retain(|_, until| Instant::now() < *until);
        let room = max.saturating_sub(self.rooms.values().sum());
        let idle = (0..all).map(|nth| (self.first + nth) % all);
        let idle = idle.filter(|it| !self.rooms.contains_key(it) && !self.failed.contains_key(it));
        let asked: Vec<usize> = idle.take(room).collect();
        let Some(last) = asked.last() else { return };
        self.first = last + 1;
        // Who has less room than there are partitions asks some of them after the others, and waits at each the less.
        let asking = u32::try_from(self.rooms.len() + asked.len()).unwrap_or(u32::MAX);
        let wait = LONGEST_WAIT * asking / u32::try_from(all).unwrap_or(u32::MAX);
        let share = room / asked.len();
        for number in asked {
            let partition = Arc::clone(&partitions[number]);
            self.rooms.insert(number, share);
            let take = async move { Taken { number, jobs: partition.take_within(share.into(), wait).await } };
            self.under_way.push(take.boxed());
        }
    }

    fn end(&mut self, taken: Taken) -> Result<Vec<Job>, QueueError> {
        self.rooms.remove(&taken.number);
        if taken.jobs.is_err() {
            self.failed.insert(taken.number, Instant::now() + LEFT_ALONE);
        }
        taken.jobs
    }
}

#[async_trait]
impl Queue for RedisQueue {
    async fn ring(&self, thread: Uuid, lane: &Lane, when: When) -> Result<(), QueueError> {
        self.of(thread).ring(thread, lane, when).await
    }

    async fn ring_many(&self, threads: &[Uuid], lane: &Lane) -> Result<(), QueueError> {
        let sorted = self.sorted(threads, |it| *it);
        let ring = |(number, threads): (&usize, &Vec<Uuid>)| {
            let (partition, threads) = (&self.partitions[*number], threads.clone());
            async move { partition.ring_many(&threads, lane).await }
        };
        // All of them, also if one does not answer.
        join_all(sorted.iter().map(ring)).await.into_iter().collect()
    }

    async fn take(&self, room: Room) -> Result<Vec<Job>, QueueError> {
        if let [alone] = self.partitions.as_slice() {
            return alone.take_within(room, LONGEST_WAIT).await;
        }
        let mut takes = self.takes.lock().await;
        let deadline = Instant::now() + LONGEST_WAIT;
        if !room.any_until(deadline).await {
            return Ok(Vec::new());
        }
        let mut jobs = Vec::new();
        loop {
            takes.begin(&self.partitions, room.free());
            let Ok(taken) = timeout_at(deadline, takes.under_way.next()).await else { break };
            let Some(taken) = taken else {
                // Every partition is left alone for a while.
                tokio::time::sleep_until(deadline).await;
                break;
            };
            let mut taken = Some(taken);
            // And whoever has answered meanwhile.
            while let Some(it) = taken.take() {
                match takes.end(it) {
                    Ok(some) => jobs.extend(some),
                    Err(error) if jobs.is_empty() && takes.failed.len() == self.partitions.len() => {
                        return Err(error);
                    }
                    Err(error) => {
                        warn!(%error, "{SILENT}")
                    }
                }
                taken = takes.under_way.next().now_or_never().flatten();
            }
            if !jobs.is_empty() {
                break;
            }
        }
        // Whoever takes with less room than before was asked for too much: it goes back.
        let many = jobs.split_off(jobs.len().min(room.free()));
        for job in many {
            debug!(thread = %job.thread, "there is no room for it any more");
            self.finish(&job, Some(job.head.map_or(When::Now, When::NowAt))).await?;
        }
        Ok(jobs)
    }

    async fn renew(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        let sorted = self.sorted(jobs, |it| it.thread);
        let renew = |(number, jobs): (&usize, &Vec<Job>)| {
            let (partition, jobs) = (&self.partitions[*number], jobs.clone());
            async move { partition.renew(&jobs).await }
        };
        Ok(told(join_all(sorted.iter().map(renew)).await)?.into_iter().flatten().flatten().collect())
    }

    async fn finish(&self, job: &Job, next: Option<When>) -> Result<bool, QueueError> {
        self.of(job.thread).finish(job, next).await
    }

    async fn is_held_besides(&self, job: &Job) -> Result<bool, QueueError> {
        self.of(job.thread).is_held_besides(job).await
    }

    async fn rung(&self) -> Result<Rung, QueueError> {
        told(join_all(self.partitions.iter().map(|it| it.threads())).await).map(Rung::of)
    }

    async fn len(&self) -> Result<Depth, QueueError> {
        let depths = told(join_all(self.partitions.iter().map(|it| it.len())).await)?;
        Ok(depths.into_iter().flatten().fold(Depth::default(), |all, it| Depth {
            waiting: all.waiting + it.waiting,
            in_flight: all.in_flight + it.in_flight,
            delayed: all.delayed + it.delayed,
        }))
    }

    async fn list(&self, limit: usize) -> Result<Vec<Listed>, QueueError> {
        let lists = told(join_all(self.partitions.iter().map(|it| it.list(limit))).await)?;
        let mut all: Vec<Listed> = lists.into_iter().flatten().flatten().collect();
        // Each is in this order already, and what is equal keeps its place.
        all.sort_by_key(|it| match &it.place {
            Place::InFlight { .. } => (0, Duration::ZERO),
            Place::Waiting { .. } => (1, Duration::ZERO),
            Place::Delayed { due_in, .. } => (2, *due_in),
        });
        all.truncate(limit);
        Ok(all)
    }
}
