//! The doorbell: which threads may be able to move, and who is looking after each. It carries no truth.
//!
//! A **token** says "this thread may be able to move". Whoever takes it holds it under a **lease**: as long as
//! the lease is renewed, no one else is given the token; when it runs out (the holder died, or stalled), the
//! token goes to whoever takes next. The log decides what a thread does; two tokens for one thread cost a
//! look at the log, and a lost token costs the time until the next sweep over the threads.
//!
//! Until it is taken, a token waits in a [`Lane`]: that of its tenant and its turn's priority. Tenants take turns, each
//! as many tokens long as its [weight](Weights) says (deficit round robin, where every token costs 1), so one that
//! floods delays another's single token by one turn of each other tenant, however much it has rung for. Within a
//! tenant, priority is strict: what is low waits for as long as anything higher is to be done, and starves if that never
//! ends.
//!
//! [`MemoryQueue`] serves one process, [`RedisQueue`] many; [`testing`] is what both must pass.

pub mod lane;

mod alarm;
mod desk;
mod held;
mod keys;
mod lanes;
mod looks;
pub mod memory;
pub(crate) mod partition;
mod reader;
pub mod redis;
mod room;
mod rung;
mod scripts;
pub mod testing;
pub(crate) mod wire;

use std::{error::Error, time::Duration};

use async_trait::async_trait;
use uuid::Uuid;

pub use self::{
    held::{HeldBy, Why},
    lane::{Lane, Priority, UnknownPriority, Weights},
    memory::MemoryQueue,
    redis::RedisQueue,
    room::{Room, Slot},
    rung::Rung,
};

/// How long [`Queue::take`] waits before it comes back with nothing, so that its caller can look around.
pub const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The longest delay that a ring can have; a longer one is shortened to this.
pub const LONGEST_DELAY: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// How much of why a ring is held back is kept, in bytes.
pub const WHY_MAX: usize = 200;

/// How many tokens [`Queue::list`] tells of, at most.
pub const LIST_MAX: usize = 1000;

/// A token that somebody holds: this thread may be able to move.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Job {
    /// The thread.
    pub thread: Uuid,
    /// The token's name in its queue; it means nothing elsewhere.
    pub token: String,
    /// Where the thread's log ended when the bell was rung, if that was said: whoever has the thread folded up to
    /// there need not read it.
    pub head: Option<u64>,
    /// Where it waited, and where its successor will.
    pub lane: Lane,
}

/// When a bell is to be heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// At once.
    Now,
    /// At once, for a thread whose log ends at this number.
    NowAt(u64),
    /// Not before this has passed.
    After(Duration),
    /// Not before this has passed, because something holds it back.
    Held {
        /// How long.
        after: Duration,
        /// What holds it back, for whoever [looks](Queue::list); of its words the first [`WHY_MAX`] bytes are kept.
        why: Why,
    },
}

impl When {
    /// The delay in milliseconds, rounded up so that nothing is early; none for a ring that is due at once.
    fn delay_ms(&self) -> Option<u64> {
        match self {
            Self::Now | Self::NowAt(_) => None,
            Self::After(delay) | Self::Held { after: delay, .. } if delay.is_zero() => None,
            Self::After(delay) | Self::Held { after: delay, .. } => {
                let micros = (*delay).min(LONGEST_DELAY).as_micros();
                Some(u64::try_from(micros.div_ceil(1000)).unwrap_or(u64::MAX))
            }
        }
    }

    /// The same, without a word of where the log ends.
    #[must_use]
    pub fn without_head(self) -> Self {
        match self {
            Self::NowAt(_) => Self::Now,
            Self::Now | Self::After(_) | Self::Held { .. } => self,
        }
    }

    /// Where the log ends, if that is said.
    fn head(&self) -> Option<u64> {
        match self {
            Self::NowAt(head) => Some(*head),
            Self::Now | Self::After(_) | Self::Held { .. } => None,
        }
    }

    /// What holds it back, as much of it as is kept, if that is said.
    fn why(&self) -> Option<Why> {
        match self {
            Self::Held { why, .. } => Some(why.cut()),
            Self::Now | Self::NowAt(_) | Self::After(_) => None,
        }
    }
}

/// How much is in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Tokens that nobody has taken yet.
    pub waiting: u64,
    /// Tokens that somebody holds, expired leases included until they are taken anew.
    pub in_flight: u64,
    /// Rings that are not due yet.
    pub delayed: u64,
}

/// A token, or a ring that is not one yet, as whoever looks finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The thread.
    pub thread: Uuid,
    /// Whose it is, and how urgent.
    pub lane: Lane,
    /// Where it is.
    pub place: Place,
}

/// Where a token is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nobody has taken it yet.
    Waiting {
        /// How many stand before it in its lane.
        position: u64,
    },
    /// Somebody holds it.
    InFlight {
        /// Which consumer.
        consumer: String,
        /// For how long the lease has not been renewed.
        unrenewed: Duration,
    },
    /// It is not due yet.
    Delayed {
        /// When it is.
        due_in: Duration,
        /// What holds it back, if that was said.
        why: Option<Why>,
    },
}

