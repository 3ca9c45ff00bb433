//! Limits, demands and permits, and the trait that grants them.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use shared::{BlockReason, BlockedBy};
use uuid::Uuid;

use super::availability::{Refusal, Standing};
use crate::{clock, error::QueueError};

/// Longest pause before a rejected request asks again. An operator may have raised the limit by then.
pub const MAX_PAUSE: Duration = Duration::from_secs(60);

/// Pause after the concurrency limit was reached, when it is unknown how long requests run.
pub(super) const CONCURRENCY_PAUSE: Duration = Duration::from_millis(200);

/// Pause that each waiting request of a tenant adds for its next one, times the number of waiting tenants.
pub(super) const CROWD_PAUSE: Duration = Duration::from_millis(5);

/// Time by which a waiting request may be late before it is no longer counted.
pub(super) const CROWD_GRACE: Duration = Duration::from_secs(10);

/// Time after the loss of its place during which a permit can still be settled.
pub(super) const SETTLE_GRACE: Duration = Duration::from_secs(600);

/// Time after which the place of a turn that no worker runs and no job waits for is lost. A turn that waits without a slot
/// asks again within [`MAX_PAUSE`] and a quarter, and its next job may wait in the queue.
pub(super) const TURN_TTL: Duration = Duration::from_secs(300);

pub(super) const DAY_SECONDS: i64 = 86_400;

/// Something whose use is limited.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A model, as `provider/model`.
    Model(String),
    /// A provider, with all of its models.
    Provider(String),
    /// An MCP server.
    Server(String),
    /// The writes of an MCP server, of which one is made at a time.
    Writes(String),
    /// The requests of a tenant to models and MCP servers.
    Tenant(String),
    /// The running turns of a tenant.
    Turns(String),
}

impl Subject {
    /// Returns true if a job with this reason waits until the subject takes requests again.
    pub fn is_waited_for(&self, reason: &BlockReason) -> bool {
        reason.by == BlockedBy::Provider && reason.detail.starts_with(&format!("{self} "))
    }

    /// The name in Redis keys.
    pub(super) fn key(&self) -> String {
        match self {
            Subject::Model(name) => format!("model:{name}"),
            Subject::Provider(name) => format!("provider:{name}"),
            Subject::Server(name) => format!("server:{name}"),
            Subject::Writes(name) => format!("writes:{name}"),
            Subject::Tenant(name) => format!("tenant:{name}"),
            Subject::Turns(name) => format!("turns:{name}"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Model(name) => write!(f, "model {name}"),
            Subject::Provider(name) => write!(f, "provider {name}"),
            Subject::Server(name) | Subject::Writes(name) => write!(f, "MCP server {name}"),
            Subject::Tenant(name) | Subject::Turns(name) => write!(f, "tenant {name}"),
        }
    }
}

/// Limits of one subject. A limit that is not set is infinite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimit {
    /// Most concurrent requests.
    pub concurrency: Option<u64>,
    /// Most requests in any minute.
    pub requests_per_minute: Option<u64>,
    /// Most tokens in any minute, input and output.
    pub tokens_per_minute: Option<u64>,
    /// Most money per UTC day, in millionths of a US dollar.
    pub micro_usd_per_day: Option<u64>,
}

/// Part of a subject's money per day that only one tenant, or one group of tenants, may use. What a tenant needs beyond its part comes
/// from the rest of the limit, which belongs to no tenant. So whatever a tenant spends, the parts of the others remain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoneyPart {
    /// Owner of the part. Tenants with the same owner share it.
    pub owner: String,
    /// Size of the part, in millionths of a US dollar.
    pub own: u64,
    /// Sum of the parts of all owners, at most the limit.
    pub all: u64,
}

/// A request's demand on one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Subject that the request uses.
    pub subject: Subject,
    /// Tenant of the request.
    pub tenant: String,
    /// Limits of the subject, for all requests together.
    pub limit: RateLimit,
    /// Estimated tokens, input and output.
    pub tokens: u64,
    /// Estimated cost, in millionths of a US dollar.
    pub micro_usd: u64,
    /// The tenant's part of the money per day. `None`: the money is not divided.
    pub part: Option<MoneyPart>,
}

impl Demand {
    /// Creates the demand of a request on a subject without limits, which counts only while the subject
    /// [refuses requests](RateLimiter::is_refusing).
    pub fn unlimited(subject: Subject, tenant: &str) -> Self {
        Self::of(subject, tenant, RateLimit::default())
    }

    /// Creates a demand without estimates.
    pub fn of(subject: Subject, tenant: &str, limit: RateLimit) -> Self {
        Self { subject, tenant: tenant.to_owned(), limit, tokens: 0, micro_usd: 0, part: None }
    }

    /// Creates the demand of a write on a server that makes one write at a time.
    pub fn turn_of_writes(server: &str, tenant: &str) -> Self {
        let limit = RateLimit { concurrency: Some(1), ..RateLimit::default() };
        Self::of(Subject::Writes(server.to_owned()), tenant, limit)
    }

