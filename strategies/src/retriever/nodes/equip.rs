//! Lists the tools of the chosen server.

use crate::retriever::{NodeName, Retriever, reroute::unreachable};
use shared::{ListTools, Node, Thread, Transition};

pub(in crate::retriever) struct Equip;

impl Node<Retriever> for Equip {
    type Effect = ListTools;

    fn ask(&self, thread: &Thread<Retriever>) -> ListTools {
        ListTools { server: thread.state.at().to_owned() }
    }

    fn learn(&self, thread: &Thread<Retriever>, listed: Result<(), String>) -> Transition<Retriever> {
        match listed {
            Ok(()) => Transition::to(NodeName::Orchestrate),
            Err(reason) => unreachable(thread, reason),
        }
    }
}
