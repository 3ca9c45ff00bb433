//! What all workers together may take of a model, of a provider, of an MCP server: how much at once, in a minute, in a day.
//!
//! A request says what it [wants](Want) of each of them, and is given a [`Permit`] for all of it or is told when to come
//! back. While it is on its way its permit is [renewed](Limits::renew), and once it is over it is
//! [settled](Limits::settle): the place is free, and what was reserved by an estimate becomes what was taken.
//!
//! | limit | counts | never |
//! |---|---|---|
//! | concurrency | permits that are held | more at once than that. A holder that fell silent loses its place after [`Pace::hold`] |
//! | requests a minute | permits given in the last minute, whatever came of them | more in any minute |
//! | tokens a minute | what permits of the last minute reserved, or took once they are settled | more reserved in any minute; an estimate that was too low is passed by what it lacked |
//! | money a day | the same, by the UTC day in which they were given | more than the estimate of the last one |
//!
//! A single want that is greater than its whole limit is taken for the limit: it has its turn when nothing else was taken.
//!
//! [`MemoryLimits`] serves one process, [`RedisLimits`] many; [`testing`] is what both must pass.
//!
//! ## Why nobody stands in a queue
//!
//! Whoever finds no room comes back after a pause; the more are waiting, the longer it is, so that a crowd of any size asks
//! some two hundred times a second and the room is found soon all the same. Tenants share these two hundred alike: the pause
//! grows with those of one's own tenant who wait and with the number of tenants, so a tenant with one request waits for no
//! crowd of another's. A queue in here would have to know which of those who wait are still alive, and a thread that waits
//! holds neither a job nor a slot.
//!
//! But for one: tokens that leave the minute are kept for the request that has waited for some longest, of those that came
//! back. Else one that takes many would never find them where many others take few.

pub mod memory;
pub mod redis;
mod scripts;
pub mod testing;

use std::{fmt, time::Duration};

use async_trait::async_trait;
use uuid::Uuid;

use crate::{queue::QueueError, time};

pub use self::{memory::MemoryLimits, redis::RedisLimits};

/// The longest pause before somebody who found no room asks again: by then a limit may have been raised.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The pause after all places were taken: nobody knows when one is free.
const PLACE_PAUSE: Duration = Duration::from_millis(200);

/// What each of a tenant's requests that wait adds to the pause of its next, for every tenant that waits.
const CROWD_PAUSE: Duration = Duration::from_millis(5);

/// How long somebody who waits may be late before they are not counted any more.
const CROWD_GRACE: Duration = Duration::from_secs(10);

/// How long after its place is lost a permit can still be settled.
const SETTLE_GRACE: Duration = Duration::from_secs(600);

/// How many seconds a day has.
const DAY_SECONDS: i64 = 86_400;

/// Whose use is limited.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A model, as `provider/model`.
    Model(String),
    /// A provider: all of its models.
    Provider(String),
    /// An MCP server.
    Server(String),
}

impl Subject {
    /// Its name among the keys.
    fn key(&self) -> String {
        match self {
            Subject::Model(name) => format!("model:{name}"),
            Subject::Provider(name) => format!("provider:{name}"),
            Subject::Server(name) => format!("server:{name}"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Model(name) => write!(f, "model {name}"),
            Subject::Provider(name) => write!(f, "provider {name}"),
            Subject::Server(name) => write!(f, "MCP server {name}"),
        }
    }
}

/// How much of a subject may be taken; as much as is wanted, of what is not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cap {
    /// How many requests at once.
    pub concurrency: Option<u64>,
    /// How many requests in any minute.
    pub requests_per_minute: Option<u64>,
    /// How many tokens in any minute, read and written.
    pub tokens_per_minute: Option<u64>,
    /// How much money in a day of UTC, in millionths of a US dollar.
    pub micro_usd_per_day: Option<u64>,
}

/// What one request wants of one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// Of whom.
    pub of: Subject,
    /// For which tenant.
    pub tenant: String,
    /// How much of it there is for all.
    pub cap: Cap,
    /// How many tokens it will take, by an estimate.
    pub tokens: u64,
    /// How much money, in millionths of a US dollar, by an estimate.
    pub micro_usd: u64,
}

impl Want {
    /// A want, of which no part is greater than its whole limit.
    fn cut(&self) -> Self {
        let least = |it: u64, cap: Option<u64>| cap.map_or(it, |cap| it.min(cap));
        Self {
            tokens: least(self.tokens, self.cap.tokens_per_minute),
            micro_usd: least(self.micro_usd, self.cap.micro_usd_per_day),
            ..self.clone()
        }
    }
}

