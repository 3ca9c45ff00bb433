//! What a turn and a thread may take, and which of that is spent.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::meter::Tally;

/// What a turn and a thread may take of the world, whatever its strategy.
///
/// **Invariant:** once it is spent, nothing more is asked of the world in that turn. What was asked before still
/// counts, so a budget is passed by no more than the requests of one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// What one turn may take: from what a person says to the thread's next rest.
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub turn: Limits,
    /// What all turns of a thread together may take.
    #[serde(skip_serializing_if = "Limits::is_none")]
    pub thread: Limits,
}

/// How much may be taken; as much as it needs, of what is not set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Tokens that models read and write.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// What models cost, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.000_001))]
    pub usd: Option<f64>,
    /// How long models and tools are at work, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub seconds: Option<u64>,
}

/// Which part of a budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spent {
    /// Whose.
    pub of: Scope,
    /// What of it.
    pub measure: Measure,
}

/// Whose budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The turn's.
    Turn,
    /// The thread's.
    Thread,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Tokens that models read and write.
    Tokens,
    /// Money.
    Usd,
    /// Time.
    Seconds,
}

impl Budget {
    /// Whether there is no limit.
    pub fn is_none(&self) -> bool {
        self.turn.is_none() && self.thread.is_none()
    }

    /// The narrower of the two, limit by limit.
    pub fn within(&self, cap: &Self) -> Self {
        Self { turn: self.turn.within(&cap.turn), thread: self.thread.within(&cap.thread) }
    }

    /// What is spent of it: the thread's before the turn's, as only another thread helps against that.
    pub(crate) fn spent(&self, turn: &Tally, thread: &Tally) -> Option<Spent> {
        let of = |of, limits: &Limits, tally| limits.spent(tally).map(|measure| Spent { of, measure });
        of(Scope::Thread, &self.thread, thread).or_else(|| of(Scope::Turn, &self.turn, turn))
    }

    /// Which budget is spent, in words.
    pub(crate) fn told(&self, Spent { of, measure }: Spent) -> String {
        let (limits, of) = match of {
            Scope::Turn => (&self.turn, "turn"),
            Scope::Thread => (&self.thread, "thread"),
        };
        let limit = limits.each().find_map(|(it, limit)| (it == measure).then_some(limit));
        format!("the budget of {} for a {of} is spent", limit.unwrap_or_default())
    }
}

impl Limits {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn within(&self, cap: &Self) -> Self {
        let least = |own: Option<u64>, cap: Option<u64>| own.into_iter().chain(cap).min();
        let usd = self.usd.into_iter().chain(cap.usd).reduce(f64::min);
        Self { tokens: least(self.tokens, cap.tokens), usd, seconds: least(self.seconds, cap.seconds) }
    }

    fn spent(&self, tally: &Tally) -> Option<Measure> {
        let Self { tokens, usd, seconds } = self;
        if tokens.is_some_and(|it| it <= tally.tokens()) {
            return Some(Measure::Tokens);
        }
        if usd.is_some_and(|it| it <= tally.usd()) {
            return Some(Measure::Usd);
        }
        seconds.is_some_and(|it| it.saturating_mul(1_000) <= tally.ms).then_some(Measure::Seconds)
    }

    /// Each limit that is set, with its words.
    fn each(&self) -> impl Iterator<Item = (Measure, String)> {
        let counted = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let tokens = self.tokens.map(|it| (Measure::Tokens, counted(it, "token")));
        let usd = self.usd.map(|it| (Measure::Usd, format!("${it}")));
        let seconds = self.seconds.map(|it| (Measure::Seconds, counted(it, "second")));
        [tokens, usd, seconds].into_iter().flatten()
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |limits: &Limits, of| {
            limits.each().map(move |(_, it)| format!("{it} for {of}")).collect::<Vec<_>>()
        };
        let all = [of(&self.turn, "a turn"), of(&self.thread, "the thread")].concat();
        write!(f, "{}", if all.is_empty() { "no limit".to_owned() } else { all.join(", ") })
    }
}