    /// Returns true if the demand is on the turn of a write.
    pub fn is_turn_of_writes(&self) -> bool {
        matches!(self.subject, Subject::Writes(_))
    }

    /// The money per day that is not divided into parts.
    pub(super) fn common_micro_usd(&self) -> Option<u64> {
        let parts = self.part.as_ref().map_or(0, |part| part.all);
        self.limit.micro_usd_per_day.map(|limit| limit.saturating_sub(parts))
    }

    /// Of an amount that the part's owner spends after `spent`, returns what its part does not cover.
    pub(super) fn beyond_part(&self, spent: u64, amount: u64) -> u64 {
        let own = self.part.as_ref().map_or(0, |part| part.own);
        spent.saturating_add(amount).saturating_sub(own) - spent.saturating_sub(own)
    }

    /// Returns the demand with estimates no larger than the limits.
    pub(super) fn capped(&self) -> Self {
        let at_most = |estimate: u64, limit: Option<u64>| limit.map_or(estimate, |limit| estimate.min(limit));
        let own = self.part.as_ref().map_or(0, |part| part.own);
        Self {
            tokens: at_most(self.tokens, self.limit.tokens_per_minute),
            micro_usd: at_most(
                self.micro_usd,
                self.common_micro_usd().map(|common| common.saturating_add(own)),
            ),
            ..self.clone()
        }
    }
}

/// The right to make one request, or to run one turn. Its holder renews it while the request runs and settles it at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    pub(super) id: Uuid,
    pub(super) demands: Vec<Demand>,
    /// Time after which the permit loses its place unless it is renewed.
    pub(super) ttl: Duration,
}

impl Permit {
    /// Creates the permit of a turn that a thread runs. It is the thread's, so any process can renew and settle it.
    pub fn of_turn(thread: Uuid, tenant: &str, max_running_turns: u64) -> Self {
        let limit = RateLimit { concurrency: Some(max_running_turns), ..RateLimit::default() };
        let demand = Demand::of(Subject::Turns(tenant.to_owned()), tenant, limit);
        Self { id: thread, demands: vec![demand], ttl: TURN_TTL }
    }

    pub(super) fn is_of_turn(&self) -> bool {
        matches!(self.demands[..], [Demand { subject: Subject::Turns(_), .. }])
    }
}

/// Actual usage of a request. Where a value is unknown, the estimate still counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActualUsage {
    /// Tokens used, input and output.
    pub tokens: Option<u64>,
    /// Cost, in millionths of a US dollar.
    pub micro_usd: Option<u64>,
}

impl ActualUsage {
    /// No usage: everything that was reserved is returned.
    pub const NONE: Self = Self { tokens: Some(0), micro_usd: Some(0) };
}

/// Answer to a request's demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// Everything is reserved.
    Granted(Permit),
    /// Nothing is reserved.
    Wait {
        /// Delay before the request should ask again, at most [`MAX_PAUSE`].
        after: Duration,
        /// The limit that was reached, as display text.
        reason: String,
    },
    /// A subject refuses requests. Nothing is reserved.
    Unavailable(Standing),
}

/// Durations that a rate limiter works with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time after which a permit that is not renewed loses its place.
    pub permit_ttl: Duration,
    /// Length of a minute; tests use a shorter one.
    pub minute: Duration,
}

impl Timing {
    /// Creates a timing with this permit lifetime and a minute of 60 seconds.
    pub fn with_permit_ttl(permit_ttl: Duration) -> Self {
        Self { permit_ttl, minute: Duration::from_secs(60) }
    }
}

