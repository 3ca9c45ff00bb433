//! The expert does what the model asked, all calls side by side.

use crate::{
    CallTool, Message, Node, Thread, ToolCall, ToolOutput, Transition,
    strategies::planner::{NodeName, Planning},
};

pub(in crate::strategies) struct CallTools;

impl<S: Planning> Node<S> for CallTools {
    type Effect = Vec<CallTool>;

    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        let server = &S::planned(thread).task().expert;
        calls(thread).iter().map(|call| CallTool { server: server.clone(), call: call.clone() }).collect()
    }

    /// **Invariant:** every call gets exactly one result, in the order of the calls.
    fn learn(&self, thread: &Thread<S>, outputs: Vec<ToolOutput>) -> Transition<S> {
        let heard = calls(thread).iter().zip(outputs);
        heard.fold(Transition::to(NodeName::Assess), |next, (call, output)| {
            next.say(Message::tool(call, output.heard()))
        })
    }
}

fn calls<S: Planning>(thread: &Thread<S>) -> &[ToolCall] {
    thread.messages.last().map_or(&[], |it| &it.tool_calls)
}
