//! The report: threads by the first place at which they would go differently.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, btree_map::Entry},
};

use serde::{Deserialize, Serialize};
use shared::{Divergence, Field};
use store::ThreadId;

use super::Start;
use crate::{
    cohort::Stray,
    cost::{CostTotal, Spending},
};

/// Maximum number of listed threads that are not decided; all are counted.
const KEPT: usize = 100;

/// Result of a replay with a changed configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Number of threads replayed.
    pub threads: u64,
    /// Number of threads of other strategies, which are not replayed.
    pub others: u64,
    /// Number of events read.
    pub events: u64,
    /// Number of threads that would go as they went.
    pub same: u64,
    /// Number of threads that would go differently.
    pub changed: u64,
    /// Number of threads whose built-in prompts were reworded since, which is not counted as a difference.
    pub reworded: u64,
    /// Number of threads whose tools or replies are described differently since, which is not counted as a difference.
    #[serde(default)]
    pub redescribed: u64,
    /// Threads that would go differently, by their first difference: outcomes and routes first, then by frequency.
    pub clusters: Vec<Cluster>,
    /// Number of threads that are not decided.
    pub undecided: u64,
    /// The first hundred of them.
    pub not_decided: Vec<Undecided>,
    /// Usage of the changed threads after their first difference.
    pub rest: Rest,
}

/// Threads with the same first difference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Kind of the first difference.
    pub effect: Effect,
    /// Strategy of the threads.
    pub strategy: String,
    /// Node at which they differ.
    pub node: String,
    /// Path of the differing value, with `*` in place of list indexes.
    pub field: String,
    /// All threads of the cluster, oldest first.
    pub threads: Vec<ThreadId>,
    /// Number of the first event that differs, for each of these threads.
    pub seqs: Vec<usize>,
    /// The difference of the oldest of them.
    pub example: Example,
    /// Usage of the threads after the difference.
    pub rest: Rest,
}

/// The difference of one thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    /// Number of the event.
    pub seq: usize,
    /// Value in the log.
    pub recorded: String,
    /// Value with the changed configuration.
    pub changed: String,
}

/// Kind of a difference, most important first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The turn ends with another outcome.
    Outcome,
    /// Another node follows, the turn ends, or a person is asked.
    Route,
    /// The same node follows, with another state or other messages.
    Conclusion,
    /// Another request is sent: to another model, with other parameters, tools or messages.
    Request,
    /// A request is sent with another prompt. The values are names of prompts, or the first line that differs.
    Prompt,
}

/// Usage of recorded answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rest {
    /// Number of answers of models.
    pub model_calls: u64,
    /// Number of tool results.
    pub tool_calls: u64,
    /// Number of tokens sent.
    pub input_tokens: u64,
    /// Number of tokens received.
    pub output_tokens: u64,
    /// Cost in US dollars, at the recorded prices or else at today's.
    pub usd: f64,
    /// Number of answers of models without a price, which `usd` lacks.
    pub without_price: u64,
}

/// A thread that is not decided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Undecided {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Reason why it is not decided.
    pub why: String,
}

impl Report {
    /// Adds threads of a cohort whose logs are gone or differ: they are not decided.
    pub fn add_strays(&mut self, strays: Vec<Stray>) {
        self.threads += strays.len() as u64;
        self.undecided += strays.len() as u64;
        let undecided = |Stray { thread, what, .. }| Undecided { thread, why: what };
        self.not_decided.extend(strays.into_iter().map(undecided));
        self.not_decided.truncate(KEPT);
    }
}

impl Effect {
    fn of(field: &Field) -> Self {
        match field {
            Field::Decision(path) if path == "outcome" || path.starts_with("outcome.") => Self::Outcome,
            Field::Decision(path) if path == "to" || path == "event" => Self::Route,
            Field::Decision(_) => Self::Conclusion,
            Field::Request(path) if path.ends_with(".prompt") => Self::Prompt,
            Field::Request(_) => Self::Request,
            Field::Prompt(_) => Self::Prompt,
            Field::Offer(_) => Self::Request,
        }
    }

    /// Names the effect.
    pub fn words(self) -> &'static str {
        match self {
            Self::Outcome => "another outcome",
            Self::Route => "another route",
            Self::Conclusion => "another conclusion",
            Self::Request => "another request",
            Self::Prompt => "another prompt",
        }
    }
}

impl Cluster {
    /// The place as one word: `planner/assess/to`.
    pub fn place(&self) -> String {
        format!("{}/{}/{}", self.strategy, self.node, self.field)
    }

