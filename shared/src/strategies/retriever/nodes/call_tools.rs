//! The server does what the model asked, all calls side by side.

use crate::{
    CallTool, Node, Thread, ToolCall, ToolOutput, Transition,
    strategies::{
        repeat::Wanted,
        retriever::{Ending, Fact, NodeName, Retriever},
    },
};

pub(in crate::strategies::retriever) struct CallTools;

impl Node<Retriever> for CallTools {
    type Effect = Vec<CallTool>;

    fn ask(&self, thread: &Thread<Retriever>) -> Self::Effect {
        let call = |call: &ToolCall| CallTool { server: thread.state.at().to_owned(), call: call.clone() };
        wanted(thread).fresh().map(call).collect()
    }

    /// A result goes back to whoever asked for it, never to the routing: the server that began goes on.
    fn learn(&self, thread: &Thread<Retriever>, outputs: Vec<ToolOutput>) -> Transition<Retriever> {
        let limit = thread.config.rounds;
        let next = if thread.state.rounds + 1 < limit {
            Transition::to(NodeName::Orchestrate)
        } else {
            let why = format!("the limit of {limit} rounds of tool calls for a turn is reached");
            let ended = Fact::Ended(Ending::Stuck { reason: why.clone() });
            Transition::to(NodeName::Respond).learn(ended).because(why)
        };
        let mut outputs = outputs.into_iter();
        let answered = wanted(thread).answered(|_| outputs.next());
        answered.into_iter().fold(next.learn(Fact::Worked), Transition::say)
    }
}

/// What the model wants of the server: it repeats no call of the one that had the matter before.
fn wanted(thread: &Thread<Retriever>) -> Wanted<'_> {
    let before = if thread.state.took_over { thread.messages.len().saturating_sub(1) } else { 0 };
    Wanted::of(&thread.messages[before..])
}
