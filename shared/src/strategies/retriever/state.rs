//! What the retriever concludes and remembers.

use serde::{Deserialize, Serialize};

/// What it remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// The server that the matter is with. It stays from turn to turn, until it hands over or cannot be reached.
    pub server: Option<String>,
    /// What the index was searched for. Belongs to the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queries: Vec<String>,
    /// The servers to choose from, until one is chosen. Belongs to the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// What was wrong with the last choice, for the model to mend. Belongs to the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The servers that the person is asked to choose from. Belongs to the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<String>,
    /// The servers that handed the matter over or could not be reached. Belongs to the turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Refusal>,
    /// How often tools were called. Belongs to the turn.
    pub rounds: u32,
    /// Whether the server took the matter over and no tool of its own was called yet. Belongs to the turn.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub took_over: bool,
    /// Why nothing more can be done. Belongs to the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// A server that might fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Its name.
    pub server: String,
    /// What it offers, cut to what a model should read.
    pub text: String,
}

/// A server that did not do it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Its name.
    pub server: String,
    /// Why not.
    pub reason: String,
}

/// Why nothing more can be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// No server fits the request.
    NothingRelevant,
    /// The servers that were tried did not do it, and no further one is tried.
    Refused,
    /// A server is at work and cannot come to an end.
    Stuck {
        /// Why not.
        reason: String,
    },
}

/// What it can conclude.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// This is what the index should be searched for.
    Queried {
        /// The words.
        query: String,
    },
    /// These servers might fit.
    Retrieved {
        /// The best first.
        candidates: Vec<Candidate>,
    },
    /// The model chose a server that it could not choose.
    Misrouted {
        /// What was wrong.
        problem: String,
    },
    /// Several servers fit equally, and a person must say which.
    Undecided {
        /// Which.
        between: Vec<String>,
    },
    /// The matter is with this server now.
    Routed {
        /// Its name.
        server: String,
    },
    /// The server did not do it, and is not asked again in this turn.
    Refused(Refusal),
    /// Tools were called.
    Worked,
    /// Nothing more can be done.
    Ended(Ending),
}

impl State {
    /// The server that the matter is with; empty if with none, but then no node asks.
    pub fn at(&self) -> &str {
        self.server.as_deref().unwrap_or_default()
    }

    /// Whether it did not do it in this turn.
    pub fn has_refused(&self, server: &str) -> bool {
        self.refused.iter().any(|it| it.server == server)
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
            Fact::Misrouted { problem } => self.problem = Some(problem.clone()),
            Fact::Undecided { between } => self.between.clone_from(between),
            Fact::Routed { server } => {
                self.server = Some(server.clone());
                self.took_over = !self.refused.is_empty();
                self.candidates.clear();
                self.between.clear();
                self.problem = None;
            }
            Fact::Refused(refusal) => {
                self.server = None;
                self.took_over = false;
                self.refused.push(refusal.clone());
            }
            Fact::Worked => {
                self.rounds += 1;
                self.took_over = false;
            }
            Fact::Ended(ending) => self.ending = Some(ending.clone()),
        }
    }
}