/// Grants permits within the limits.
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Reserves all demands of a request, or none of them. `requester` identifies the request: it must be unique, and the same
    /// each time that the request asks.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; a reservation that was made nevertheless is returned as soon as possible.
    async fn reserve(&self, requester: &str, demands: &[Demand]) -> Result<Reservation, QueueError> {
        let demands = demands.iter().map(Demand::capped).collect();
        self.take(requester, Permit { id: Uuid::now_v7(), demands, ttl: self.timing().permit_ttl }).await
    }

    /// Reserves all demands of this permit, or none of them. A permit that is held already is granted again.
    ///
    /// # Errors
    ///
    /// As [`Self::reserve`].
    async fn take(&self, requester: &str, permit: Permit) -> Result<Reservation, QueueError>;

    /// Keeps a permit's place for another lifetime of the permit, unless the place is already lost.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; try again before the place is lost.
    async fn renew(&self, permit: &Permit) -> Result<(), QueueError>;

    /// Frees a permit's place and replaces its reservation by the actual usage. Can be repeated.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; the place becomes free after [`Timing::permit_ttl`], and the reservation still counts.
    async fn settle(&self, permit: &Permit, usage: ActualUsage) -> Result<(), QueueError>;

    /// Records that a subject did not take a request. From now on its requests are paused and paced for all workers, and every
    /// request needs a permit. Logs one warning per pause.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; the refusal may not be recorded.
    async fn refused(&self, refusal: &Refusal) -> Result<Standing, QueueError>;

    /// Records, in the background, that a subject answered a request sent this long ago. Without a recent refusal it costs a
    /// count in memory.
    fn answered(&self, subject: &Subject, sent_ago: Duration);

    /// Returns whether the subject refused a request lately, as far as this process knows. If so, a request needs a permit even
    /// without a limit.
    fn is_refusing(&self, subject: &Subject) -> bool;

    /// Forgets the refusals of a subject, its pause and its rate. Its next request is sent at once, and nothing is counted that
    /// was answered before.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; the refusals may not be forgotten.
    async fn forget(&self, subject: &Subject) -> Result<(), QueueError>;

    /// Learns which subjects refuse requests of other processes. Called every second.
    ///
    /// # Errors
    ///
    /// [`QueueError`]; what was known remains.
    async fn refresh(&self) -> Result<(), QueueError> {
        Ok(())
    }

    /// Returns the durations that this limiter works with.
    fn timing(&self) -> Timing;
}

/// The limits of a subject, one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Concurrency,
    Requests,
    Tokens,
    Money,
}

impl Measure {
    /// Explains that this limit was reached. `now` is in seconds since the Unix epoch.
    pub(super) fn explain(self, demand: &Demand, now: i64) -> String {
        let (subject, limit) = (&demand.subject, &demand.limit);
        let n = |limit: Option<u64>| limit.unwrap_or_default();
        let usd = |micros: u64| {
            let usd = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
            usd.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        match self {
            Measure::Concurrency if demand.is_turn_of_writes() => {
                format!("{subject} makes one write at a time")
            }
            Measure::Concurrency => {
                let what = if matches!(subject, Subject::Turns(_)) {
                    "running turns"
                } else {
                    "concurrent requests"
                };
                format!("{subject} is at its limit of {} {what}", n(limit.concurrency))
            }
            Measure::Requests => {
                format!("{subject} is at its limit of {} requests per minute", n(limit.requests_per_minute))
            }
            Measure::Tokens => {
                format!("{subject} is near its limit of {} tokens per minute", n(limit.tokens_per_minute))
            }
            Measure::Money => {
                let end = (now.div_euclid(DAY_SECONDS) + 1) * DAY_SECONDS;
                let end = clock::rfc3339(end * 1_000_000);
                let limit = usd(n(limit.micro_usd_per_day));
                let kept = demand.part.as_ref().map_or(0, |part| part.all.saturating_sub(part.own));
                match kept {
                    0 => format!("{subject} is near its limit of ${limit} per day, which is reset at {end}"),
                    kept => format!(
                        "{subject} is near its limit of ${limit} per day, of which ${} is kept for other tenants; it is reset at {end}",
                        usd(kept)
                    ),
                }
            }
        }
    }
}

#[test]
fn a_rejected_request_learns_which_limit_was_reached() {
    let limit = RateLimit {
        concurrency: Some(2),
        requests_per_minute: Some(3),
        tokens_per_minute: Some(4),
        micro_usd_per_day: Some(40_500_000),
    };
    let subject = Subject::Provider("openai".to_owned());
    let demand = Demand { tokens: 9, micro_usd: 9, ..Demand::of(subject, "", limit) };
    let explain = |demand: &Demand, measure: Measure| measure.explain(demand, 1_700_000_000);
    let explained = [Measure::Concurrency, Measure::Requests, Measure::Tokens, Measure::Money]
        .map(|measure| explain(&demand, measure));
    assert_eq!(
        explained,
        [
            "provider openai is at its limit of 2 concurrent requests",
            "provider openai is at its limit of 3 requests per minute",
            "provider openai is near its limit of 4 tokens per minute",
            "provider openai is near its limit of $40.5 per day, which is reset at 2023-11-15T00:00:00.000000Z",
        ]
    );
    let write = Demand::turn_of_writes("files", "acme");
    assert_eq!(explain(&write, Measure::Concurrency), "MCP server files makes one write at a time");
    assert_eq!((demand.capped().tokens, demand.capped().micro_usd), (4, 9));
    let part = Some(MoneyPart { owner: "acme".to_owned(), own: 5_000_000, all: 20_250_000 });
    assert_eq!(
        explain(&Demand { part, ..demand }, Measure::Money),
        "provider openai is near its limit of $40.5 per day, of which $15.25 is kept for other tenants; it is reset at \
         2023-11-15T00:00:00.000000Z"
    );
    let turns = Demand::of(Subject::Turns("acme".to_owned()), "acme", limit);
    assert_eq!(explain(&turns, Measure::Concurrency), "tenant acme is at its limit of 2 running turns");
}
