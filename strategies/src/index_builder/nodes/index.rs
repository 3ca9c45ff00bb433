//! Writes the offers to the index.

use crate::index_builder::{Fact, IndexBuilder, NodeName, Offer, Report, State, Status};
use shared::{Indexed, Node, Thread, Transition};

pub(in crate::index_builder) struct Index;

impl Node<IndexBuilder> for Index {
    type Effect = shared::Index;

    /// **Invariant:** every available server is in the update, with null if it is unchanged or unknown, because the
    /// index removes every server that is not listed.
    fn ask(&self, thread: &Thread<IndexBuilder>) -> shared::Index {
        let changed = |offer: &Offer| match offer {
            Offer::Changed(description) => Some(description.clone()),
            Offer::Unchanged | Offer::Failed { .. } => None,
        };
        let State { offers, held, .. } = &thread.state;
        let is_unchanged = |name: &String| offers.get(name) == Some(&Offer::Unchanged);
        shared::Index {
            servers: offers.iter().map(|(name, offer)| (name.clone(), changed(offer))).collect(),
            held: held.clone().into_iter().filter(|(name, _)| is_unchanged(name)).collect(),
        }
    }

    /// Records the result for each server, or returns to `describe` for servers that the index has lost.
    ///
    /// ## Why the node may go back
    ///
    /// This thread's view of the index can be wrong: another thread may have removed a server or indexed it with another
    /// configuration, or an operator may have removed the whole index. The lost servers then no longer count as known, and they are described once more.
    fn learn(&self, thread: &Thread<IndexBuilder>, indexed: Indexed) -> Transition<IndexBuilder> {
        let State { offers, report: before, .. } = &thread.state;
        let lost = |(name, offer): &(&String, &Offer)| **offer == Offer::Unchanged && !holds(&indexed, name);
        let lost: Vec<String> = offers.iter().filter(lost).map(|(name, _)| name.clone()).collect();
        let found = offers.iter().filter(|(name, _)| !lost.contains(name));
        let mut report = Report {
            servers: found.map(|(name, offer)| (name.clone(), status(name, offer, &indexed))).collect(),
            removed: [&before.removed[..], &indexed.removed[..]].concat(),
        };
        for (name, status) in &before.servers {
            if *status == Status::Ok {
                report.servers.insert(name.clone(), Status::Ok);
            }
        }
        if lost.is_empty() {
            return Transition::to(NodeName::Report).learn(Fact::Indexed(report));
        }
        let why = format!("the index does not hold what it was known to hold of {}", lost.join(", "));
        Transition::to(NodeName::Describe).learn(Fact::Lost { servers: lost, others: report }).because(why)
    }
}

fn holds(indexed: &Indexed, name: &String) -> bool {
    indexed.unchanged.contains(name) || indexed.written.contains(name)
}

fn status(name: &String, offer: &Offer, indexed: &Indexed) -> Status {
    let failed = |reason: &str, then: &str| Status::Failed { reason: format!("{reason}; {then}") };
    match offer {
        Offer::Changed(_) if indexed.written.contains(name) => Status::Ok,
        Offer::Changed(_) | Offer::Unchanged if holds(indexed, name) => Status::Unchanged,
        Offer::Changed(_) | Offer::Unchanged => failed("the index did not take it", "build it once more"),
        Offer::Failed { reason } if holds(indexed, name) => {
            failed(reason, "the index keeps what it had of it")
        }
        Offer::Failed { reason } => failed(reason, "the index has nothing of it"),
    }
}
