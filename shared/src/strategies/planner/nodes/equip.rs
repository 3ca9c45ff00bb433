//! Lists the tools of the current task's expert.

use crate::{
    ListTools, Node, Thread, Transition,
    strategies::planner::{Ending, Fact, NodeName, Planning},
};

pub(in crate::strategies) struct Equip;

impl<S: Planning> Node<S> for Equip {
    type Effect = ListTools;

    fn ask(&self, thread: &Thread<S>) -> ListTools {
        ListTools { server: S::planned(thread).task().expert.clone() }
    }

    fn learn(&self, _: &Thread<S>, listed: Result<(), String>) -> Transition<S> {
        match listed {
            Ok(()) => Transition::to(NodeName::Orchestrate),
            Err(reason) => Transition::to(NodeName::Respond).learn(Fact::Ended(Ending::Stuck { reason })),
        }
    }
}
