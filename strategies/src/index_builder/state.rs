//! Facts that the index builder concludes and the state it folds from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use shared::Description;

/// State of the index builder.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// Hash of the content that the index was last known to hold, by server.
    pub held: BTreeMap<String, String>,
    /// Offer of each server, until it is written to the index. Belongs to the turn.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub offers: BTreeMap<String, Offer>,
    /// Result for each server. Belongs to the turn.
    pub report: Report,
}

/// Result of asking a server for its offer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// Content that the index is not known to hold.
    Changed(Description),
    /// The index already holds this content.
    Unchanged,
    /// The server did not provide its offer.
    Failed {
        /// Reason for the failure.
        reason: String,
    },
}

/// Result for each server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Results of the available servers.
    pub servers: BTreeMap<String, Status>,
    /// Servers that are no longer available and were removed from the index.
    pub removed: Vec<String>,
}

/// Result for one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The offer has been written to the index.
    Ok,
    /// The index already held the offer.
    Unchanged,
    /// The offer could not be fetched or indexed.
    Failed {
        /// Reason for the failure.
        reason: String,
    },
}

/// Facts that the index builder concludes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// All servers were asked for their offers.
    Described {
        /// Offer of each server.
        servers: BTreeMap<String, Offer>,
    },
    /// The index has lost content that it was known to hold.
    Lost {
        /// Servers whose content is missing.
        servers: Vec<String>,
        /// Results for the other servers.
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
                    if let (Offer::Changed(description), true) = (offer, indexed) {
                        self.held.insert(name, description.hash);
                    }
                }
                self.report = report.clone();
            }
        }
    }
}
