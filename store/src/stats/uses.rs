//! Counts of the use of prompts.

use std::collections::BTreeMap;

use super::{CountedEnd, tally::ResponseSums};
use crate::{ThreadId, log::signed};

/// A model, as a node asks it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskedModel {
    /// Node that asks.
    pub node: String,
    /// Name of the prompt; empty if it has none.
    pub prompt: String,
    /// The model as `provider/model`.
    pub model: String,
}

/// Change of the number of ratings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratings {
    /// Number of turns whose answer is rated as good.
    pub good: i64,
    /// Number of turns whose answer is rated as bad.
    pub bad: i64,
}

/// Subject of the counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Use {
    pub(crate) tenant: String,
    pub(crate) strategy: String,
    pub(crate) asked: AskedModel,
}

/// Counts of one subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UseCounts {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) thread: ThreadId,
    pub(super) responses: ResponseSums,
    pub(super) turns: BTreeMap<CountedEnd, u64>,
    pub(super) ratings: Ratings,
}

impl UseCounts {
    pub(crate) fn at(at: i64, thread: ThreadId) -> Self {
        let (responses, turns, ratings) = (ResponseSums::default(), BTreeMap::new(), Ratings::default());
        Self { first: at, last: at, thread, responses, turns, ratings }
    }

    pub(crate) fn respond(&mut self, sums: &ResponseSums) {
        self.responses.add(sums);
    }

    pub(crate) fn end(&mut self, ended: CountedEnd) {
        *self.turns.entry(ended).or_default() += 1;
    }

    pub(crate) fn rate(&mut self, change: Ratings) {
        self.ratings.good += change.good;
        self.ratings.bad += change.bad;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.first = self.first.min(other.first);
        if self.last <= other.last {
            (self.last, self.thread) = (other.last, other.thread);
        }
        self.responses.add(&other.responses);
        for (ended, turns) in &other.turns {
            *self.turns.entry(*ended).or_default() += turns;
        }
        self.rate(other.ratings);
    }

    pub(super) fn turns(&self, ended: CountedEnd) -> i64 {
        signed(self.turns.get(&ended).copied().unwrap_or_default())
    }
}
