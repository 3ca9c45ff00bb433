//! Fills in the payload of the next command from the results of the earlier ones.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    Extract, Node, Safety, Thread, Transition,
    strategies::{
        action_plan::{
            ActionPlan, Ending, Fact, NodeName, Outcome, Payload, Step,
            commands::{self, Command},
            route::{begin, consult, onward, propose},
        },
        prompt::fill,
    },
};

pub(in crate::strategies::action_plan) struct NextPayload;

/// What the model makes of the next step.
#[derive(Deserialize, JsonSchema)]
pub(in crate::strategies::action_plan) struct Prepared {
    /// What the command takes, as its schema says; null if the step cannot be done as planned.
    #[serde(default)]
    payload: Option<Payload>,
    /// Why the step cannot be done as planned, or what is missing; null if it can.
    #[serde(default)]
    obstacle: Option<String>,
}

impl Node<ActionPlan> for NextPayload {
    type Effect = Extract<Prepared>;

    fn ask(&self, thread: &Thread<ActionPlan>) -> Self::Effect {
        let state = &thread.state;
        let told = state.plan.as_ref().map_or(String::new(), |it| it.told(&state.outcomes));
        let step = state.step();
        let current = step.map_or(String::new(), |it| format!("step {}, {}", it.id, it.description));
        let details = step.and_then(|it| commands::find(thread, &it.command()));
        let details = details.map_or(String::new(), |it| commands::detail(&it));
        let problem = state.attempt.problem.as_ref();
        let problem = problem.map_or(String::new(), |it| format!("What went wrong last time: {it}"));
        let blanks = [
            ("plan", &*told),
            ("step", &current),
            ("details", &details),
            ("problem", &problem),
            ("time", &thread.turn.time),
        ];
        let system = fill(include_str!("../prompts/next_payload.md"), &blanks);
        Extract::new(&thread.config.model, system, thread.all())
    }

    /// A payload that was approved as part of the plan changes only with a new plan.
    fn learn(
        &self,
        thread: &Thread<ActionPlan>,
        Prepared { payload, obstacle }: Prepared,
    ) -> Transition<ActionPlan> {
        if let Some(because) = obstacle.filter(|it| !it.trim().is_empty()) {
            return consult(thread, NodeName::ConfirmPlan, Fact::Reopened { because });
        }
        let state = &thread.state;
        let (Some(step), Some(plan)) = (state.step(), &state.plan) else {
            return Transition::to(NodeName::Report).learn(Fact::Ended(Ending::Finished));
        };
        let nothing = || commands::find(thread, &step.command()).filter(Command::takes_nothing);
        let payload = payload.or_else(|| step.payload.clone()).or_else(|| nothing().map(|_| Payload::new()));
        let Some(payload) = payload else { return left_out(thread, step) };
        if let Some(twin) = done_before(thread, step, &payload) {
            let why = format!("step {twin} did the same before the plan was changed: not run again");
            return onward(thread, None, Fact::SameAs { step: twin }).because(why);
        }
        if step.payload.as_ref().is_some_and(|it| *it != payload) {
            return propose(
                thread,
                plan.with_payload(step.id, payload),
                "One step must be called differently.",
            );
        }
        begin(Transition::to(NodeName::RunCommand), state, step, payload)
    }
}

/// Handles a reply with neither a payload nor an obstacle. The model gets as many corrections as a payload does; after
/// that, the missing reply is the obstacle.
fn left_out(thread: &Thread<ActionPlan>, step: &Step) -> Transition<ActionPlan> {
    if thread.state.attempt.refusals < thread.config.repairs {
        let why = "as neither a payload nor an obstacle was given; what takes nothing takes the payload {}";
        return consult(thread, NodeName::NextPayload, Fact::Unfit { why: why.to_owned() });
    }
    let because = format!("nobody said what {} is called with, nor what is in the way", step.command());
    consult(thread, NodeName::ConfirmPlan, Fact::Reopened { because })
}

/// Returns a step of an earlier plan that called the same command with the same payload, if a repetition could do harm.
fn done_before(thread: &Thread<ActionPlan>, step: &Step, payload: &Payload) -> Option<u32> {
    let safety = commands::find(thread, &step.command()).map_or(Safety::Write, |it| it.tool.safety);
    if safety == Safety::Read {
        return None;
    }
    let state = &thread.state;
    let steps = state.plan.as_ref().map_or(&[][..], |it| &it.steps);
    let same = |it: &&Step| match state.outcomes.get(&it.id) {
        Some(Outcome::Done { payload: done, under, .. }) => {
            it.command() == step.command() && done == payload && state.approved.as_ref() != Some(under)
        }
        Some(Outcome::Skipped { .. } | Outcome::Failed { .. }) | None => false,
    };
    steps.iter().find(same).map(|it| it.id)
}
