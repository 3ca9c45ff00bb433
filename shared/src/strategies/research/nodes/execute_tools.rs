//! The experts do what the model asked, all calls side by side.

use crate::{
    CallTool, Message, Node, Thread, ToolCall, ToolOutput, Transition,
    strategies::research::{NodeName, Research, offer::meant},
};

pub(in crate::strategies::research) struct ExecuteTools;

impl Node<Research> for ExecuteTools {
    type Effect = Vec<CallTool>;

    /// What is over the limit of the turn is not called.
    fn ask(&self, thread: &Thread<Research>) -> Self::Effect {
        let left = thread.config.tool_calls.saturating_sub(thread.turn.tool_calls) as usize;
        let known = calls(thread).iter().filter_map(|call| {
            let (server, tool) = meant(thread, &call.name).ok()?;
            Some(CallTool {
                server: server.to_owned(),
                call: ToolCall { name: tool.to_owned(), ..call.clone() },
            })
        });
        known.take(left).collect()
    }

    /// **Invariant:** every call gets exactly one result, in the order of the calls.
    fn learn(&self, thread: &Thread<Research>, outputs: Vec<ToolOutput>) -> Transition<Research> {
        let mut outputs = outputs.into_iter();
        let limit = thread.config.tool_calls;
        let mut over = false;
        let mut next = Transition::to(NodeName::PlanningAgent);
        for call in calls(thread) {
            let told = match meant(thread, &call.name) {
                Err(problem) => format!("error: {problem}"),
                Ok(_) => outputs.next().map_or_else(
                    || {
                        over = true;
                        format!(
                            "error: not carried out, the limit of {limit} tool calls for a turn is reached"
                        )
                    },
                    |it| it.heard(),
                ),
            };
            next = next.say(Message::tool(call, told));
        }
        if over {
            next.because(format!("the limit of {limit} tool calls for a turn is reached"))
        } else {
            next
        }
    }
}

fn calls(thread: &Thread<Research>) -> &[ToolCall] {
    thread.messages.last().map_or(&[], |it| &it.tool_calls)
}
