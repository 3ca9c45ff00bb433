//! Rate limits of many processes, in Redis.
//!
//! `NAME` is `model:provider/model`, `provider:name` or `server:name`.
//!
//! | key | contents and lifetime |
//! |---|---|
//! | sorted set `in_use:NAME` | Permits in use, by the time at which they lose their place, in milliseconds of Redis' clock. Lives as long as the last place. |
//! | sorted set `minute:NAME` | Permits granted in the last minute, by time of grant. Lives a minute after the last one. |
//! | hash `tokens:NAME` | Tokens that each of them reserved or used, and their `sum`. Same lifetime. |
//! | hash `day:NAME` | `day`, the number of a UTC day by Redis' clock, and `spent`, the millionths of a US dollar reserved or used on it. Lives two days. |
//! | sorted set `waiting:NAME:TENANT` | Waiting requests of a tenant, by the time at which each is expected to ask again. Lives slightly longer than the last one. |
//! | hash `since:NAME:TENANT` | Time at which each of them began to wait, in milliseconds. Same lifetime. |
//! | sorted set `tenants:NAME` | Tenants with waiting requests, by the time at which the last is expected to ask again. Same lifetime. |
//! | hash `first:NAME` | The request for which freed tokens are kept: `requester`, its `tokens`, `since` when it waits, and its `next_try`. Lives slightly longer than that. |
//! | string `permit:ID` | Day on which a permit was granted. Lives as long as the permit can be settled. Empty if its request is gone. |
//!
//! Every key begins with [`PREFIX`]. The version lets two generations of workers share a Redis; the hash tag `{limits}` keeps the
//! keys on one node of a cluster, as scripts require. Every key expires. Usage without a limit is not counted.
//!
//! Nothing here is a source of truth. After `FLUSHALL`, or when Redis restarts empty, **all counts restart at zero**: the usage of the
//! minute and the day is forgotten, and so are the places of running requests. To keep the count of the day's money, give Redis
//! an append-only file.

use std::{sync::LazyLock, time::Duration};

use async_trait::async_trait;
use redis::{RedisError, Script, ScriptInvocation};
use tracing::debug;
use uuid::Uuid;

use super::{
    limiter::{
        ActualUsage, CONCURRENCY_PAUSE, CROWD_GRACE, CROWD_PAUSE, Demand, MAX_PAUSE, Measure, Permit,
        RateLimiter, Reservation, SETTLE_GRACE, Timing,
    },
    scripts,
};
use crate::{
    error::QueueError,
    redis::{connection::Connection, entry::millis, server::RedisServer},
};

/// Prefix of every key.
pub const PREFIX: &str = "turnfold:{limits}:v1:";

/// Rate limits of many processes.
pub struct RedisRateLimiter {
    server: RedisServer,
    connection: Connection,
    timing: Timing,
}

impl RedisRateLimiter {
    /// Connects to Redis.
    ///
    /// # Errors
    ///
    /// [`QueueError::Address`], [`QueueError::TooOld`], [`QueueError::Unavailable`] or [`QueueError::Refused`].
    pub async fn connect(url: &str, timing: Timing) -> Result<Self, QueueError> {
        let server = RedisServer::parse(url)?;
        let connection = server.connect().await?;
        Ok(Self { server, connection, timing })
    }

    fn error(&self, action: &str) -> impl Fn(RedisError) -> QueueError {
        move |error| self.server.error(action, &error)
    }
}

