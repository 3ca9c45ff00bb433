//! Rate limits of many processes, in Redis.
//!
//! `NAME` is `model:provider/model`, `provider:name`, `server:name`, `writes:name`, `tenant:name` or `turns:tenant`.
//!
//! | key | contents and lifetime |
//! |---|---|
//! | sorted set `in_use:NAME` | Permits in use, by the time at which they lose their place, in milliseconds of Redis' clock. Lives as long as the last place. |
//! | sorted set `minute:NAME` | Permits granted in the last minute, by time of grant. Lives a minute after the last one. |
//! | hash `tokens:NAME` | Tokens that each of them reserved or used, and their `sum`. Same lifetime. |
//! | hash `day:NAME` | `day`, the number of a UTC day by Redis' clock, and `spent`, the millionths of a US dollar reserved or used on it that no tenant's part covered. Lives two days. |
//! | hash `part:NAME:OWNER` | The same for what the owner of a part has reserved or used in all. |
//! | sorted set `waiting:NAME:TENANT` | Waiting requests of a tenant, by the time at which each is expected to ask again. Lives slightly longer than the last one. |
//! | hash `since:NAME:TENANT` | Time at which each of them began to wait, in milliseconds. Same lifetime. |
//! | sorted set `tenants:NAME` | Tenants with waiting requests, by the time at which the last is expected to ask again. Same lifetime. |
//! | hash `first:NAME` | The request for which freed tokens are kept: `requester`, its `tokens`, `since` when it waits, and its `next_try`. Lives slightly longer than that. |
//! | hash `refusing:NAME` | Availability of a subject that refused a request lately. Lives until it is forgotten. |
//! | sorted set `refusing` | Names of these subjects, by the time at which each is forgotten. Lives as long as the last one. |
//! | string `permit:ID` | Day on which a permit was granted. Lives as long as the permit can be settled. Empty if its request is gone. |
//!
//! Every key begins with `turnfold:{PREFIX:limits}:v1:`. The [`Prefix`] keeps deployments apart, and the version generations of
//! workers; the hash tag keeps the
//! keys on one node of a cluster, as scripts require. Every key expires. Usage without a limit is not counted.
//!
//! Nothing here is a source of truth. After `FLUSHALL`, or when Redis restarts empty, **all counts restart at zero**: the usage of the
//! minute and the day is forgotten, and so are the places of running requests. To keep the count of the day's money, give Redis
//! an append-only file.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use redis::{RedisError, Script, ScriptInvocation};
use shared::{BlockReason, BlockedBy};
use tracing::debug;

use super::{
    answers::RecentAnswers,
    availability::{Refusal, Standing, log_recovery},
    availability_scripts,
    limiter::{
        ActualUsage, CONCURRENCY_PAUSE, CROWD_GRACE, CROWD_PAUSE, Demand, MAX_PAUSE, Measure, Permit,
        RateLimiter, Reservation, SETTLE_GRACE, Subject, Timing,
    },
    scripts,
};
use crate::{
    error::QueueError,
    redis::{Prefix, connection::Connection, entry::millis, server::RedisServer},
};

/// Hash tag of every key, after the prefix of the deployment.
const TAG: &str = "limits";

/// Rate limits of many processes.
pub struct RedisRateLimiter {
    prefix: Prefix,
    server: RedisServer,
    connection: Connection,
    timing: Timing,
    answers: RecentAnswers,
    /// Keys of the subjects that refused a request lately, as last read.
    refusing: Arc<Mutex<BTreeSet<String>>>,
}

impl RedisRateLimiter {
    /// Connects to Redis.
    ///
    /// # Errors
    ///
    /// [`QueueError::Address`], [`QueueError::TooOld`], [`QueueError::Unavailable`] or [`QueueError::Refused`].
    pub async fn connect(prefix: &Prefix, url: &str, timing: Timing) -> Result<Self, QueueError> {
        let server = RedisServer::parse(url)?;
        let connection = server.connect().await?;
        Ok(Self {
            prefix: prefix.clone(),
            server,
            connection,
            timing,
            answers: RecentAnswers::new(),
            refusing: Arc::default(),
        })
    }

    /// Prepares a script with the keys of a permit, and its id as the first argument.
    fn prepare<'a>(&self, script: &'a LazyLock<Script>, permit: &Permit) -> ScriptInvocation<'a> {
        let mut script = script.prepare_invoke();
        script.key(keys(&self.prefix, permit)).arg(permit.id.to_string());
        script
    }

    fn known_refusing(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.refusing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, action: &str) -> impl Fn(RedisError) -> QueueError {
        move |error| self.server.error(action, &error)
    }
}

