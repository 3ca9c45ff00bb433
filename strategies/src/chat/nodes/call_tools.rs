//! Runs the tool calls that the model requested, all concurrently.

use crate::{
    chat::{Chat, Fact, NodeName, offer::resolve},
    loop_guard::RequestedCalls,
};
use shared::{CallTool, Node, Thread, Tool, ToolCall, ToolOutput, Transition};

pub(in crate::chat) struct CallTools;

impl Node<Chat> for CallTools {
    type Effect = Vec<CallTool>;

    fn ask(&self, thread: &Thread<Chat>) -> Self::Effect {
        let calls = wanted(thread);
        let known = calls.fresh().filter_map(|call| {
            let (server, tool) = resolve(thread, &call.name)?;
            Some(CallTool {
                server: server.to_owned(),
                call: ToolCall { name: tool.to_owned(), ..call.clone() },
            })
        });
        known.collect()
    }

    fn learn(&self, thread: &Thread<Chat>, outputs: Vec<ToolOutput>) -> Transition<Chat> {
        let limit = thread.config.rounds;
        let mut next = Transition::to(NodeName::Reply).learn(Fact::Worked);
        if limit <= thread.state.rounds + 1 {
            let reason = format!("the limit of {limit} rounds of tool calls for a turn is reached");
            next = next.because(reason.clone()).learn(Fact::Withdrawn { reason }).partial("rounds");
        }
        let is_of_client = |call: &ToolCall| thread.turn.reply_options.tool(&call.name).is_some();
        let called = thread.messages.last().map_or(&[][..], |message| &message.tool_calls);
        if called.iter().any(is_of_client) {
            next = Transition::end().learn(Fact::Worked);
        }
        let mut outputs = outputs.into_iter();
        let answered = wanted(thread).answered(|call| match resolve(thread, &call.name) {
            Some(_) => outputs.next(),
            None if is_of_client(call) => None,
            None => Some(ToolOutput::Refused(format!("there is no tool called {:?}", call.name))),
        });
        answered.into_iter().fold(next, Transition::say)
    }
}

fn wanted<'a>(thread: &'a Thread<Chat>) -> RequestedCalls<'a, impl Fn(&ToolCall) -> Option<&'a Tool>> {
    RequestedCalls::of(&thread.messages, |call| {
        let (server, tool) = resolve(thread, &call.name)?;
        thread.tool_called(server, tool)
    })
}
