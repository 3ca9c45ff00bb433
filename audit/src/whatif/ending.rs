//! Threads as recorded beside the same threads as they went with the changes.

use std::collections::BTreeMap;

use serde::Serialize;
use shared::{Event, Graph, InvalidLog, Request, RunStatus};
use store::ThreadId;

use super::{Cluster, Effect, Judged, JudgedSummary, Rest, Undecided};
use crate::cost::{CostTotal, Price, Spending};

/// Course of a thread from its first difference on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ending {
    /// `answered`, `partial` or `declined`, or `asks`, `failed`, `cancelled` or `unfinished`.
    pub outcome: String,
    /// Nodes that decided.
    pub route: Vec<String>,
    /// Last reply to the person.
    pub answer: Option<String>,
    /// Usage of models and tools.
    pub rest: Rest,
    /// Requests to models, failed ones included.
    pub model_requests: u64,
}

impl Ending {
    /// Folds a log, and reads its events from number `from` on.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no thread of this strategy could have written the log.
    pub fn of<'a>(
        graph: &dyn Graph,
        log: impl IntoIterator<Item = &'a Event>,
        from: usize,
        price: Price<'_>,
    ) -> Result<Self, InvalidLog> {
        let (mut thread, mut this) = (graph.begin(), Self::default());
        let (mut spending, mut asked): (_, &[Request]) = (Spending::default(), &[]);
        for (seq, event) in log.into_iter().enumerate() {
            if seq == from {
                spending.forget();
            }
            // The sum is over all days.
            spending.apply(event, 0, price);
            if let Event::Asked(event) = event {
                asked = &event.requests;
            }
            if from <= seq {
                this.add(event, asked);
            }
            thread.apply(event)?;
        }
        if thread.seq() <= from {
            spending.forget();
        }
        this.outcome = match thread.status() {
            RunStatus::Idle if thread.is_cancelled() => "cancelled".to_owned(),
            RunStatus::Idle => thread.outcome().kind.name().to_owned(),
            RunStatus::Waiting(_) => "asks".to_owned(),
            RunStatus::Failed { .. } => "failed".to_owned(),
            RunStatus::Busy => "unfinished".to_owned(),
        };
        this.answer = thread.reply().map(str::to_owned);
        let mut total = CostTotal::default();
        spending.shares().values().for_each(|share| total.add(share));
        this.rest = Rest::from(&total);
        Ok(this)
    }

    fn add(&mut self, event: &Event, asked: &[Request]) {
        let slot = if let Event::Decided(decided) = event {
            self.route.push(decided.node.clone());
            return;
        } else if let Event::Answered(answered) = event {
            answered.slot
        } else if let Event::AttemptFailed(failed) = event
            && !failed.waiting
        {
            failed.slot
        } else {
            return;
        };
        self.model_requests += u64::from(matches!(asked.get(slot), Some(Request::Chat { .. })));
    }

    /// Position of the outcome among all, from best to worst.
    fn rank(&self) -> usize {
        let all = ["answered", "asks", "partial", "declined", "cancelled", "failed"];
        all.iter().position(|outcome| *outcome == self.outcome).unwrap_or(all.len())
    }
}

/// One thread, as recorded and with the changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Number of the first event that differs.
    pub seq: usize,
    /// The end that was recorded.
    pub recorded: Ending,
    /// The end with the changes.
    pub changed: Ending,
    /// Reason why the run could not go on to its end; absent if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_decided: Option<String>,
    /// Verdicts on both last replies; absent without a judge, and if the replies are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judged>,
}

impl Comparison {
    /// Returns true if both ends have the same last reply, word by word.
    pub fn has_same_answer(&self) -> bool {
        words(self.recorded.answer.as_deref()).eq(words(self.changed.answer.as_deref()))
    }
}

/// Number of threads that went the same way and another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Agreement {
    /// Number of threads without a difference.
    pub same: u64,
    /// Number of threads with a difference.
    pub other: u64,
}

impl Agreement {
    fn count(&mut self, is_same: bool) {
        *(if is_same { &mut self.same } else { &mut self.other }) += 1;
    }
}

