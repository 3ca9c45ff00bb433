//! Budgets of turns and threads.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::usage::UsageTotal;

/// Limits on tokens, money and time, for any strategy.
///
/// **Invariant:** once a limit is reached, no further request is sent in that turn. Requests already sent still count,
/// so a budget is exceeded by at most the requests of one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// Limits of one turn, from its message until the thread is idle.
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub turn: Limits,
    /// Limits of all turns of a thread together.
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub thread: Limits,
}

/// Limits on usage. Unset values are unlimited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Tokens read and written by models.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub tokens: Option<u64>,
    /// Cost of models, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.000_001, max = 1_000_000_000.0))]
    pub usd: Option<f64>,
    /// Time spent in models and tools, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 31_622_400))]
    pub seconds: Option<u64>,
}

/// Budget limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetExceeded {
    /// Owner of the budget.
    pub scope: Scope,
    /// Quantity that ran out.
    pub measure: Measure,
}

/// Owner of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Budget of the turn.
    Turn,
    /// Budget of the thread.
    Thread,
}

/// Quantity that a budget limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Tokens read and written by models.
    Tokens,
    /// US dollars.
    Usd,
    /// Seconds spent in models and tools.
    Seconds,
}

impl Budget {
    /// Returns true if nothing is limited.
    pub fn is_none(&self) -> bool {
        self.turn.is_none() && self.thread.is_none()
    }

    /// Checks every limit that is set.
    ///
    /// # Errors
    ///
    /// A description of the first limit that is out of bounds.
    pub fn check(&self) -> Result<(), String> {
        self.turn.check().map_err(|why| format!("turn.{why}"))?;
        self.thread.check().map_err(|why| format!("thread.{why}"))
    }

    /// Combines two budgets, keeping the lower of each limit.
    pub fn within(&self, cap: &Self) -> Self {
        Self { turn: self.turn.within(&cap.turn), thread: self.thread.within(&cap.thread) }
    }

    /// Completes the budget by the limits of another.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self { turn: self.turn.or(&other.turn), thread: self.thread.or(&other.thread) }
    }

    /// Returns the first limit reached. The budget of the thread comes first, since only a new thread has a new one.
    pub(crate) fn exceeded(&self, turn: &UsageTotal, thread: &UsageTotal) -> Option<BudgetExceeded> {
        let of = |scope, limits: &Limits, used| {
            limits.exceeded(used).map(|measure| BudgetExceeded { scope, measure })
        };
        of(Scope::Thread, &self.thread, thread).or_else(|| of(Scope::Turn, &self.turn, turn))
    }

    /// Describes the exceeded budget in a sentence.
    pub(crate) fn describe(&self, BudgetExceeded { scope, measure }: BudgetExceeded) -> String {
        let (limits, of) = match scope {
            Scope::Turn => (&self.turn, "turn"),
            Scope::Thread => (&self.thread, "thread"),
        };
        let limit = limits.each().find_map(|(limited, limit)| (limited == measure).then_some(limit));
        format!("the budget of {} for a {of} is spent", limit.unwrap_or_default())
    }
}

impl Limits {
    /// Upper bounds: a trillion tokens, a billion dollars and 366 days. Sums of usage up to them
    /// are exact.
    const TOKENS_MAX: u64 = 1_000_000_000_000;
    const USD: std::ops::RangeInclusive<f64> = 0.000_001..=1e9;
    const SECONDS_MAX: u64 = 366 * 24 * 60 * 60;

    fn check(&self) -> Result<(), String> {
        let Self { tokens, usd, seconds } = *self;
        let counted = |name: &str, limit: Option<u64>, most: u64| match limit {
            Some(number) if !(1..=most).contains(&number) => {
                Err(format!("{name}: it is {number}, and must be from 1 to {most}"))
            }
            Some(_) | None => Ok(()),
        };
        counted("tokens", tokens, Self::TOKENS_MAX)?;
        counted("seconds", seconds, Self::SECONDS_MAX)?;
        match usd.filter(|usd| !Self::USD.contains(usd)) {
            Some(usd) => Err(format!("usd: it is {usd}, and must be from 0.000001 to 1000000000")),
            None => Ok(()),
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn within(&self, cap: &Self) -> Self {
        let least = |own: Option<u64>, cap: Option<u64>| own.into_iter().chain(cap).min();
        let usd = self.usd.into_iter().chain(cap.usd).reduce(f64::min);
        Self { tokens: least(self.tokens, cap.tokens), usd, seconds: least(self.seconds, cap.seconds) }
    }

    fn or(&self, other: &Self) -> Self {
        Self {
            tokens: self.tokens.or(other.tokens),
            usd: self.usd.or(other.usd),
            seconds: self.seconds.or(other.seconds),
        }
    }

    fn exceeded(&self, used: &UsageTotal) -> Option<Measure> {
        let Self { tokens, usd, seconds } = self;
        if tokens.is_some_and(|tokens| tokens <= used.tokens()) {
            return Some(Measure::Tokens);
        }
        if usd.is_some_and(|usd| usd <= used.usd()) {
            return Some(Measure::Usd);
        }
        seconds.is_some_and(|it| it.saturating_mul(1_000) <= used.duration_ms).then_some(Measure::Seconds)
    }

    /// Lists the limits that are set, with a description of each.
    fn each(&self) -> impl Iterator<Item = (Measure, String)> {
        let counted = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let tokens = self.tokens.map(|tokens| (Measure::Tokens, counted(tokens, "token")));
        let usd = self.usd.map(|usd| (Measure::Usd, format!("${usd}")));
        let seconds = self.seconds.map(|seconds| (Measure::Seconds, counted(seconds, "second")));
        [tokens, usd, seconds].into_iter().flatten()
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |limits: &Limits, of| {
            limits.each().map(move |(_, limit)| format!("{limit} for {of}")).collect::<Vec<_>>()
        };
        let all = [of(&self.turn, "a turn"), of(&self.thread, "the thread")].concat();
        write!(f, "{}", if all.is_empty() { "no limit".to_owned() } else { all.join(", ") })
    }
}
/// Returns the setting that gives a model, as `provider/model`, a price, for people.
pub fn price_setting(model: &str) -> String {
    let (provider, name) = model.split_once('/').unwrap_or(("NAME", model));
    format!(
        "providers.{provider}.prices.{name:?} = {{ input = …, output = … }} in US dollars per million tokens \
         (0 for a model that costs nothing)"
    )
}
