//! The expert does what the model asked, all calls side by side.

use crate::{
    CallTool, Node, Thread, ToolOutput, Transition,
    strategies::{
        planner::{NodeName, Planning, of_the_task},
        repeat::Wanted,
    },
};

pub(in crate::strategies) struct CallTools;

impl<S: Planning> Node<S> for CallTools {
    type Effect = Vec<CallTool>;

    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        let server = &S::planned(thread).task().expert;
        let fresh = Wanted::of(of_the_task(thread)).fresh();
        fresh.map(|call| CallTool { server: server.clone(), call: call.clone() }).collect()
    }

    fn learn(&self, thread: &Thread<S>, outputs: Vec<ToolOutput>) -> Transition<S> {
        let mut outputs = outputs.into_iter();
        let answered = Wanted::of(of_the_task(thread)).answered(|_| outputs.next());
        answered.into_iter().fold(Transition::to(NodeName::Assess), Transition::say)
    }
}