/// Sums over threads that ran with the changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Number of threads that came to an end.
    pub decided: u64,
    /// Number of threads that could not.
    pub not_decided: u64,
    /// Outcome of the thread.
    pub outcome: Agreement,
    /// Number of threads with a worse outcome than recorded.
    pub worse: u64,
    /// Number of threads with a better outcome than recorded.
    pub better: u64,
    /// Nodes that decided.
    pub route: Agreement,
    /// Last reply, compared word by word.
    pub answer: Agreement,
    /// Rulings of a judge on other replies; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<JudgedSummary>,
    /// Usage of the decided threads as recorded, from their first difference on.
    pub recorded: Rest,
    /// Usage of the same threads with the changes.
    pub changed: Rest,
    /// Requests that the run sent to models, for all threads.
    pub model_requests: u64,
    /// Cost of the run in US dollars, for all threads.
    pub spent_usd: f64,
}

impl Summary {
    fn add(&mut self, compared: &Comparison) {
        let Comparison { recorded, changed, not_decided, judged, .. } = compared;
        self.model_requests += changed.model_requests;
        self.spent_usd += changed.rest.usd;
        if not_decided.is_some() {
            self.not_decided += 1;
            return;
        }
        self.decided += 1;
        self.outcome.count(recorded.outcome == changed.outcome);
        self.worse += u64::from(recorded.rank() < changed.rank());
        self.better += u64::from(changed.rank() < recorded.rank());
        self.route.count(recorded.route == changed.route);
        self.answer.count(compared.has_same_answer());
        if let Some(judged) = judged {
            self.judged.get_or_insert_default().add(judged);
        }
        self.recorded.add(&recorded.rest);
        self.changed.add(&changed.rest);
    }
}

/// Words of a reply, whatever stands between them.
fn words(answer: Option<&str>) -> impl Iterator<Item = &str> {
    answer.unwrap_or_default().split_whitespace()
}

/// Threads with the same first difference, after their run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClusterSummary {
    /// Kind of the first difference.
    pub effect: Effect,
    /// Strategy, node and field of the first difference.
    pub place: String,
    /// Sums over its threads.
    pub summary: Summary,
}

/// Report of a run with changes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// Sums over all threads.
    pub total: Summary,
    /// Sums by first difference.
    pub clusters: Vec<ClusterSummary>,
    /// Reasons why threads are not decided, most frequent first, each with an example.
    pub not_decided: Vec<Reason>,
    /// Name of the judge; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Reasons why threads are not judged, as `not_decided`; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_judged: Vec<Reason>,
    /// All threads, oldest first.
    pub threads: Vec<Comparison>,
}

/// Reason why threads are not decided or not judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// Number of threads.
    pub threads: u64,
    /// The first of them.
    pub example: Undecided,
}

impl RunReport {
    /// Summarises the threads of these clusters.
    pub fn of(clusters: &[Cluster], mut threads: Vec<Comparison>) -> Self {
        threads.sort_by_key(|compared| compared.thread);
        let by_id: BTreeMap<ThreadId, &Comparison> =
            threads.iter().map(|compared| (compared.thread, compared)).collect();
        let summarised = |cluster: &Cluster| {
            let mut summary = Summary::default();
            cluster.threads.iter().filter_map(|id| by_id.get(id)).for_each(|compared| summary.add(compared));
            ClusterSummary { effect: cluster.effect, place: cluster.place(), summary }
        };
        let clusters = clusters.iter().map(summarised).collect();
        let mut total = Summary::default();
        threads.iter().for_each(|compared| total.add(compared));
        let not_decided = reasons(&threads, |compared| compared.not_decided.as_deref());
        let not_judged = reasons(&threads, |compared| {
            compared.judged.as_ref().and_then(|judged| judged.not_judged.as_deref())
        });
        Self { total, clusters, not_decided, judge: None, not_judged, threads }
    }

    /// Names the judge.
    #[must_use]
    pub fn by_judge(self, judge: Option<String>) -> Self {
        Self { judge, ..self }
    }
}

fn reasons(threads: &[Comparison], why: impl Fn(&Comparison) -> Option<&str>) -> Vec<Reason> {
    let mut reasons = BTreeMap::<&str, Reason>::new();
    for compared in threads {
        let Some(why) = why(compared) else { continue };
        let example = || Undecided { thread: compared.thread, why: why.to_owned() };
        reasons.entry(why).or_insert_with(|| Reason { threads: 0, example: example() }).threads += 1;
    }
    let mut reasons: Vec<Reason> = reasons.into_values().collect();
    reasons.sort_by_key(|reason| std::cmp::Reverse(reason.threads));
    reasons
}