/// What a request holds while it is on its way. Whoever holds one renews it, and settles it in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    id: Uuid,
    wants: Vec<Want>,
}

/// What a request took in the end; where nobody told, the estimate stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Tokens read and written.
    pub tokens: Option<u64>,
    /// Money, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
}

impl Used {
    /// Nothing was taken: all that was reserved is given back.
    pub const NOTHING: Self = Self { tokens: Some(0), micro_usd: Some(0) };
}

/// What becomes of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// All of it is reserved.
    Granted(Permit),
    /// Nothing of it is.
    Wait {
        /// When to come back.
        after: Duration,
        /// What there is no room in, in words.
        why: String,
    },
}

/// How fast the books go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long a place is kept for a holder that does not renew it.
    pub hold: Duration,
    /// How long a minute is; a test has no time for a whole one.
    pub minute: Duration,
}

impl Pace {
    /// Places that are kept so long, and a minute of sixty seconds.
    pub fn holding(hold: Duration) -> Self {
        Self { hold, minute: Duration::from_secs(60) }
    }
}

/// The books of what is taken.
#[async_trait]
pub trait Limits: Send + Sync {
    /// Reserves all that a request wants, in one step, or nothing of it. `asker` names the request: the same each time it
    /// asks, and nobody else's.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; if something was reserved all the same, it is given back as soon as that can be.
    async fn reserve(&self, asker: &str, wants: &[Want]) -> Result<Reserved, QueueError>;

    /// Keeps the place of a permit for another [`Pace::hold`], unless it is lost already.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; try again before the place is lost.
    async fn renew(&self, permit: &Permit) -> Result<(), QueueError>;

    /// Gives the place back, and puts what was taken in the place of what was reserved. It may be repeated.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; the place comes back by itself, and what was reserved stands.
    async fn settle(&self, permit: &Permit, used: Used) -> Result<(), QueueError>;

    /// How fast these books go.
    fn pace(&self) -> Pace;
}

/// What there was no room in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measure {
    Concurrency,
    Requests,
    Tokens,
    Money,
}

impl Measure {
    /// Why somebody must wait, when it is `now`, in seconds since the Unix epoch.
    fn why(self, want: &Want, now: i64) -> String {
        let (of, cap) = (&want.of, &want.cap);
        let n = |it: Option<u64>| it.unwrap_or_default();
        match self {
            Measure::Concurrency => {
                format!("{of} is at work on {} requests, as many as it may be at once", n(cap.concurrency))
            }
            Measure::Requests => {
                format!(
                    "{of} was asked {} times in a minute, as often as it may be",
                    n(cap.requests_per_minute)
                )
            }
            Measure::Tokens => {
                format!(
                    "{of} has {} tokens for a minute, and too few of them are left",
                    n(cap.tokens_per_minute)
                )
            }
            Measure::Money => {
                let end = (now.div_euclid(DAY_SECONDS) + 1) * DAY_SECONDS;
                let end = time::rfc3339(end * 1_000_000);
                let (dollars, rest) =
                    (n(cap.micro_usd_per_day) / 1_000_000, n(cap.micro_usd_per_day) % 1_000_000);
                let usd = format!("{dollars}.{rest:06}");
                let usd = usd.trim_end_matches('0').trim_end_matches('.');
                format!("{of} has ${usd} for a day, and too little of it is left; the day ends at {end}")
            }
        }
    }
}

#[test]
fn whoever_waits_is_told_why() {
    let cap = Cap {
        concurrency: Some(2),
        requests_per_minute: Some(3),
        tokens_per_minute: Some(4),
        micro_usd_per_day: Some(40_500_000),
    };
    let want = Want {
        of: Subject::Provider("openai".to_owned()),
        tenant: String::new(),
        cap,
        tokens: 9,
        micro_usd: 9,
    };
    let told = [Measure::Concurrency, Measure::Requests, Measure::Tokens, Measure::Money]
        .map(|it| it.why(&want, 1_700_000_000));
    assert_eq!(
        told,
        [
            "provider openai is at work on 2 requests, as many as it may be at once",
            "provider openai was asked 3 times in a minute, as often as it may be",
            "provider openai has 4 tokens for a minute, and too few of them are left",
            "provider openai has $40.5 for a day, and too little of it is left; the day ends at \
             2023-11-15T00:00:00.000000Z",
        ]
    );
    assert_eq!((want.cut().tokens, want.cut().micro_usd), (4, 9));
}