#[async_trait]
impl RateLimiter for RedisRateLimiter {
    async fn take(&self, requester: &str, permit: Permit) -> Result<Reservation, QueueError> {
        let mut script = self.prepare(&scripts::RESERVE, &permit);
        script.arg(requester);
        let (permit_ttl, minute) = (permit.ttl, self.timing.minute);
        let pauses = [CONCURRENCY_PAUSE, CROWD_PAUSE, MAX_PAUSE, CROWD_GRACE];
        for time in [permit_ttl, minute, SETTLE_GRACE].into_iter().chain(pauses) {
            script.arg(millis(time));
        }
        for demand in &permit.demands {
            let limit = &demand.limit;
            for limit in [
                limit.concurrency,
                limit.requests_per_minute,
                limit.tokens_per_minute,
                demand.common_micro_usd(),
                own_part(demand),
            ] {
                script.arg(encode_option(limit));
            }
            script.arg(encode(demand.tokens)).arg(encode(demand.micro_usd));
        }
        let answer: Result<ReserveAnswer, RedisError> = self.connection.run_script(&script).await;
        let (number, measure, ms, now, since, error) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let error = self.error("reserve a permit")(error);
                // The permit of a turn is asked for again by the same id, which is granted if it was reserved.
                if !permit.is_of_turn() {
                    tokio::spawn(abandon(self.connection.clone(), keys(&self.prefix, &permit), permit));
                }
                return Err(error);
            }
        };
        let Some(demand) = number.checked_sub(1).and_then(|index| permit.demands.get(index)) else {
            return Ok(Reservation::Granted(permit));
        };
        let measure = match measure {
            1 => Measure::Concurrency,
            2 => Measure::Requests,
            3 => Measure::Tokens,
            4 => Measure::Money,
            _ => {
                let last = BlockReason::parse(&error).unwrap_or_else(|| BlockedBy::Provider.because(error));
                let since = (0 <= since).then_some(since);
                let out_for = since.map(|at| (now * 1_000).saturating_sub(at));
                return Ok(Reservation::Unavailable(Standing {
                    after: Duration::from_millis(ms),
                    out_for: out_for.map(|ms| Duration::from_millis(ms.try_into().unwrap_or(0))),
                    reason: Standing::explain(&demand.subject, since.map(|ms| ms / 1_000), &last),
                    answers_others: false,
                }));
            }
        };
        Ok(Reservation::Wait { after: Duration::from_millis(ms), reason: measure.explain(demand, now) })
    }

    async fn renew(&self, permit: &Permit) -> Result<(), QueueError> {
        let mut script = self.prepare(&scripts::RENEW, permit);
        script.arg(millis(permit.ttl)).arg(millis(SETTLE_GRACE));
        self.connection.run_script(&script).await.map_err(self.error("renew a permit"))
    }

    async fn settle(&self, permit: &Permit, usage: ActualUsage) -> Result<(), QueueError> {
        let mut script = self.prepare(&scripts::SETTLE, permit);
        script.arg(settle_arguments(permit, usage, Duration::ZERO));
        self.connection.run_script(&script).await.map_err(self.error("settle a permit"))
    }

    async fn refused(&self, refusal: &Refusal) -> Result<Standing, QueueError> {
        let (subject, name) = (&refusal.subject, refusal.subject.key());
        let mut script = availability_scripts::REFUSED.prepare_invoke();
        script.key(&refusing_keys(&self.prefix, &name)).arg(&name).arg(millis(refusal.sent_ago));
        script.arg(refusal.retry_after.map_or(-1, |retry_after| encode(millis(retry_after))));
        script.arg(millis(refusal.first_pause)).arg(millis(refusal.max_pause));
        script.arg(self.answers.rate(subject)).arg(refusal.short_reason().to_string());
        let answer: Result<(u32, u64, i64, i64, u8), RedisError> = self.connection.run_script(&script).await;
        let (counted, ms, out_for, since, answers_others) =
            answer.map_err(self.error("record a refused request"))?;
        self.known_refusing().insert(name);
        let since = (0 <= out_for).then_some(since);
        let standing = Standing {
            after: Duration::from_millis(ms),
            out_for: u64::try_from(out_for).ok().map(Duration::from_millis),
            reason: Standing::explain(subject, since, &refusal.short_reason()),
            answers_others: answers_others == 1,
        };
        if 0 < counted {
            standing.log_pause(subject, counted);
        }
        Ok(standing)
    }

    fn answered(&self, subject: &Subject, sent_ago: Duration) {
        self.answers.add(subject);
        let (connection, subject, name) = (self.connection.clone(), subject.clone(), subject.key());
        if !self.known_refusing().contains(&name) {
            return;
        }
        let keys = refusing_keys(&self.prefix, &name);
        tokio::spawn(async move {
            let mut script = availability_scripts::ANSWERED.prepare_invoke();
            script.key(&keys).arg(millis(sent_ago));
            match connection.run_script::<i64>(&script).await {
                Ok(out_for) => {
                    if let Ok(ms) = u64::try_from(out_for) {
                        log_recovery(&subject, Duration::from_millis(ms));
                    }
                }
                Err(error) => debug!(%error, "cannot record an answer; the next one will be"),
            }
        });
    }

    async fn forget(&self, subject: &Subject) -> Result<(), QueueError> {
        let name = subject.key();
        let mut script = availability_scripts::FORGET.prepare_invoke();
        script.key(&refusing_keys(&self.prefix, &name)).arg(&name);
        let forgotten: Result<(), RedisError> = self.connection.run_script(&script).await;
        forgotten.map_err(self.error("forget who refuses requests"))?;
        self.known_refusing().remove(&name);
        self.answers.forget(subject);
        Ok(())
    }

    fn is_refusing(&self, subject: &Subject) -> bool {
        let known = self.known_refusing();
        !known.is_empty() && known.contains(&subject.key())
    }

    async fn refresh(&self) -> Result<(), QueueError> {
        let mut script = availability_scripts::REFUSING.prepare_invoke();
        script.key(self.prefix.key(TAG, "refusing"));
        let names: Result<BTreeSet<String>, RedisError> = self.connection.run_script(&script).await;
        *self.known_refusing() = names.map_err(self.error("read who refuses requests"))?;
        Ok(())
    }

    fn timing(&self) -> Timing {
        self.timing
    }
}

