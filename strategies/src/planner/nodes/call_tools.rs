//! Runs the tool calls that the model requested, all concurrently.

use crate::{
    loop_guard::RequestedCalls,
    planner::{NodeName, Planning, of_the_task},
};
use shared::{CallTool, Node, Safety, Thread, Tool, ToolCall, ToolOutput, Transition};

pub(crate) struct CallTools;

impl<S: Planning> Node<S> for CallTools {
    type Effect = Vec<CallTool>;

    fn ask(&self, thread: &Thread<S>) -> Self::Effect {
        let call = |call: &ToolCall| CallTool { server: expert(thread, call).to_owned(), call: call.clone() };
        wanted(thread).fresh().filter(|call| !is_held(thread, call)).map(call).collect()
    }

    fn learn(&self, thread: &Thread<S>, outputs: Vec<ToolOutput>) -> Transition<S> {
        let mut outputs = outputs.into_iter();
        let answered = wanted(thread).answered(|call| match is_held(thread, call) {
            true => Some(ToolOutput::Refused(HELD.to_owned())),
            false => outputs.next(),
        });
        answered.into_iter().fold(Transition::to(NodeName::Assess), Transition::say)
    }
}

/// Refusal of a call that may change something before the question of the plan is asked.
const HELD: &str = "as the person is asked a question first: until then, only look things up";

/// Returns true if the call may change something, and the person has not answered the question of the plan.
fn is_held<S: Planning>(thread: &Thread<S>, call: &ToolCall) -> bool {
    let asks = S::planned(thread).plan.as_ref().is_some_and(|plan| plan.question.is_some());
    let reads = || {
        thread.tool_called(expert(thread, call), &call.name).is_some_and(|tool| tool.safety == Safety::Read)
    };
    asks && !reads()
}

fn wanted<'a, S: Planning>(
    thread: &'a Thread<S>,
) -> RequestedCalls<'a, impl Fn(&ToolCall) -> Option<&'a Tool>> {
    RequestedCalls::of(of_the_task(thread), |call| thread.tool_called(expert(thread, call), &call.name))
}

/// Returns the expert whose tool is called: that of the task that requested the call. An earlier call of several tasks counts as
/// one of the first task that has a tool of that name.
fn expert<'a, S: Planning>(thread: &'a Thread<S>, call: &ToolCall) -> &'a str {
    let state = S::planned(thread);
    let Some(plan) = state.plan.as_ref().filter(|plan| !plan.beside.is_empty()) else {
        return &state.task().expert;
    };
    let last = thread.messages.last().map_or(&[][..], |message| &message.tool_calls);
    let tasks = [plan.current].into_iter().chain(plan.beside.iter().copied());
    let has_tool = |nth: &usize| thread.tool_called(&plan.tasks[*nth].expert, &call.name).is_some();
    let task = match last.iter().position(|earlier| earlier.id == call.id && earlier.name == call.name) {
        Some(nth) => plan.caller(nth),
        None => tasks.into_iter().find(has_tool).unwrap_or(plan.current),
    };
    &plan.tasks[task].expert
}