#[async_trait]
impl RateLimiter for RedisRateLimiter {
    async fn reserve(&self, requester: &str, demands: &[Demand]) -> Result<Reservation, QueueError> {
        let permit = Permit { id: Uuid::now_v7(), demands: demands.iter().map(Demand::capped).collect() };
        let mut script = prepare(&scripts::RESERVE, &permit);
        script.arg(requester);
        let Timing { permit_ttl, minute } = self.timing;
        let pauses = [CONCURRENCY_PAUSE, CROWD_PAUSE, MAX_PAUSE, CROWD_GRACE];
        for time in [permit_ttl, minute, SETTLE_GRACE].into_iter().chain(pauses) {
            script.arg(millis(time));
        }
        for Demand { subject: _, tenant: _, limit, tokens, micro_usd } in &permit.demands {
            for limit in [
                limit.concurrency,
                limit.requests_per_minute,
                limit.tokens_per_minute,
                limit.micro_usd_per_day,
            ] {
                script.arg(encode_option(limit));
            }
            script.arg(encode(*tokens)).arg(encode(*micro_usd));
        }
        let answer: Result<(usize, u8, u64, i64), RedisError> = self.connection.run_script(&script).await;
        let (number, measure, ms, now) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let error = self.error("reserve a permit")(error);
                tokio::spawn(abandon(self.connection.clone(), permit));
                return Err(error);
            }
        };
        let Some(demand) = number.checked_sub(1).and_then(|it| permit.demands.get(it)) else {
            return Ok(Reservation::Granted(permit));
        };
        let measure = match measure {
            1 => Measure::Concurrency,
            2 => Measure::Requests,
            3 => Measure::Tokens,
            _ => Measure::Money,
        };
        Ok(Reservation::Wait { after: Duration::from_millis(ms), reason: measure.explain(demand, now) })
    }

    async fn renew(&self, permit: &Permit) -> Result<(), QueueError> {
        let mut script = prepare(&scripts::RENEW, permit);
        script.arg(millis(self.timing.permit_ttl)).arg(millis(SETTLE_GRACE));
        self.connection.run_script(&script).await.map_err(self.error("renew a permit"))
    }

    async fn settle(&self, permit: &Permit, usage: ActualUsage) -> Result<(), QueueError> {
        let mut script = prepare(&scripts::SETTLE, permit);
        script.arg(settle_arguments(permit, usage, Duration::ZERO));
        self.connection.run_script(&script).await.map_err(self.error("settle a permit"))
    }

    fn timing(&self) -> Timing {
        self.timing
    }
}

/// The key of a permit, followed by the keys of each of its demands.
fn keys(permit: &Permit) -> Vec<String> {
    let of_demand = |demand: &Demand| -> [String; scripts::KEYS_PER_DEMAND] {
        let (name, tenant) = (demand.subject.key(), &demand.tenant);
        let of_subject = |key: &str| format!("{PREFIX}{key}:{name}");
        let of_tenant = |key: &str| format!("{PREFIX}{key}:{name}:{tenant}");
        let [in_use, minute, tokens, day] = ["in_use", "minute", "tokens", "day"].map(of_subject);
        let ([waiting, since], [tenants, first]) =
            (["waiting", "since"].map(of_tenant), ["tenants", "first"].map(of_subject));
        [in_use, minute, tokens, day, waiting, since, tenants, first]
    };
    let permit_key = format!("{PREFIX}permit:{}", permit.id);
    std::iter::once(permit_key).chain(permit.demands.iter().flat_map(of_demand)).collect()
}

/// Prepares a script with the keys of a permit, and its id as the first argument.
fn prepare<'a>(script: &'a LazyLock<Script>, permit: &Permit) -> ScriptInvocation<'a> {
    let mut script = script.prepare_invoke();
    script.key(keys(permit)).arg(permit.id.to_string());
    script
}

/// The arguments of [`scripts::SETTLE`] after the permit's id. `block_for` is how long the permit cannot be granted later.
fn settle_arguments(permit: &Permit, usage: ActualUsage, block_for: Duration) -> Vec<i64> {
    let is_limited = |it: &Demand| it.limit.micro_usd_per_day.map(|_| it.micro_usd);
    let reserved = permit.demands.iter().map(|it| encode_option(is_limited(it)));
    let usage = [encode_option(usage.tokens), encode_option(usage.micro_usd), encode(millis(block_for))];
    usage.into_iter().chain(reserved).collect()
}

/// Returns what a reservation took, or may still take, whose answer was lost.
///
/// ## Why the whole script is sent
///
/// A stalled Redis runs queued commands after their answers are no longer awaited, so this must not need an answer first, as a
/// script by hash would. Over another connection it may run before the reservation, which then finds the permit's key taken.
async fn abandon(connection: Connection, permit: Permit) {
    let keys = keys(&permit);
    let mut script = redis::cmd("EVAL");
    script.arg(scripts::SETTLE_SOURCE).arg(keys.len()).arg(keys).arg(permit.id.to_string());
    script.arg(settle_arguments(&permit, ActualUsage::NONE, SETTLE_GRACE));
    if let Err(error) = connection.query::<()>(&script).await {
        debug!(%error, "cannot return an abandoned permit; it expires");
    }
}

/// Encodes a limit for the scripts; -1 for none.
fn encode_option(number: Option<u64>) -> i64 {
    number.map_or(-1, encode)
}

/// Encodes a number, capped to the range in which Lua's numbers are exact.
fn encode(number: u64) -> i64 {
    i64::try_from(number.min(1 << 52)).unwrap_or(i64::MAX)
}