/// Answer of [`scripts::RESERVE`].
type ReserveAnswer = (usize, u8, u64, i64, i64, String);

/// The keys of the scripts of the availability.
fn refusing_keys(prefix: &Prefix, name: &str) -> [String; 2] {
    [prefix.key(TAG, &format!("refusing:{name}")), prefix.key(TAG, "refusing")]
}

/// The key of a permit, followed by the keys of each of its demands.
fn keys(prefix: &Prefix, permit: &Permit) -> Vec<String> {
    let prefix = prefix.key(TAG, "");
    let of_demand = |demand: &Demand| -> [String; scripts::KEYS_PER_DEMAND] {
        let (name, tenant) = (demand.subject.key(), &demand.tenant);
        let of_subject = |key: &str| format!("{prefix}{key}:{name}");
        let of_tenant = |key: &str| format!("{prefix}{key}:{name}:{tenant}");
        let [in_use, minute, tokens, day] = ["in_use", "minute", "tokens", "day"].map(of_subject);
        let ([waiting, since], [tenants, first]) =
            (["waiting", "since"].map(of_tenant), ["tenants", "first"].map(of_subject));
        let owner = demand.part.as_ref().map_or("", |part| part.owner.as_str());
        let part = format!("{prefix}part:{name}:{owner}");
        [in_use, minute, tokens, day, part, waiting, since, tenants, first, of_subject("refusing")]
    };
    let permit_key = format!("{prefix}permit:{}", permit.id);
    std::iter::once(permit_key).chain(permit.demands.iter().flat_map(of_demand)).collect()
}

/// The size of the part of the demand's tenant, if the money per day is divided.
fn own_part(demand: &Demand) -> Option<u64> {
    demand.part.as_ref().map(|part| part.own)
}

/// The arguments of [`scripts::SETTLE`] after the permit's id. `block_for` is how long the permit cannot be granted later.
fn settle_arguments(permit: &Permit, usage: ActualUsage, block_for: Duration) -> Vec<i64> {
    let is_limited = |demand: &Demand| demand.limit.micro_usd_per_day.map(|_| demand.micro_usd);
    let of_demand = |demand: &Demand| [encode_option(is_limited(demand)), encode_option(own_part(demand))];
    let reserved = permit.demands.iter().flat_map(of_demand);
    let usage = [encode_option(usage.tokens), encode_option(usage.micro_usd), encode(millis(block_for))];
    usage.into_iter().chain(reserved).collect()
}

/// Returns what a reservation took, or may still take, whose answer was lost.
///
/// ## Why the whole script is sent
///
/// A stalled Redis runs queued commands after their answers are no longer awaited, so this must not need an answer first, as a
/// script by hash would. Over another connection it may run before the reservation, which then finds the permit's key taken.
async fn abandon(connection: Connection, keys: Vec<String>, permit: Permit) {
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
