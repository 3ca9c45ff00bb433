//! What the index builder concludes and remembers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Description;

/// What it remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// Which content of each server the index was last known to hold, by hash.
    pub held: BTreeMap<String, String>,
    /// What each server offers, until the index has heard of it. Belongs to the turn.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub offers: BTreeMap<String, Offer>,
    /// How each server fared. Belongs to the turn.
    pub report: Report,
}

/// What became of asking a server what it offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// Something that the index is not known to hold.
    Changed(Description),
    /// What the index holds already.
    Unchanged,
    /// It did not say.
    Failed {
        /// Why not.
        reason: String,
    },
}

/// How each server fared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The servers at hand.
    pub servers: BTreeMap<String, Status>,
    /// The servers that are at hand no longer, and are gone from the index.
    pub removed: Vec<String>,
}

/// How one server fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// What it offers is in the index now.
    Ok,
    /// What it offers was in the index already.
    Unchanged,
    /// What it offers could not be had, or not be indexed.
    Failed {
        /// Why not.
        reason: String,
    },
}

/// What it can conclude.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// The servers were asked.
    Described {
        /// What each of them offers.
        servers: BTreeMap<String, Offer>,
    },
    /// The index does not hold what it was known to hold.
    Lost {
        /// Of which servers.
        servers: Vec<String>,
        /// What it did for the others.
        others: Report,
    },
    /// The index is up to date.
    Indexed(Report),
}

impl State {
    pub(super) fn begin_turn(&mut self) {
        self.offers.clear();
        self.report = Report::default();
    }

    pub(super) fn evolve(&mut self, fact: &Fact) {
        match fact {
            Fact::Described { servers } => self.offers.clone_from(servers),
            Fact::Lost { servers, others } => {
                self.held.retain(|name, _| !servers.contains(name));
                self.report = others.clone();
            }
            Fact::Indexed(report) => {
                for (name, offer) in std::mem::take(&mut self.offers) {
                    let indexed = matches!(report.servers.get(&name), Some(Status::Ok | Status::Unchanged));
                    if let (Offer::Changed(it), true) = (offer, indexed) {
                        self.held.insert(name, it.hash);
                    }
                }
                self.report = report.clone();
            }
        }
    }
}
