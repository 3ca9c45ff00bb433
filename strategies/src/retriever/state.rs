//! Facts that the retriever concludes and the state it folds from them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// State of the retriever.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// Server that handles the request. It remains across turns until it hands over or becomes unreachable.
    pub server: Option<String>,
    /// Queries already sent to the index. Belongs to the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<String>,
    /// Candidate servers, until one is chosen. Belongs to the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// True after nothing fitted and the index is searched once more in other words, until a server is chosen. Belongs
    /// to the turn.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub searched_again: bool,
    /// Error in the last choice, returned to the model so that it can correct it. Belongs to the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Servers that the person is asked to choose from. Belongs to the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<String>,
    /// Servers that handed over or were unreachable. Belongs to the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
    /// Servers that handed over and may be chosen again, because another server has worked since. Belongs to the turn.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub may_return: BTreeSet<String>,
    /// Number of rounds of tool calls. Belongs to the turn.
    pub rounds: u32,
    /// True after the server took over from another one, until one of its own tools is called. Belongs to the turn.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub took_over: bool,
    /// Reason for stopping. Belongs to the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// Candidate server from the index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Name of the server.
    pub server: String,
    /// Description of its offer, cut to the length that a model should read.
    pub text: String,
}

/// Server that did not handle the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Name of the server.
    pub server: String,
    /// Reason for the refusal.
    pub reason: String,
    /// True if the server could not be reached. It is not tried again in this turn.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unreachable: bool,
}

/// Reason for stopping.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// No server fits the request.
    NothingRelevant,
    /// Every server that was tried refused, and no further one is tried.
    Refused,
    /// The person no longer wants it.
    Dropped,
    /// The server has met the request, and the answer has to be put into the form that the client asks for.
    Answered {
        /// Answer in words.
        answer: String,
    },
    /// A server handles the request but cannot finish.
    Stuck {
        /// Reason that the server cannot finish.
        reason: String,
    },
}

/// Facts that the retriever concludes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The index should be searched for this query.
    Queried {
        /// Text of the query.
        query: String,
    },
    /// The index returned these candidates.
    Retrieved {
        /// Candidates, best first.
        candidates: Vec<Candidate>,
    },
    /// Nothing that the index returned fits, and it is searched once more in other words.
    Missed,
    /// The model chose a server that was not an option.
    Misrouted {
        /// Error in the choice.
        problem: String,
    },
    /// Several servers fit equally well, and a person must choose.
    Undecided {
        /// Servers that fit equally well.
        between: Vec<String>,
    },
    /// The request is with this server now.
    Routed {
        /// Name of the server.
        server: String,
    },
    /// The server refused. It may be chosen again after another server has worked, unless it was unreachable.
    Refused(Refusal),
    /// A round of tool calls finished.
    Worked,
    /// The turn cannot make further progress.
    Ended(Ending),
}

impl State {
    /// Returns the server that handles the request, or an empty name if there is none. No node asks without one.
    pub fn at(&self) -> &str {
        self.server.as_deref().unwrap_or_default()
    }

    /// Returns whether `server` refused in this turn and may not be chosen again yet.
    ///
    /// ## Why another server must have worked in between
    ///
    /// A task may need two servers in turn: the shop, the clock, the shop once more. Two servers that only refer to each
    /// other get nothing done, so neither returns.
    pub fn is_excluded(&self, server: &str) -> bool {
        self.refused.iter().any(|refusal| refusal.server == server) && !self.may_return.contains(server)
    }

    pub(super) fn begin_turn(&mut self) {
        *self = Self { server: self.server.take(), ..Self::default() };
    }

    pub(super) fn evolve(&mut self, fact: &Fact) {
        match fact {
            Fact::Queried { query } => self.queries.push(query.clone()),
            Fact::Retrieved { candidates } => {
                self.candidates.clone_from(candidates);
                self.problem = None;
            }
            Fact::Missed => {
                self.searched_again = true;
                self.candidates.clear();
                self.problem = None;
            }
            Fact::Misrouted { problem } => self.problem = Some(problem.clone()),
            Fact::Undecided { between } => self.between.clone_from(between),
            Fact::Routed { server } => {
                self.server = Some(server.clone());
                self.took_over = !self.refused.is_empty();
                self.searched_again = false;
                self.candidates.clear();
                self.between.clear();
                self.problem = None;
            }
            Fact::Refused(refusal) => {
                self.server = None;
                self.took_over = false;
                self.may_return.remove(&refusal.server);
                self.refused.push(refusal.clone());
            }
            Fact::Worked => {
                self.rounds += 1;
                self.took_over = false;
                let at = self.server.as_ref();
                let handed_over =
                    self.refused.iter().filter(|refusal| !refusal.unreachable && Some(&refusal.server) != at);
                self.may_return.extend(handed_over.map(|refusal| refusal.server.clone()));
            }
            Fact::Ended(ending) => self.ending = Some(ending.clone()),
        }
    }
}
