//! Transitions that several nodes share: to the next step, to a node that calls a model, or to the end.

use super::{
    ActionPlan, NodeName,
    approval::{may_run, propose_payloads},
    commands,
    condition::{Verdict, verdict},
    plan::{Payload, Step},
    state::{Ending, Fact, State},
};
use shared::{Message, Safety, Thread, ToolCall, Transition};

/// Moves to the next step after `said` and `fact` are applied, or to the report if no step is open or a limit is
/// reached. A step whose condition is not met is left out; the plan is opened again if the result does not tell.
///
/// **Invariant:** no command that writes follows the results of others unseen: a model looks at them first, or a person is asked
/// with the results in view.
pub(super) fn onward(
    thread: &Thread<ActionPlan>,
    said: Option<Message>,
    fact: Fact,
) -> Transition<ActionPlan> {
    let mut after = thread.state.clone();
    after.evolve(&fact);
    let mut facts = vec![fact];
    while let Some(Verdict::Unmet(reason)) = after.step().map(|step| verdict(&after, step)) {
        let fact = Fact::LeftOut { reason };
        after.evolve(&fact);
        facts.push(fact);
    }
    let next = match (after.step(), exhausted(thread, &after)) {
        (None, _) => Transition::to(NodeName::Report).learn(Fact::Ended(Ending::Finished)),
        (Some(_), Some(limit)) => stuck(Transition::to(NodeName::Report), limit),
        (Some(step), None) => match (verdict(&after, step), &step.payload) {
            (Verdict::Unknown(reason), _) => {
                Transition::to(NodeName::ConfirmPlan).learn(Fact::Reopened { reason })
            }
            (Verdict::Met | Verdict::Unmet(_), Some(payload))
                if !needs_look(thread, &after, step, payload) =>
            {
                begin_or_ask(thread, &after, step, payload)
            }
            (Verdict::Met | Verdict::Unmet(_), _) => Transition::to(NodeName::NextPayload),
        },
    };
    next.preceded_by(said, facts)
}

/// Returns whether a model looks at the results before `step` runs: it writes, there are results that were not seen, and no
/// person is asked with the results in view.
fn needs_look(thread: &Thread<ActionPlan>, state: &State, step: &Step, payload: &Payload) -> bool {
    state.unseen && commands::safety(thread, step) != Safety::Read && may_run(thread, state, step, payload)
}

/// Runs `step` with `payload` if a person approved that, and asks for approval otherwise.
///
/// **Invariant:** no other function begins a command.
pub(super) fn begin_or_ask(
    thread: &Thread<ActionPlan>,
    state: &State,
    step: &Step,
    payload: &Payload,
) -> Transition<ActionPlan> {
    if may_run(thread, state, step, payload) {
        return begin(Transition::to(NodeName::RunCommand), state, step, payload.clone());
    }
    propose_payloads(thread, state)
}

/// Runs `step` with `payload`. The transition adds the call to the conversation, so that it gets a result in every
/// case.
fn begin(
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
fn stuck(next: Transition<ActionPlan>, Limit { key, why }: Limit) -> Transition<ActionPlan> {
    next.learn(Fact::Ended(Ending::Stuck { reason: why.clone() })).because(why).partial(key)
}

/// Limit that a turn has reached.
pub(super) struct Limit {
    /// Its key in the configuration.
    key: &'static str,
    why: String,
}

/// Returns the limit that the turn has reached, if any.
pub(super) fn exhausted(thread: &Thread<ActionPlan>, state: &State) -> Option<Limit> {
    let (steps, calls) = (thread.config.steps_max, thread.config.model_calls);
    if steps <= state.begun {
        let why = format!("the limit of {steps} commands for a turn is reached");
        return Some(Limit { key: "steps_max", why });
    }
    let why = || format!("the limit of {calls} model calls for a turn is reached");
    (calls <= thread.turn.model_calls).then(|| Limit { key: "model_calls", why: why() })
}
