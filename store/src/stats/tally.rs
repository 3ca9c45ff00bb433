//! Counts in memory, until they are written.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

use queue::clock;
use shared::{OutcomeKind, TurnStatus, Usage, UsageTotal};
use uuid::Uuid;

use super::{
    CountedEnd,
    uses::{AskedModel, Ratings, Use, UseCounts},
};
use crate::log::{
    ids::{ThreadId, plain},
    read_model_update::TurnUpdate,
};

/// Maximum distinct counts in memory; further causes are counted as turns without a cause.
const KEYS_MAX: usize = 10_000;

/// Length of the shortest interval, in microseconds.
pub(super) const MINUTE: i64 = 60 * 1_000_000;

/// A response of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelResponse {
    /// The model, and the node and prompt that asked it.
    pub asked: AskedModel,
    /// Tokens and cost.
    pub usage: Usage,
}

/// Turn and responses of one append, to be counted.
#[derive(Debug)]
pub struct Counted<'a> {
    /// Time of the append, in microseconds since the Unix epoch.
    pub at: i64,
    /// Id of the thread.
    pub thread: ThreadId,
    /// Tenant of the thread.
    pub tenant: &'a str,
    /// Strategy of the thread.
    pub strategy: &'a str,
    /// The turn, if it ended.
    pub ended: Option<&'a TurnUpdate>,
    /// True if a call in doubt ended the turn.
    pub in_doubt: bool,
    /// Responses of models.
    pub responses: Vec<ModelResponse>,
    /// The models that the turn asked, if it ended.
    pub asked: Vec<AskedModel>,
    /// Changed number of ratings, for each model that the rated turn asked.
    pub ratings: Vec<(AskedModel, Ratings)>,
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

    /// Subtracts sums, down to zero.
    pub(crate) fn subtract(&mut self, less: &Self) {
        let (own, other) = (&mut self.usage, &less.usage);
        for (sum, part) in [
            (&mut self.responses, less.responses),
            (&mut own.input_tokens, other.input_tokens),
            (&mut own.output_tokens, other.output_tokens),
            (&mut own.micro_usd, other.micro_usd),
            (&mut own.responses_without_usage, other.responses_without_usage),
            (&mut own.responses_without_price, other.responses_without_price),
        ] {
            *sum = sum.saturating_sub(part);
        }
        own.duration_ms = 0;
    }
}

/// Counts by minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub(crate) ends: BTreeMap<(i64, Ends), u64>,
    pub(crate) responses: BTreeMap<(i64, Responses), ResponseSums>,
    /// Use of prompts, not by minute.
    pub(super) uses: BTreeMap<Use, UseCounts>,
}

impl Tally {
    /// Adds what an append recorded.
    pub fn add(&mut self, counted: &Counted<'_>) {
        let Counted { at, tenant, strategy, ended, in_doubt, responses, .. } = counted;
        let minute = at - at.rem_euclid(MINUTE);
        let (tenant, strategy) = (|| plain(tenant), || plain(strategy));
        if let Some((turn, ended)) = ended.and_then(|turn| Some((turn, end_of(turn, *in_doubt)?))) {
            let is_full = KEYS_MAX <= self.ends.len();
            let cause = turn.cause().filter(|_| !is_full).unwrap_or_default();
            let ends = Ends { tenant: tenant(), strategy: strategy(), ended, cause };
            *self.ends.entry((minute, ends)).or_default() += 1;
        }
        for response in responses {
            let model = plain(&response.asked.model);
            let subject = Responses { tenant: tenant(), strategy: strategy(), model };
            self.responses.entry((minute, subject)).or_default().add(&ResponseSums::of(&response.usage));
        }
        self.add_uses(counted);
    }

    fn add_uses(&mut self, counted: &Counted<'_>) {
        for ModelResponse { asked, usage } in &counted.responses {
            self.count_use(counted, asked, |counts| counts.respond(&ResponseSums::of(usage)));
        }
        if let Some(ended) = counted.ended.and_then(|turn| end_of(turn, counted.in_doubt)) {
            counted.asked.iter().for_each(|asked| self.count_use(counted, asked, |counts| counts.end(ended)));
        }
        for (asked, change) in &counted.ratings {
            self.count_use(counted, asked, |counts| counts.rate(*change));
        }
    }