/// Why the doorbell did not do as told. It never shows a password.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// It is not there at the moment: try again. Nothing is lost that a sweep does not bring back.
    #[error("failed to {what}: the queue is not there at the moment, try again")]
    Unavailable {
        /// What was tried, and where.
        what: String,
        /// What went wrong.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Its server said no; trying again does not help.
    #[error("failed to {what}: the queue's server refused, an operator must look at its answer")]
    Refused {
        /// What was tried, and where.
        what: String,
        /// What the server said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// The server lacks what the queue is built on.
    #[error("redis {found} is too old: the queue needs 6.2 or newer, for XAUTOCLAIM and ZADD LT")]
    TooOld {
        /// Its version.
        found: String,
    },
    /// The address cannot be used.
    #[error("the queue's address is not of use: it reads `redis://[user:password@]host[:port][/number]`")]
    Address {
        /// What is wrong with it.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A queue in process holds all that it may; a sweep will ring again.
    #[error("the queue holds {limit} tokens already, ring again when some are finished")]
    Full {
        /// How many it may hold.
        limit: usize,
    },
}

/// A doorbell with leases. Each value is one *consumer*: a token belongs to the consumer that took it.
///
/// ## Why rings are not merged
///
/// A second ring for a thread that has a token already makes a second token. It costs one look at the log, and
/// merging would cost each ring a look at an index, and be wrong if the first token is just being finished.
#[expect(clippy::len_without_is_empty, reason = "a depth is three numbers, and which of them are 0 differs")]
#[async_trait]
pub trait Queue: Send + Sync {
    /// Says that a thread may be able to move; its token waits in this lane. Of several delayed rings for one thread
    /// the earliest counts, with its lane and what holds it back, and becomes one token. Only what a
    /// [worker](HeldBy::Worker) holds back that says the same again is put off: it is at the thread still.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; the ring may have been heard all the same.
    async fn ring(&self, thread: Uuid, lane: &Lane, when: When) -> Result<(), QueueError>;

    /// Says that each of these threads may be able to move, at once and in this order; their tokens wait in this lane.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; some of the rings may have been heard all the same.
    async fn ring_many(&self, threads: &[Uuid], lane: &Lane) -> Result<(), QueueError> {
        for thread in threads {
            self.ring(*thread, lane, When::Now).await?;
        }
        Ok(())
    }

    /// Takes as many tokens as there is room for, each under a fresh lease: those whose lease ran out, and then those that
    /// wait, tenants in turn and each tenant's most urgent first. Delayed ones that are due wait in their lanes by then.
    /// Waits until there is room and one to take, and comes back with none after [`LONGEST_WAIT`], or when the room is closed
    /// while it waits for that.
    ///
    /// A token comes back to the consumer that holds it too, if that did not renew it in time.
    ///
    /// One task takes at a time; others wait for it. Let it end by itself: a `take` that is dropped half way may
    /// have been given tokens that nobody hears of until their lease runs out.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; nothing was taken that is not taken again after its lease.
    async fn take(&self, room: Room) -> Result<Vec<Job>, QueueError>;

    /// Renews the leases of those jobs that this consumer still holds and returns the others: they are lost, and
    /// whoever works on them should stop.
    ///
    /// **Invariant:** it never takes a token back from another consumer.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; some of the leases may have been renewed.
    async fn renew(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError>;

    /// If this consumer still holds the token: ends it and, if asked, rings for its thread again in the lane that
    /// `job` names, both or neither. If not, does nothing, so it may be repeated. Says which.
    ///
    /// **Invariant:** one token has at most one successor.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; repeat it, or leave the token to its lease.
    async fn finish(&self, job: &Job, next: Option<When>) -> Result<bool, QueueError>;

    /// Whether somebody holds another token of the job's thread. Also if its lease ran out: until it is taken over nobody knows
    /// whether whoever holds it is gone.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    async fn is_held_besides(&self, job: &Job) -> Result<bool, QueueError>;

    /// Which threads have a token or a delayed ring: what a sweep need not ring for.
    ///
    /// Of a queue in several places those are told that answer. A token that changes its place while this looks may be
    /// missed, once in a long while: the sweep then rings for a thread that needs no ring.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    async fn rung(&self) -> Result<Rung, QueueError>;

    /// Whether its tokens stay when this process ends: others may hold some when this one starts.
    fn outlives_process(&self) -> bool {
        true
    }

    /// How much is in it; of a queue in several places, in those that answer.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    async fn len(&self) -> Result<Depth, QueueError>;

    /// Where each token is, at most `limit` of them and no more than [`LIST_MAX`]: first what is in flight, then what
    /// waits, tenants in the order of their turns, then what is delayed, the soonest first. Of a queue in several places those
    /// are told that answer.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    async fn list(&self, limit: usize) -> Result<Vec<Listed>, QueueError>;
}
