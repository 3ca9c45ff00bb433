//! The server does what the model asked, all calls side by side.

use crate::{
    CallTool, Message, Node, Thread, ToolCall, ToolOutput, Transition,
    strategies::retriever::{Ending, Fact, NodeName, Retriever},
};

pub(in crate::strategies::retriever) struct CallTools;

impl Node<Retriever> for CallTools {
    type Effect = Vec<CallTool>;

    fn ask(&self, thread: &Thread<Retriever>) -> Self::Effect {
        let call = |call: &ToolCall| CallTool { server: thread.state.at().to_owned(), call: call.clone() };
        wanted(thread).iter().map(call).collect()
    }

    /// A result goes back to whoever asked for it, never to the routing: the server that began goes on.
    ///
    /// **Invariant:** every call gets exactly one result, in the order of the calls.
    fn learn(&self, thread: &Thread<Retriever>, outputs: Vec<ToolOutput>) -> Transition<Retriever> {
        let limit = thread.config.rounds;
        let next = if thread.state.rounds + 1 < limit {
            Transition::to(NodeName::Orchestrate)
        } else {
            let why = format!("the limit of {limit} rounds of tool calls for a turn is reached");
            let ended = Fact::Ended(Ending::Stuck { reason: why.clone() });
            Transition::to(NodeName::Respond).learn(ended).because(why)
        };
        let heard = wanted(thread).iter().zip(outputs);
        heard.fold(next.learn(Fact::Worked), |next, (call, output)| {
            next.say(Message::tool(call, output.heard()))
        })
    }
}

fn wanted(thread: &Thread<Retriever>) -> &[ToolCall] {
    thread.messages.last().map_or(&[], |it| &it.tool_calls)
}
