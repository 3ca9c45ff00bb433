//! Looks at the results so far before the next command runs: fills in or confirms its payload, and fills in those of later
//! commands that are known by then.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Extract, Node, Safety, Thread, Transition};

use crate::{
    action_plan::{
        ActionPlan, Cause, Ending, Fact, NodeName, Payload, Step, StepResult,
        commands::{self, Command},
        route::{begin_or_ask, consult, onward},
    },
    prompt::fill,
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/next_payload.md");

pub(in crate::action_plan) struct NextPayload;

/// What the model makes of the next step.
#[derive(Deserialize, JsonSchema)]
pub(in crate::action_plan) struct Prepared {
    /// What the command takes, as its schema says; null if the step cannot be done as planned.
    #[serde(default)]
    payload: Option<Payload>,
    /// Why the step cannot be done as planned, or what is missing; null if it can.
    #[serde(default)]
    obstacle: Option<String>,
    /// The reason to end the plan before this step, after what came so far; null if it goes on.
    #[serde(default)]
    stop: Option<String>,
    /// The payloads of later steps, for each whose values are all known now as well.
    #[serde(default)]
    later: Vec<Later>,
}

/// A later step, now that its values are known.
#[derive(Deserialize, JsonSchema)]
struct Later {
    /// The number of the step.
    step: u32,
    /// The payload of its command, as its schema says.
    payload: Payload,
}

impl Node<ActionPlan> for NextPayload {
    type Effect = Extract<Prepared>;

    fn ask(&self, thread: &Thread<ActionPlan>) -> Self::Effect {
        let state = &thread.state;
        let told = state.plan.as_ref().map_or(String::new(), |plan| plan.told(&state.outcomes));
        let step = state.step();
        let current = step.map_or(String::new(), |step| format!("step {}, {}", step.id, step.description));
        let details = step.and_then(|step| commands::find(thread, &step.command()));
        let details = details.map_or(String::new(), |command| commands::detail(&command));
        let later = later_details(thread);
        let problem = state.attempt.problem.as_ref();
        let problem =
            problem.map_or(String::new(), |problem| format!("What went wrong last time: {problem}"));
        let blanks = [
            ("plan", &*told),
            ("step", &current),
            ("details", &details),
            ("later", &later),
            ("problem", &problem),
            ("time", &thread.turn.time),
        ];
        let system = fill(PROMPT, &blanks);
        Extract::new(&thread.config.model, system, thread.all())
    }

    /// A payload that the person has not approved is shown before it runs.
    fn learn(&self, thread: &Thread<ActionPlan>, reply: Prepared) -> Transition<ActionPlan> {
        let Prepared { payload, obstacle, stop, later } = reply;
        if let Some(reason) = stop.filter(|text| !text.trim().is_empty()) {
            let ended = Fact::Ended(Ending::Stuck { reason: reason.clone() });
            return Transition::to(NodeName::Report)
                .learn(ended)
                .because(reason)
                .partial("stopped by a result");
        }
        if let Some(reason) = obstacle.filter(|text| !text.trim().is_empty()) {
            return consult(thread, NodeName::ConfirmPlan, Fact::Reopened { reason });
        }
        let Some(step) = thread.state.step() else {
            return Transition::to(NodeName::Report).learn(Fact::Ended(Ending::Finished));
        };
        let nothing = || commands::find(thread, &step.command()).filter(Command::takes_nothing);
        let payload = payload.or_else(|| step.payload.clone()).or_else(|| nothing().map(|_| Payload::new()));
        let Some(payload) = payload else { return left_out(thread, step) };
        if let Some(why) = commands::mismatch(thread, step, &payload) {
            return unfit(thread, why);
        }
        if let Some(twin) = done_before(thread, step, &payload) {
            let why = format!("step {twin} did the same before the plan was changed: not run again");
            return onward(thread, None, Fact::SameAs { step: twin }).because(why);
        }
        let mut payloads = known_later(thread, step, later);
        if step.payload.as_ref() != Some(&payload) {
            payloads.insert(step.id, payload.clone());
        }
        let filled = (!payloads.is_empty()).then_some(Fact::Filled { payloads });
        let mut after = thread.state.clone();
        filled.iter().for_each(|fact| after.evolve(fact));
        begin_or_ask(thread, &after, step, &payload).preceded_by([], filled)
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Returns the steps after the current one that have no payload yet.
fn open_later(thread: &Thread<ActionPlan>) -> impl Iterator<Item = &Step> {
    let state = &thread.state;
    let open = state.plan.iter().flat_map(|plan| &plan.steps).filter(|step| !state.is_settled(step.id));
    open.skip(1).filter(|step| step.payload.is_none())
}

/// Describes the commands of later steps without a payload.
fn later_details(thread: &Thread<ActionPlan>) -> String {
    let line = |step: &Step| {
        let command = commands::find(thread, &step.command())?;
        Some(format!("- step {}, {}:\n{}", step.id, step.description, commands::detail(&command)))
    };
    let all: Vec<String> = open_later(thread).filter_map(line).collect();
    if all.is_empty() { "none".to_owned() } else { all.join("\n") }
}

/// Returns the payloads of later steps that can be shown together with the current one. Others are left for their turn:
/// those that do not fit their schema, and those that would repeat a step.
fn known_later(thread: &Thread<ActionPlan>, current: &Step, later: Vec<Later>) -> BTreeMap<u32, Payload> {
    let usable = |Later { step, payload }: Later| {
        let step = open_later(thread).find(|later| later.id == step && later.id != current.id)?;
        let fits = commands::mismatch(thread, step, &payload).is_none();
        (fits && done_before(thread, step, &payload).is_none()).then_some((step.id, payload))
    };
    later.into_iter().filter_map(usable).collect()
}

/// Handles a payload that does not fit the schema of its command: the model may correct it as often as configured.
fn unfit(thread: &Thread<ActionPlan>, why: String) -> Transition<ActionPlan> {
    if thread.state.attempt.refusals < thread.config.repairs {
        return consult(thread, NodeName::NextPayload, Fact::Unfit { why });
    }
    let reason = format!("no payload was found that fits it, {why}");
    Transition::to(NodeName::AssessFailure).learn(Fact::Failed { reason, cause: Cause::Unfit })
}

/// Handles a reply with neither a payload nor an obstacle. The model gets as many corrections as a payload does; after
/// that, the missing reply is the obstacle.
fn left_out(thread: &Thread<ActionPlan>, step: &Step) -> Transition<ActionPlan> {
    if thread.state.attempt.refusals < thread.config.repairs {
        let why = "as neither a payload nor an obstacle was given; what takes nothing takes the payload {}";
        return consult(thread, NodeName::NextPayload, Fact::Unfit { why: why.to_owned() });
    }
    let reason = format!("the model gave neither arguments for {} nor an obstacle", step.command());
    consult(thread, NodeName::ConfirmPlan, Fact::Reopened { reason })
}

/// Returns a step of an earlier plan that called the same command with the same payload, if a repetition could do harm.
fn done_before(thread: &Thread<ActionPlan>, step: &Step, payload: &Payload) -> Option<u32> {
    let safety = commands::find(thread, &step.command()).map_or(Safety::Write, |command| command.tool.safety);
    if safety == Safety::Read {
        return None;
    }
    let state = &thread.state;
    let steps = state.plan.as_ref().map_or(&[][..], |plan| &plan.steps);
    let same = |other: &&Step| match state.outcomes.get(&other.id) {
        Some(StepResult::Done { payload: done, under, .. }) => {
            other.command() == step.command() && done == payload && state.approved.as_ref() != Some(under)
        }
        Some(StepResult::Skipped { .. } | StepResult::LeftOut { .. } | StepResult::Failed { .. }) | None => {
            false
        }
    };
    steps.iter().find(same).map(|step| step.id)
}
