//! Counts in memory, until they are written.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use shared::{OutcomeKind, TurnStatus, Usage, UsageTotal};

use super::CountedEnd;
use crate::log::{ids::plain, read_model_update::TurnUpdate};

/// Maximum distinct counts in memory; further causes are counted as turns without a cause.
const KEYS_MAX: usize = 10_000;

/// Length of the shortest interval, in microseconds.
const MINUTE: i64 = 60 * 1_000_000;

/// A response of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelResponse {
    /// The model as `provider/model`.
    pub model: String,
    /// Tokens and cost.
    pub usage: Usage,
}

/// Turn and responses of one append, to be counted.
#[derive(Debug)]
pub struct Counted<'a> {
    /// Time of the append, in microseconds since the Unix epoch.
    pub at: i64,
    /// Tenant of the thread.
    pub tenant: &'a str,
    /// Strategy of the thread.
    pub strategy: &'a str,
    /// The turn, if it ended.
    pub ended: Option<&'a TurnUpdate>,
    /// Responses of models.
    pub responses: Vec<ModelResponse>,
}

/// Subject of a count of turns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ends {
    pub(crate) tenant: String,
    pub(crate) strategy: String,
    pub(crate) ended: CountedEnd,
    /// Empty if there is none.
    pub(crate) cause: String,
}

/// Subject of a count of model responses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Responses {
    pub(crate) tenant: String,
    pub(crate) strategy: String,
    pub(crate) model: String,
}

/// Sums of model responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResponseSums {
    pub(crate) responses: u64,
    pub(crate) usage: UsageTotal,
}

impl ResponseSums {
    fn of(usage: &Usage) -> Self {
        let mut sums = Self { responses: 1, ..Self::default() };
        sums.usage.add_of_model(usage);
        sums
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.responses = self.responses.saturating_add(more.responses);
        self.usage.add_total(&more.usage);
    }
}

/// Counts by minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub(crate) ends: BTreeMap<(i64, Ends), u64>,
    pub(crate) responses: BTreeMap<(i64, Responses), ResponseSums>,
}

impl Tally {
    /// Adds what an append recorded.
    pub fn add(&mut self, counted: &Counted<'_>) {
        let Counted { at, tenant, strategy, ended, responses } = counted;
        let minute = at - at.rem_euclid(MINUTE);
        let (tenant, strategy) = (|| plain(tenant), || plain(strategy));
        if let Some((turn, ended)) = ended.and_then(|turn| Some((turn, end_of(turn)?))) {
            let is_full = KEYS_MAX <= self.ends.len();
            let cause = turn.cause().filter(|_| !is_full).unwrap_or_default();
            let ends = Ends { tenant: tenant(), strategy: strategy(), ended, cause };
            *self.ends.entry((minute, ends)).or_default() += 1;
        }
        for response in responses {
            let model = plain(&response.model);
            let subject = Responses { tenant: tenant(), strategy: strategy(), model };
            self.responses.entry((minute, subject)).or_default().add(&ResponseSums::of(&response.usage));
        }
    }

    fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.responses.is_empty()
    }

    fn merge(&mut self, other: Self) {
        for (subject, turns) in other.ends {
            *self.ends.entry(subject).or_default() += turns;
        }
        for (subject, sums) in other.responses {
            self.responses.entry(subject).or_default().add(&sums);
        }
    }
}

/// Returns the end of a turn, if it has ended.
fn end_of(turn: &TurnUpdate) -> Option<CountedEnd> {
    Some(match turn.status {
        TurnStatus::Queued | TurnStatus::Running => return None,
        TurnStatus::Completed => match turn.outcome.as_ref().map(|outcome| outcome.kind) {
            Some(OutcomeKind::Partial) => CountedEnd::Partial,
            Some(OutcomeKind::Declined) => CountedEnd::Declined,
            Some(OutcomeKind::Answered) | None => CountedEnd::Answered,
        },
        TurnStatus::Interrupted => CountedEnd::Interrupted,
        TurnStatus::Failed => CountedEnd::Failed,
        TurnStatus::Cancelled => CountedEnd::Cancelled,
    })
}

/// Counts of this process that are not yet written.
#[derive(Debug, Default)]
pub(crate) struct UnwrittenCounts {
    tally: Mutex<Tally>,
    /// Minute of the last write.
    minute: AtomicI64,
}

impl UnwrittenCounts {
    /// Adds what an append recorded.
    pub(super) fn add(&self, counted: &Counted<'_>) {
        self.lock().add(counted);
    }

    /// Takes all counts; `None` if there are none.
    pub(super) fn take(&self) -> Option<Tally> {
        let mut tally = self.lock();
        (!tally.is_empty()).then(|| std::mem::take(&mut *tally))
    }

    /// Returns counts that could not be written.
    pub(super) fn put_back(&self, tally: Tally) {
        self.lock().merge(tally);
    }

    /// Returns true for the first write in a minute, which also deletes old counts.
    pub(super) fn begins_minute(&self, now: i64) -> bool {
        let minute = now.div_euclid(MINUTE);
        self.minute.swap(minute, Ordering::Relaxed) != minute
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
