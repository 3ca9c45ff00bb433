//! Runs the tool calls that the model requested, all concurrently.

use crate::{
    loop_guard::RequestedCalls,
    research::{NodeName, Research, offer::meant},
};
use shared::{CallTool, Node, Thread, Tool, ToolCall, ToolOutput, Transition};

pub(in crate::research) struct ExecuteTools;

impl Node<Research> for ExecuteTools {
    type Effect = Vec<CallTool>;

    /// Calls beyond the limit of the turn are not carried out.
    fn ask(&self, thread: &Thread<Research>) -> Self::Effect {
        let left = thread.config.tool_calls.saturating_sub(thread.turn.tool_calls) as usize;
        let calls = wanted(thread);
        let known = calls.fresh().filter_map(|call| {
            let (server, tool) = meant(thread, &call.name).ok()?;
            Some(CallTool {
                server: server.to_owned(),
                call: ToolCall { name: tool.to_owned(), ..call.clone() },
            })
        });
        known.take(left).collect()
    }

    fn learn(&self, thread: &Thread<Research>, outputs: Vec<ToolOutput>) -> Transition<Research> {
        let mut outputs = outputs.into_iter();
        let limit = format!("the limit of {} tool calls for a turn is reached", thread.config.tool_calls);
        let mut over = false;
        let answered = wanted(thread).answered(|call| match meant(thread, &call.name) {
            Err(problem) => Some(ToolOutput::Error(problem)),
            Ok(_) => outputs.next().or_else(|| {
                over = true;
                Some(ToolOutput::Refused(limit.clone()))
            }),
        });
        let next = answered.into_iter().fold(Transition::to(NodeName::PlanningAgent), Transition::say);
        if over { next.because(limit) } else { next }
    }
}

fn wanted<'a>(thread: &'a Thread<Research>) -> RequestedCalls<'a, impl Fn(&ToolCall) -> Option<&'a Tool>> {
    RequestedCalls::of(&thread.messages, |call| {
        let (server, tool) = meant(thread, &call.name).ok()?;
        thread.tool_called(server, tool)
    })
}
