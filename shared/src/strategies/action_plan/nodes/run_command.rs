//! Runs the next command: one command per job.

use crate::{
    CallTool, Message, Node, Thread, ToolCall, ToolOutput, Transition,
    strategies::action_plan::{
        ActionPlan, Cause, Fact, NodeName,
        route::{consult, onward},
    },
};

pub(in crate::strategies::action_plan) struct RunCommand;

impl Node<ActionPlan> for RunCommand {
    type Effect = CallTool;

    fn ask(&self, thread: &Thread<ActionPlan>) -> CallTool {
        let server = thread.state.step().map_or(String::new(), |it| it.server.clone());
        CallTool { server, call: call(thread) }
    }

    fn learn(&self, thread: &Thread<ActionPlan>, output: ToolOutput) -> Transition<ActionPlan> {
        let heard = Message::tool(&call(thread), output.model_text());
        let (reason, cause) = match output {
            ToolOutput::Ok(result) => return onward(thread, Some(heard), Fact::Succeeded { result }),
            ToolOutput::Refused(why) if thread.state.attempt.refusals < thread.config.repairs => {
                return consult(thread, NodeName::NextPayload, Fact::Unfit { why }).say(heard);
            }
            ToolOutput::Refused(why) => (format!("no payload was found that fits it: {why}"), Cause::Unfit),
            ToolOutput::Error(why) if why == crate::progress::SKIPPED => (why, Cause::Unknown),
            ToolOutput::Error(why) => (why, Cause::Error),
        };
        Transition::to(NodeName::AssessFailure).learn(Fact::Failed { reason, cause }).say(heard)
    }
}

/// Returns the call that the previous decision added to the conversation.
fn call(thread: &Thread<ActionPlan>) -> ToolCall {
    let said = thread.messages.last().and_then(|it| it.tool_calls.first());
    said.cloned().unwrap_or_else(|| ToolCall {
        id: String::new(),
        name: String::new(),
        arguments: serde_json::Value::Null,
    })
}
