//! Approval: the payloads that must be shown to the person, the questions that show them, and the calls that may run.

use std::fmt::Write as _;

use super::{
    ActionPlan, Approve, NodeName, commands,
    plan::{Payload, Plan, Step},
    state::{Fact, State},
};
use shared::{
    InterruptKind, ProposedCall, Question, Safety, Sentence, Thread, Transition, visible_line, visible_start,
};

/// Options for the answer to a plan. Other words are read too, see [`Answer`](shared::Answer).
pub(super) const OPTIONS: [&str; 3] = ["yes", "no", "change"];

/// Maximum length of a changed description in a question, in characters.
const DESCRIPTION_MAX: usize = 400;

/// The question for approval, of one payload or of several.
const ASK_ONE: Sentence = Sentence {
    english: "Shall I carry it out? (yes, no or change)",
    german: "Soll ich das ausführen? (ja, nein oder ändern)",
    french: "Dois-je l'exécuter ? (oui, non ou modifier)",
    spanish: "¿Lo ejecuto? (sí, no o cambiar)",
};
const ASK_SEVERAL: Sentence = Sentence {
    english: "Shall I carry them out? (yes, no or change)",
    german: "Soll ich diese ausführen? (ja, nein oder ändern)",
    french: "Dois-je les exécuter ? (oui, non ou modifier)",
    spanish: "¿Los ejecuto? (sí, no o cambiar)",
};

/// Returns whether `step` of the approved plan may run with exactly this payload.
///
/// **Invariant:** a payload that was shown runs only unchanged, under every setting.
pub(super) fn may_run(thread: &Thread<ActionPlan>, state: &State, step: &Step, payload: &Payload) -> bool {
    let approved = state.approved_calls.get(&step.id);
    if approved
        .is_some_and(|call| call.server == step.server && call.tool == step.tool && call.payload == *payload)
    {
        return state.approved.is_some();
    }
    let needs_none = match thread.config.approve {
        Approve::Writes => commands::safety(thread, step) == Safety::Read,
        Approve::EveryStep => false,
        Approve::Plan => approved.is_none(),
    };
    needs_none && state.approved.is_some()
}

/// Puts `plan` in force, shows it to the person after `words`, and asks for approval.
pub(super) fn propose(thread: &Thread<ActionPlan>, plan: Plan, words: &str) -> Transition<ActionPlan> {
    let shown = Fact::Shown { plan: plan.hash(), steps: shown_with_plan(thread, &plan) };
    let question = plan_question(thread, &plan, words);
    Transition::ask(question, NodeName::ReceiveApproval).learn(Fact::Planned(plan)).learn(shown)
}

/// Revokes the approval and shows the plan again, because the server of the current step has changed its tool. The thread knows the
/// tool as it is now. A payload that does not fit it any more is planned again.
pub(super) fn show_changed(thread: &Thread<ActionPlan>) -> Transition<ActionPlan> {
    let (Some(step), Some(plan)) = (thread.state.step(), thread.state.plan.clone()) else {
        return Transition::to(NodeName::ConfirmPlan);
    };
    let reason = format!("{} was changed by its server since the plan was shown", step.command());
    let command = commands::find(thread, &step.command());
    let payload = thread.state.attempt.payload.as_ref();
    let misfit = payload.and_then(|payload| commands::mismatch(thread, step, payload));
    match (command, misfit) {
        (Some(command), None) => {
            let says = visible_start(&command.tool.description, DESCRIPTION_MAX);
            let words = format!("{reason}. It now says: “{says}” Please look at the plan once more.");
            propose(thread, plan, &words).preceded_by([], [Fact::Reopened { reason }])
        }
        (_, misfit) => {
            let reason = misfit.map_or(reason.clone(), |misfit| format!("{reason}, {misfit}"));
            Transition::to(NodeName::ConfirmPlan).learn(Fact::Reopened { reason })
        }
    }
}

/// Shows the payloads that are known and not approved, and asks for approval: all of them in one question, or only the
/// next one if every step is approved by itself. `state` is the state after the facts that the caller adds.
pub(super) fn propose_payloads(thread: &Thread<ActionPlan>, state: &State) -> Transition<ActionPlan> {
    let Some(plan) = &state.plan else { return Transition::to(NodeName::ConfirmPlan) };
    let steps = unapproved(thread, state);
    let question = payload_question(thread, state, plan, &steps);
    Transition::ask(question, NodeName::ReceiveApproval).learn(Fact::Shown { plan: plan.hash(), steps })
}

