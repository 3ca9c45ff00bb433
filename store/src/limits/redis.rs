//! The limits of many processes, in Redis.
//!
//! `NAME` is `model:provider/model`, `provider:name` or `server:name`.
//!
//! | structure | what it is, and how long it lasts |
//! |---|---|
//! | sorted set `held:NAME` | The permits that hold a place, by the time they lose it unless it is renewed, in milliseconds of Redis' clock. Lasts as long as its longest place. |
//! | sorted set `minute:NAME` | The permits given in the last minute, by the time they were given. Lasts a minute after the last. |
//! | hash `tokens:NAME` | How many tokens each of them reserved or took, and `sum`, of all. Lasts as long. |
//! | hash `day:NAME` | `day`, the number of a UTC day by Redis' clock, and `spent`, the millionths of a US dollar reserved or taken on it. Lasts two days. |
//! | sorted set `crowd:NAME:TENANT` | Who of a tenant found no room, by the time they are expected back. Lasts a little longer than the last of them. |
//! | hash `since:NAME:TENANT` | When each of them first found none, in milliseconds. Lasts as long. |
//! | sorted set `crowds:NAME` | The tenants who have such a crowd, by the time the last of it is expected back. Lasts as long. |
//! | hash `first:NAME` | For whom tokens are kept: `asker`, `takes`, how many, `since` when they wait, and `back`, when they are expected. Lasts until shortly after that. |
//! | string `permit:ID` | The day on which a permit was given, as long as it can be settled; empty, if whoever asked for it is gone. |
//!
//! All begin with [`PREFIX`]: it carries a version, and the tag `{limits}`, so that they stay together in a Redis Cluster,
//! as scripts need it. Every key expires by itself. Only what has a limit is counted.
//!
//! Nothing here is truth. After `FLUSHALL`, or when Redis comes back empty, **the limits begin anew**: what was taken of the
//! minute and of the day is forgotten, and so are the places of requests that are on their way. Whoever must not lose the
//! count of the day's money gives Redis an append-only file.

use std::{sync::LazyLock, time::Duration};

use async_trait::async_trait;
use redis::{RedisError, Script, ScriptInvocation};
use tracing::debug;
use uuid::Uuid;

use super::{
    CROWD_GRACE, CROWD_PAUSE, LONGEST_PAUSE, Limits, Measure, PLACE_PAUSE, Pace, Permit, Reserved,
    SETTLE_GRACE, Used, Want, scripts,
};
use crate::queue::{
    QueueError,
    partition::millis,
    wire::{Control, Wire},
};

/// What every key begins with.
pub const PREFIX: &str = "turnfold:{limits}:v1:";

/// The limits of many processes.
pub struct RedisLimits {
    wire: Wire,
    control: Control,
    pace: Pace,
}

impl RedisLimits {
    /// Connects.
    ///
    /// # Errors
    ///
    /// [`QueueError::Address`], or that Redis is not there or refuses.
    pub async fn connect(url: &str, pace: Pace) -> Result<Self, QueueError> {
        let wire = Wire::open(url)?;
        let control = wire.control().await?;
        Ok(Self { wire, control, pace })
    }

    fn error(&self, what: &str) -> impl Fn(RedisError) -> QueueError {
        move |error| self.wire.error(what, &error)
    }
}