    fn count_use(&mut self, counted: &Counted<'_>, asked: &AskedModel, count: impl FnOnce(&mut UseCounts)) {
        let AskedModel { node, prompt, model } = asked;
        let asked = AskedModel { node: plain(node), prompt: plain(prompt), model: plain(model) };
        let subject = Use { tenant: plain(counted.tenant), strategy: plain(counted.strategy), asked };
        if self.uses.len() < KEYS_MAX || self.uses.contains_key(&subject) {
            let mut counts = UseCounts::at(counted.at, counted.thread);
            count(&mut counts);
            self.merge_use(subject, &counts);
        }
    }

    fn merge_use(&mut self, subject: Use, counts: &UseCounts) {
        match self.uses.entry(subject) {
            Entry::Vacant(entry) => drop(entry.insert(counts.clone())),
            Entry::Occupied(mut entry) => entry.get_mut().add(counts),
        }
    }

    /// Adds those counts of another tally that are since `since` and before `until`.
    pub fn add_between(&mut self, mut other: Self, since: i64, until: i64) {
        other.ends.retain(|(at, _), _| (since..until).contains(at));
        other.responses.retain(|(at, _), _| (since..until).contains(at));
        self.merge(other);
    }

    fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.responses.is_empty() && self.uses.is_empty()
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (subject, turns) in other.ends {
            *self.ends.entry(subject).or_default() += turns;
        }
        for (subject, sums) in other.responses {
            self.responses.entry(subject).or_default().add(&sums);
        }
        for (subject, counts) in other.uses {
            self.merge_use(subject, &counts);
        }
    }
}

/// Returns the end of a turn, if it has ended.
fn end_of(turn: &TurnUpdate, in_doubt: bool) -> Option<CountedEnd> {
    Some(match turn.status {
        TurnStatus::Queued | TurnStatus::Running => return None,
        TurnStatus::Completed => match turn.outcome.as_ref().map(|outcome| outcome.kind) {
            Some(OutcomeKind::Partial) => CountedEnd::Partial,
            Some(OutcomeKind::Declined) => CountedEnd::Declined,
            Some(OutcomeKind::Answered) | None => CountedEnd::Answered,
        },
        TurnStatus::Interrupted if in_doubt => CountedEnd::InDoubt,
        TurnStatus::Interrupted => CountedEnd::Interrupted,
        TurnStatus::Failed => CountedEnd::Failed,
        TurnStatus::Cancelled => CountedEnd::Cancelled,
    })
}

/// Time of a process that has not yet written.
const NEVER: i64 = i64::MIN;

/// Counts of this process that are not yet written.
#[derive(Debug)]
pub(crate) struct UnwrittenCounts {
    tally: Mutex<Tally>,
    /// Id of the row of this process in `count_writers`.
    pub(super) writer: Uuid,
    /// Time of the last write, or [`NEVER`].
    written_at: AtomicI64,
}

impl Default for UnwrittenCounts {
    fn default() -> Self {
        Self { tally: Mutex::default(), writer: clock::new_id(), written_at: AtomicI64::new(NEVER) }
    }
}

impl UnwrittenCounts {
    /// Adds what an append recorded.
    pub(super) fn add(&self, counted: &Counted<'_>) {
        self.lock().add(counted);
    }

    /// Takes all counts; `None` if there are none and the last write was less than `beat` ago.
    pub(super) fn take(&self, now: i64, beat: i64) -> Option<Tally> {
        let is_due = self.written_at().is_none_or(|at| at + beat <= now);
        let mut tally = self.lock();
        (is_due || !tally.is_empty()).then(|| std::mem::take(&mut *tally))
    }

    /// Returns counts that could not be written.
    pub(super) fn put_back(&self, tally: Tally) {
        self.lock().merge(tally);
    }

    /// Returns the time of the last write.
    pub(super) fn written_at(&self) -> Option<i64> {
        Some(self.written_at.load(Ordering::Relaxed)).filter(|at| *at != NEVER)
    }

    /// Records that everything counted before `now` is written.
    pub(super) fn wrote(&self, now: i64) {
        self.written_at.store(now, Ordering::Relaxed);
    }

    /// Records that the row of this process was deleted. The next write inserts it again.
    pub(super) fn forget_row(&self) {
        self.wrote(NEVER);
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
