//! Transitions that several nodes share: to the next step, to a node that calls a model, or to the end.

use super::{
    ActionPlan, NodeName,
    plan::{Payload, Plan, Step},
    state::{Ending, Fact, State},
};
use crate::{InterruptKind, Message, Question, Thread, ToolCall, Transition};

/// Options for the answer to a plan.
pub(super) const YES: &str = "yes";
pub(super) const NO: &str = "no";
pub(super) const CHANGE: &str = "change";

/// Puts `plan` in force, shows it to the person after `words`, and asks for approval.
pub(super) fn propose(thread: &Thread<ActionPlan>, plan: Plan, words: &str) -> Transition<ActionPlan> {
    let hash = plan.hash();
    let shown = plan.shown(&thread.state.outcomes);
    let words = words.trim();
    let words = if words.is_empty() { String::new() } else { format!("{words}\n\n") };
    let question =
        format!("{words}The plan {hash}:\n{shown}\nShall I carry it out? ({YES}, {NO} or {CHANGE})");
    let options = [YES, NO, CHANGE].map(str::to_owned).to_vec();
    let question = Question { kind: InterruptKind::Approval, question, options };
    Transition::ask(question, NodeName::ReceiveApproval)
        .learn(Fact::Planned(plan))
        .learn(Fact::Shown { plan: hash })
}

/// Moves to the next step after `said` and `fact` are applied, or to the report if no step is open or a limit is
/// reached.
pub(super) fn onward(
    thread: &Thread<ActionPlan>,
    said: Option<Message>,
    fact: Fact,
) -> Transition<ActionPlan> {
    let mut after = thread.state.clone();
    after.evolve(&fact);
    let first = |to: NodeName| said.into_iter().fold(Transition::to(to).learn(fact), Transition::say);
    let Some(step) = after.step() else {
        return first(NodeName::Report).learn(Fact::Ended(Ending::Finished));
    };
    if let Some(limit) = exhausted(thread, &after) {
        return stuck(first(NodeName::Report), limit);
    }
    match &step.payload {
        Some(payload) => begin(first(NodeName::RunCommand), &after, step, payload.clone()),
        None => first(NodeName::NextPayload),
    }
}

/// Runs `step` with `payload`. The transition adds the call to the conversation, so that it gets a result in every
/// case.
pub(super) fn begin(
    next: Transition<ActionPlan>,
    state: &State,
    step: &Step,
    payload: Payload,
) -> Transition<ActionPlan> {
    let call = ToolCall {
        id: format!("call_{}", state.calls),
        name: step.tool.clone(),
        arguments: payload.clone().into(),
    };
    let words = Message { tool_calls: vec![call], ..Message::assistant(&step.description) };
    next.learn(Fact::Begun { payload }).say(words)
}

/// Moves to `node`, which calls a model, or to the report if a limit is reached.
pub(super) fn consult(thread: &Thread<ActionPlan>, node: NodeName, fact: Fact) -> Transition<ActionPlan> {
    match exhausted(thread, &thread.state) {
        Some(limit) => stuck(Transition::to(NodeName::Report).learn(fact), limit),
        None => Transition::to(node).learn(fact),
    }
}

/// Ends the turn because of a limit.
fn stuck(next: Transition<ActionPlan>, limit: String) -> Transition<ActionPlan> {
    next.learn(Fact::Ended(Ending::Stuck { reason: limit.clone() })).because(limit)
}

/// Returns the limit that the turn has reached, if any.
pub(super) fn exhausted(thread: &Thread<ActionPlan>, state: &State) -> Option<String> {
    let (steps, calls) = (thread.config.steps_max, thread.config.model_calls);
    if steps <= state.begun {
        return Some(format!("the limit of {steps} commands for a turn is reached"));
    }
    (calls <= thread.turn.model_calls)
        .then(|| format!("the limit of {calls} model calls for a turn is reached"))
}
