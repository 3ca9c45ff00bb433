//! What research concludes and remembers.

use std::{collections::BTreeMap, ops::Range};

use serde::{Deserialize, Serialize};

use super::sources::Source;

/// What it remembers; all of it belongs to the turn.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// The messages that hold the question.
    pub question: Range<usize>,
    /// The servers that cannot be reached, and why.
    pub unreachable: BTreeMap<String, String>,
    /// How often the planning agent was asked without coming to a plan.
    pub iterations: u32,
    /// What the planning agent had in mind.
    pub rationale: String,
    /// What is to be searched next.
    pub queries: Vec<String>,
    /// What was searched.
    pub searched: Vec<Searched>,
    /// How often it was reflected on.
    pub loops: u32,
    /// What was found, in the order of the tokens: `[s1]` is the first.
    pub sources: Vec<Source>,
    /// How the research came to its end, for whoever composes the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// A query that was searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Searched {
    /// The query.
    pub query: String,
    /// Why nothing came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What it can conclude.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// There is a question, and it is known who can help.
    Equipped {
        /// The messages that hold the question.
        question: Range<usize>,
        /// The servers that cannot be reached, and why.
        unreachable: BTreeMap<String, String>,
    },
    /// The planning agent was asked and has no plan yet.
    Considered,
    /// This is to be searched.
    Planned {
        /// What.
        queries: Vec<String>,
        /// Why that.
        rationale: String,
    },
    /// It was searched.
    Searched {
        /// Each query, in order.
        searches: Vec<Searched>,
        /// The sources that nobody had found before.
        sources: Vec<Source>,
    },
    /// It was reflected on, and this is to be searched next; nothing, if the research is over.
    Reflected {
        /// What.
        follow_ups: Vec<String>,
    },
    /// The research is over.
    Ended(Ending),
}

/// How the research came to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Everything wanted was searched.
    Done,
    /// A person did not want it searched.
    Declined,
    /// It stopped before that.
    Partial {
        /// Why.
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
