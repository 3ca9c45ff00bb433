//! Runs the next command: one command per job.

use crate::action_plan::{
    ActionPlan, Cause, Fact, NodeName, Step,
    approval::{may_run, show_changed},
    condition::{Verdict, verdict},
    route::{consult, onward},
};
use shared::{CallTool, Message, Node, TOOL_CHANGED, Thread, ToolCall, ToolOutput, Transition};

pub(in crate::action_plan) struct RunCommand;

impl Node<ActionPlan> for RunCommand {
    type Effect = Vec<CallTool>;

    /// Requests the call, or nothing if it is not the approved one.
    fn ask(&self, thread: &Thread<ActionPlan>) -> Vec<CallTool> {
        let step = thread.state.step().filter(|step| is_approved(thread, step));
        step.map(|step| CallTool { server: step.server.clone(), call: call(thread) }).into_iter().collect()
    }

    fn learn(&self, thread: &Thread<ActionPlan>, outputs: Vec<ToolOutput>) -> Transition<ActionPlan> {
        let Some(output) = outputs.into_iter().next() else {
            let why = "the call is not the one that was approved";
            let heard = Message::tool(&call(thread), ToolOutput::Refused(why.to_owned()).model_text());
            return onward(thread, Some(heard), Fact::Withheld).because(why);
        };
        let heard = Message::tool(&call(thread), output.model_text());
        let (reason, cause) = match output {
            ToolOutput::Ok(result) => return onward(thread, Some(heard), Fact::Succeeded { result }),
            ToolOutput::Refused(why) if why == TOOL_CHANGED => {
                return show_changed(thread).preceded_by([heard], []);
            }
            ToolOutput::Refused(why) if thread.state.attempt.refusals < thread.config.repairs => {
                return consult(thread, NodeName::NextPayload, Fact::Unfit { why }).say(heard);
            }
            ToolOutput::Refused(why) => (format!("no payload was found that fits it: {why}"), Cause::Unfit),
            ToolOutput::Error(why) if why == shared::SKIPPED => (why, Cause::Unknown),
            ToolOutput::Error(why) => (why, Cause::Error),
        };
        Transition::to(NodeName::AssessFailure).learn(Fact::Failed { reason, cause }).say(heard)
    }
}

/// Returns whether the call in the conversation is exactly what the person approved for `step`, and its condition is met.
///
/// ## Why here again
///
/// The node before compares too. Between the two, a fork may have changed the state.
fn is_approved(thread: &Thread<ActionPlan>, step: &Step) -> bool {
    let ToolCall { name, arguments, .. } = call(thread);
    let payload = thread.state.attempt.payload.as_ref().filter(|it| arguments.as_object() == Some(*it));
    let may_run_now = verdict(&thread.state, step) == Verdict::Met;
    may_run_now
        && name == step.tool
        && payload.is_some_and(|payload| may_run(thread, &thread.state, step, payload))
}

/// Returns the call that the previous decision added to the conversation.
fn call(thread: &Thread<ActionPlan>) -> ToolCall {
    let said = thread.messages.last().and_then(|message| message.tool_calls.first());
    said.cloned().unwrap_or_else(|| ToolCall {
        id: String::new(),
        name: String::new(),
        arguments: serde_json::Value::Null,
    })
}
