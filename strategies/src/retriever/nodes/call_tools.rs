//! Runs the tool calls that the model requested, all concurrently.

use crate::{
    loop_guard::RequestedCalls,
    retriever::{Ending, Fact, NodeName, Retriever},
};
use shared::{CallTool, Node, Thread, Tool, ToolCall, ToolOutput, Transition};

pub(in crate::retriever) struct CallTools;

impl Node<Retriever> for CallTools {
    type Effect = Vec<CallTool>;

    fn ask(&self, thread: &Thread<Retriever>) -> Self::Effect {
        let call = |call: &ToolCall| CallTool { server: thread.state.at().to_owned(), call: call.clone() };
        wanted(thread).fresh().map(call).collect()
    }

    /// A result returns to the node that requested it, never to the routing: the same server continues.
    fn learn(&self, thread: &Thread<Retriever>, outputs: Vec<ToolOutput>) -> Transition<Retriever> {
        let limit = thread.config.rounds;
        let next = if thread.state.rounds + 1 < limit {
            Transition::to(NodeName::Orchestrate)
        } else {
            let why = format!("the limit of {limit} rounds of tool calls for a turn is reached");
            let ended = Fact::Ended(Ending::Stuck { reason: why.clone() });
            Transition::to(NodeName::Respond).learn(ended).because(why).partial("rounds")
        };
        let mut outputs = outputs.into_iter();
        let answered = wanted(thread).answered(|_| outputs.next());
        answered.into_iter().fold(next.learn(Fact::Worked), Transition::say)
    }
}

/// Returns the calls to the server. The calls to a previous server do not count as repetitions.
fn wanted<'a>(thread: &'a Thread<Retriever>) -> RequestedCalls<'a, impl Fn(&ToolCall) -> Option<&'a Tool>> {
    let before = if thread.state.took_over { thread.messages.len().saturating_sub(1) } else { 0 };
    RequestedCalls::of(&thread.messages[before..], |call| thread.tool_called(thread.state.at(), &call.name))
}
