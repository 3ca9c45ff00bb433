//! Runs the tool calls that the model requested, all concurrently.

use crate::{
    CallTool, Node, Thread, ToolOutput, Transition,
    strategies::{
        loop_guard::RequestedCalls,
        planner::{NodeName, Planning, of_the_task},
    },
};

pub(in crate::strategies) struct CallTools;

impl<S: Planning> Node<S> for CallTools {
    type Effect = Vec<CallTool>;

    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        let server = &S::planned(thread).task().expert;
        let fresh = RequestedCalls::of(of_the_task(thread)).fresh();
        fresh.map(|call| CallTool { server: server.clone(), call: call.clone() }).collect()
    }

    fn learn(&self, thread: &Thread<S>, outputs: Vec<ToolOutput>) -> Transition<S> {
        let mut outputs = outputs.into_iter();
        let answered = RequestedCalls::of(of_the_task(thread)).answered(|_| outputs.next());
        answered.into_iter().fold(Transition::to(NodeName::Assess), Transition::say)
    }
}