#[async_trait]
impl Limits for RedisLimits {
    async fn reserve(&self, asker: &str, wants: &[Want]) -> Result<Reserved, QueueError> {
        let permit = Permit { id: Uuid::now_v7(), wants: wants.iter().map(Want::cut).collect() };
        let mut script = prepared(&scripts::RESERVE, &permit);
        script.arg(asker);
        let Pace { hold, minute } = self.pace;
        for time in [hold, minute, SETTLE_GRACE, PLACE_PAUSE, CROWD_PAUSE, LONGEST_PAUSE, CROWD_GRACE] {
            script.arg(millis(time));
        }
        for Want { of: _, tenant: _, cap, tokens, micro_usd } in &permit.wants {
            for limit in
                [cap.concurrency, cap.requests_per_minute, cap.tokens_per_minute, cap.micro_usd_per_day]
            {
                script.arg(or_none(limit));
            }
            script.arg(counted(*tokens)).arg(counted(*micro_usd));
        }
        let answer: Result<(usize, u8, u64, i64), RedisError> = self.control.run(&script).await;
        let (at, measure, ms, now) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                let error = self.error("reserve a place")(error);
                tokio::spawn(forsake(self.control.clone(), permit));
                return Err(error);
            }
        };
        let Some(want) = at.checked_sub(1).and_then(|at| permit.wants.get(at)) else {
            return Ok(Reserved::Granted(permit));
        };
        let measure = match measure {
            1 => Measure::Concurrency,
            2 => Measure::Requests,
            3 => Measure::Tokens,
            _ => Measure::Money,
        };
        Ok(Reserved::Wait { after: Duration::from_millis(ms), why: measure.why(want, now) })
    }

    async fn renew(&self, permit: &Permit) -> Result<(), QueueError> {
        let mut script = prepared(&scripts::RENEW, permit);
        script.arg(millis(self.pace.hold)).arg(millis(SETTLE_GRACE));
        self.control.run(&script).await.map_err(self.error("keep a place"))
    }

    async fn settle(&self, permit: &Permit, used: Used) -> Result<(), QueueError> {
        let mut script = prepared(&scripts::SETTLE, permit);
        script.arg(settling(permit, used, Duration::ZERO));
        self.control.run(&script).await.map_err(self.error("give a place back"))
    }

    fn pace(&self) -> Pace {
        self.pace
    }
}

/// The name of a permit among the keys, and those of all that it takes of.
fn keys(permit: &Permit) -> Vec<String> {
    let of = |want: &Want| -> [String; scripts::KEYS] {
        let (name, tenant) = (want.of.key(), &want.tenant);
        let of_all = |key: &str| format!("{PREFIX}{key}:{name}");
        let of_tenant = |key: &str| format!("{PREFIX}{key}:{name}:{tenant}");
        let [held, minute, tokens, day] = ["held", "minute", "tokens", "day"].map(of_all);
        let ([crowd, since], [crowds, first]) =
            (["crowd", "since"].map(of_tenant), ["crowds", "first"].map(of_all));
        [held, minute, tokens, day, crowd, since, crowds, first]
    };
    let permit_key = format!("{PREFIX}permit:{}", permit.id);
    std::iter::once(permit_key).chain(permit.wants.iter().flat_map(of)).collect()
}

/// A script with its keys, and the permit's name as its first argument.
fn prepared<'a>(script: &'a LazyLock<Script>, permit: &Permit) -> ScriptInvocation<'a> {
    let mut script = script.prepare_invoke();
    script.key(keys(permit)).arg(permit.id.to_string());
    script
}

/// What settles a permit, besides its name: what was taken, and how long its name is kept from whoever asks for it later.
fn settling(permit: &Permit, used: Used, gone: Duration) -> Vec<i64> {
    let reserved = permit.wants.iter().map(|it| or_none(it.cap.micro_usd_per_day.map(|_| it.micro_usd)));
    let taken = [or_none(used.tokens), or_none(used.micro_usd), counted(millis(gone))];
    taken.into_iter().chain(reserved).collect()
}

/// Gives back what a reservation took, or takes yet, whose answer nobody heard.
///
/// ## Why all of the script is sent
///
/// A Redis that stalls runs what waits for it once its answers are heard no more: none may be needed. Over another connection
/// it may run before the reservation, so that one then finds the permit's name taken.
async fn forsake(control: Control, permit: Permit) {
    let keys = keys(&permit);
    let mut script = redis::cmd("EVAL");
    script.arg(scripts::SETTLING).arg(keys.len()).arg(keys).arg(permit.id.to_string());
    script.arg(settling(&permit, Used::NOTHING, SETTLE_GRACE));
    if let Err(error) = control.ask::<()>(&script).await {
        debug!(%error, "cannot tell whether a place was given back; it comes back by itself");
    }
}

/// A limit as the scripts have it.
fn or_none(number: Option<u64>) -> i64 {
    number.map_or(-1, counted)
}

/// As many as a number of Lua counts without a gap.
fn counted(number: u64) -> i64 {
    i64::try_from(number.min(1 << 52)).unwrap_or(i64::MAX)
}