/// Asks again about what is shown, after `words`. Returns `None` if nothing is.
pub(super) fn repeat(thread: &Thread<ActionPlan>, words: &str) -> Option<Question> {
    let State { plan, shown, approved, .. } = &thread.state;
    let (plan, shown) = (plan.as_ref()?, shown.as_ref()?);
    if approved.is_none() {
        return Some(plan_question(thread, plan, words));
    }
    let question = payload_question(thread, &thread.state, plan, &shown.steps);
    Some(Question { question: format!("{words}\n\n{}", question.question), ..question })
}

/// Returns the calls that the open question asks the person to approve.
pub(super) fn proposed_calls(thread: &Thread<ActionPlan>) -> Vec<ProposedCall> {
    let State { plan: Some(plan), shown: Some(shown), approved, .. } = &thread.state else {
        return Vec::new();
    };
    let is_asked = |step: &&Step| match approved {
        None => !thread.state.is_settled(step.id),
        Some(_) => shown.steps.contains(&step.id),
    };
    let call = |step: &Step| ProposedCall {
        server: step.server.clone(),
        tool: step.tool.clone(),
        description: step.description.clone(),
        arguments: step.payload.clone(),
    };
    plan.steps.iter().filter(is_asked).map(call).collect()
}

/// Returns the open steps whose payloads a yes to the plan approves.
fn shown_with_plan(thread: &Thread<ActionPlan>, plan: &Plan) -> Vec<u32> {
    if thread.config.approve == Approve::EveryStep {
        return Vec::new();
    }
    let open = plan.steps.iter().filter(|step| !thread.state.is_settled(step.id));
    open.filter(|step| step.payload.is_some()).map(|step| step.id).collect()
}

/// Returns the open steps with a payload that may not run.
fn unapproved(thread: &Thread<ActionPlan>, state: &State) -> Vec<u32> {
    let open = state.plan.iter().flat_map(|plan| &plan.steps).filter(|step| !state.is_settled(step.id));
    let needs =
        |step: &&Step| step.payload.as_ref().is_some_and(|payload| !may_run(thread, state, step, payload));
    let all = open.filter(needs).map(|step| step.id);
    match thread.config.approve {
        Approve::EveryStep => all.take(1).collect(),
        Approve::Writes | Approve::Plan => all.collect(),
    }
}

fn plan_question(thread: &Thread<ActionPlan>, plan: &Plan, words: &str) -> Question {
    let line = |(nth, step): (usize, &Step)| {
        let outcome = thread.state.outcomes.get(&step.id);
        step.shown(
            plan,
            nth,
            outcome,
            if thread.state.is_settled(step.id) { "" } else { later(thread, step) },
        )
    };
    let lines: Vec<String> = plan.steps.iter().enumerate().map(line).collect();
    let extent = match thread.config.approve {
        Approve::EveryStep => "\nEach step is shown again, with its payload, before it runs.",
        Approve::Writes | Approve::Plan => "",
    };
    let hash = plan.hash();
    let results = plan.results(&thread.state.outcomes);
    question(thread, words, &format!("The plan {hash}:\n{}{results}{extent}", lines.join("\n")), ASK_ONE)
}

/// Describes what becomes of a payload that is not known yet.
fn later(thread: &Thread<ActionPlan>, step: &Step) -> &'static str {
    match thread.config.approve {
        Approve::Writes if commands::safety(thread, step) == Safety::Read => "",
        Approve::Writes => ", its payload is shown before it runs",
        Approve::EveryStep => "",
        Approve::Plan => ", its payload is filled in and not shown",
    }
}

fn payload_question(thread: &Thread<ActionPlan>, state: &State, plan: &Plan, steps: &[u32]) -> Question {
    let mut text = format!("Of the plan {}, with payloads that were not approved yet:", plan.hash());
    for (nth, step) in plan.steps.iter().enumerate().filter(|(_, step)| steps.contains(&step.id)) {
        let _ = write!(text, "\n{}", step.shown(plan, nth, None, ""));
        let before =
            state.approved_calls.get(&step.id).filter(|call| Some(&call.payload) != step.payload.as_ref());
        if let Some(before) = before {
            let _ = write!(text, "\n   instead of {}", visible_line(&super::plan::json(&before.payload)));
        }
    }
    text.push_str(&plan.results(&state.outcomes));
    question(thread, "", &text, if steps.len() == 1 { ASK_ONE } else { ASK_SEVERAL })
}

fn question(thread: &Thread<ActionPlan>, words: &str, text: &str, ask: Sentence) -> Question {
    let words = words.trim();
    let words = if words.is_empty() { String::new() } else { format!("{words}\n\n") };
    let question = format!("{words}{text}\n{}", ask.for_readers_of(&thread.messages));
    let options = OPTIONS.map(str::to_owned).to_vec();
    Question { kind: InterruptKind::Approval, question, options, open_ended: true }
}
