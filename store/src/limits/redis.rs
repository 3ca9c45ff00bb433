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
//! | sorted set `crowd:NAME` | Who found no room, by the time they are expected back. Lasts a little longer than the last of them. |
//! | string `permit:ID` | The day on which a permit was given, as long as it can be settled. |
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
        for Want { of: _, cap, tokens, micro_usd } in &permit.wants {
            for limit in
                [cap.concurrency, cap.requests_per_minute, cap.tokens_per_minute, cap.micro_usd_per_day]
            {
                script.arg(or_none(limit));
            }
            script.arg(counted(*tokens)).arg(counted(*micro_usd));
        }
        let (at, measure, ms, now): (usize, u8, u64, i64) =
            self.control.run(&script).await.map_err(self.error("reserve a place"))?;
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
        script.arg(or_none(used.tokens)).arg(or_none(used.micro_usd));
        for want in &permit.wants {
            script.arg(or_none(want.cap.micro_usd_per_day.map(|_| want.micro_usd)));
        }
        self.control.run(&script).await.map_err(self.error("give a place back"))
    }

    fn pace(&self) -> Pace {
        self.pace
    }
}

/// A script with its keys, and the permit's name as its first argument.
fn prepared<'a>(script: &'a LazyLock<Script>, permit: &Permit) -> ScriptInvocation<'a> {
    let mut script = script.prepare_invoke();
    script.key(format!("{PREFIX}permit:{}", permit.id));
    for want in &permit.wants {
        let keys: [&str; scripts::KEYS] = ["held", "minute", "tokens", "day", "crowd"];
        let name = want.of.key();
        for key in keys {
            script.key(format!("{PREFIX}{key}:{name}"));
        }
    }
    script.arg(permit.id.to_string());
    script
}

/// A limit as the scripts have it.
fn or_none(number: Option<u64>) -> i64 {
    number.map_or(-1, counted)
}

/// As many as a number of Lua counts without a gap.
fn counted(number: u64) -> i64 {
    i64::try_from(number.min(1 << 52)).unwrap_or(i64::MAX)
}