    /// The difference in one line, with the number of threads and the values of the oldest.
    pub(super) fn words(&self) -> String {
        let Self { effect, threads, example, .. } = self;
        let (recorded, changed) = (&example.recorded, &example.changed);
        format!("{} threads: {}, from {recorded} to {changed}", threads.len(), effect.words())
    }

    /// The threads, each with its first difference.
    pub fn starts(&self) -> impl Iterator<Item = Start> {
        let of = |(thread, seq): (&ThreadId, &usize)| Start { thread: *thread, seq: *seq };
        self.threads.iter().zip(&self.seqs).map(of)
    }
}

impl Rest {
    /// Adds the usage of other answers.
    pub(super) fn add(&mut self, other: &Self) {
        self.model_calls += other.model_calls;
        self.tool_calls += other.tool_calls;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.usd += other.usd;
        self.without_price += other.without_price;
    }
}

impl From<&CostTotal> for Rest {
    fn from(total: &CostTotal) -> Self {
        Self {
            model_calls: total.model_calls,
            tool_calls: total.tool_calls,
            input_tokens: total.usage.input_tokens,
            output_tokens: total.usage.output_tokens,
            usd: shared::usd(total.usage.micro_usd),
            without_price: total.usage.responses_without_price,
        }
    }
}

/// Place of a difference: effect, strategy, node and field.
type Place = (Effect, String, String, String);

/// Threads of one place.
struct Group {
    starts: Vec<Start>,
    oldest: (ThreadId, Example),
    rest: CostTotal,
}

/// Results so far.
#[derive(Default)]
pub(super) struct Found {
    pub(super) threads: u64,
    pub(super) others: u64,
    pub(super) events: u64,
    pub(super) same: u64,
    pub(super) reworded: u64,
    pub(super) redescribed: u64,
    places: BTreeMap<Place, Group>,
    undecided: u64,
    not_decided: Vec<Undecided>,
}

impl Found {
    pub(super) fn undecided(&mut self, thread: ThreadId, why: String) {
        self.undecided += 1;
        if self.not_decided.len() < KEPT {
            self.not_decided.push(Undecided { thread, why });
        }
    }

    pub(super) fn changed(&mut self, thread: ThreadId, strategy: String, first: Divergence, rest: &Spending) {
        let Divergence { seq, node, field, then, today } = first;
        let place = (Effect::of(&field), strategy, node, field.anywhere().to_string());
        let mut total = CostTotal::default();
        rest.shares().values().for_each(|share| total.add(share));
        let example = Example { seq, recorded: then, changed: today };
        self.add(
            place,
            Group { starts: vec![Start { thread, seq }], oldest: (thread, example), rest: total },
        );
    }

    fn add(&mut self, place: Place, group: Group) {
        match self.places.entry(place) {
            Entry::Vacant(entry) => drop(entry.insert(group)),
            Entry::Occupied(mut entry) => {
                let all = entry.get_mut();
                all.starts.extend(group.starts);
                all.rest.add(&group.rest);
                if group.oldest.0 < all.oldest.0 {
                    all.oldest = group.oldest;
                }
            }
        }
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.threads += other.threads;
        self.others += other.others;
        self.events += other.events;
        self.same += other.same;
        self.reworded += other.reworded;
        self.redescribed += other.redescribed;
        self.undecided += other.undecided;
        self.not_decided.extend(other.not_decided);
        self.not_decided.sort();
        self.not_decided.truncate(KEPT);
        for (place, group) in other.places {
            self.add(place, group);
        }
        self
    }

    pub(super) fn report(self) -> Report {
        let mut all = CostTotal::default();
        self.places.values().for_each(|group| all.add(&group.rest));
        let mut clusters: Vec<Cluster> = self.places.into_iter().map(cluster).collect();
        clusters.sort_by_key(|cluster| (cluster.effect, Reverse(cluster.threads.len())));
        Report {
            threads: self.threads,
            others: self.others,
            events: self.events,
            same: self.same,
            changed: clusters.iter().map(|cluster| cluster.threads.len() as u64).sum(),
            reworded: self.reworded,
            redescribed: self.redescribed,
            clusters,
            undecided: self.undecided,
            not_decided: self.not_decided,
            rest: Rest::from(&all),
        }
    }
}

fn cluster(((effect, strategy, node, field), mut group): (Place, Group)) -> Cluster {
    group.starts.sort_by_key(|start| start.thread);
    let (threads, seqs) = group.starts.iter().map(|start| (start.thread, start.seq)).unzip();
    let (_, example) = group.oldest;
    Cluster { effect, strategy, node, field, threads, seqs, example, rest: Rest::from(&group.rest) }
}
