//! Facts that research concludes and the state it folds from them.

use std::{collections::BTreeMap, ops::Range};

use serde::{Deserialize, Serialize};

use super::sources::Source;

/// State of the research. All of it belongs to the turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// Range of the messages that hold the question.
    pub question: Range<usize>,
    /// Unreachable servers, each with the reason.
    pub unreachable: BTreeMap<String, String>,
    /// Number of calls of the planning agent that produced no plan.
    pub iterations: u32,
    /// Reasoning of the planning agent behind its queries.
    pub rationale: String,
    /// Queries to search next.
    pub queries: Vec<String>,
    /// Queries already searched.
    pub searched: Vec<Searched>,
    /// Number of completed reflections.
    pub loops: u32,
    /// Sources found, in token order: `[s1]` is the first.
    pub sources: Vec<Source>,
    /// Ending of the research, for the node that writes the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// Query that has been searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Searched {
    /// Text of the query.
    pub query: String,
    /// Reason for an empty result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Facts that research concludes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The question and the reachable servers are known.
    Equipped {
        /// Range of the messages that hold the question.
        question: Range<usize>,
        /// Unreachable servers, each with the reason.
        unreachable: BTreeMap<String, String>,
    },
    /// The planning agent replied without a plan.
    Considered,
    /// A plan of queries was made.
    Planned {
        /// Queries to search.
        queries: Vec<String>,
        /// Reasoning behind the queries.
        rationale: String,
    },
    /// The queries were searched.
    Searched {
        /// Each query in order, with its problem if it failed.
        searches: Vec<Searched>,
        /// Sources that no earlier search had found.
        sources: Vec<Source>,
    },
    /// The findings were reflected on. Without further queries the research is over.
    Reflected {
        /// Queries to search next.
        follow_ups: Vec<String>,
    },
    /// The research ended.
    Ended(Ending),
}

/// Ending of the research.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All queries were searched.
    Done,
    /// A person rejected the queries.
    Declined,
    /// Nothing had to be searched, and the answer has to be put into the form that the client asks for.
    Known {
        /// Answer in words.
        answer: String,
    },
    /// The research stopped early.
    Partial {
        /// Reason for stopping early.
        reason: String,
    },
}

impl State {
    pub(super) fn evolve(&mut self, fact: &Fact) {
        match fact {
            Fact::Equipped { question, unreachable } => {
                self.question = question.clone();
                self.unreachable.clone_from(unreachable);
            }
            Fact::Considered => self.iterations += 1,
            Fact::Planned { queries, rationale } => {
                self.queries.clone_from(queries);
                self.rationale.clone_from(rationale);
            }
            Fact::Searched { searches, sources } => {
                self.queries.clear();
                self.searched.extend(searches.iter().cloned());
                self.sources.extend(sources.iter().cloned());
            }
            Fact::Reflected { follow_ups } => {
                self.loops += 1;
                self.queries.clone_from(follow_ups);
            }
            Fact::Ended(ending) => self.ending = Some(ending.clone()),
        }
    }
}
