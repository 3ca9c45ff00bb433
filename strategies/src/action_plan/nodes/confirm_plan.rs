//! Checks that the plan is right and complete, with the parameters of its commands known.

use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Extract, InterruptKind, Node, Question, Thread, Transition};

use super::gather_facts::{asked, misplanned};
use crate::{
    action_plan::{
        ActionPlan, Condition, Ending, Fact, NodeName, Payload, Plan,
        approval::propose,
        commands,
        plan::{Proposed, merged},
        route::consult,
    },
    prompt::fill,
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/confirm_plan.md");

pub(in crate::action_plan) struct ConfirmPlan;

/// What the model makes of the plan. It has no word for a go-ahead: only a person can give that.
#[derive(Deserialize, JsonSchema)]
pub(in crate::action_plan) struct Confirmation {
    /// What the person should hear before the questions or the plan; no technical details.
    #[serde(default)]
    response_text: String,
    /// All steps that are still to be done, in order; empty if nothing is.
    action_plan: Vec<Detailed>,
    /// Questions to the person, one for each thing that only the person can know.
    #[serde(default)]
    missing_information: Vec<String>,
}

/// A step, now that it is known what its command takes.
#[derive(Deserialize, JsonSchema)]
struct Detailed {
    /// The number of the step of the plan in force that this is; null for a new one.
    #[serde(default)]
    step: Option<u32>,
    /// The full name of the command.
    command: String,
    /// What it does for the person, in plain words and with its values.
    description: String,
    /// What the command takes, if all of it is known by now; null if it depends on an earlier result.
    #[serde(default)]
    payload: Option<Payload>,
    /// The condition over the result of an earlier step under which it is done; null if it is done in any case.
    #[serde(default)]
    only_if: Option<Condition>,
}

impl Node<ActionPlan> for ConfirmPlan {
    type Effect = Extract<Confirmation>;

    fn ask(&self, thread: &Thread<ActionPlan>) -> Self::Effect {
        let state = &thread.state;
        let plan = state.plan.as_ref();
        let told = plan.map_or("none".to_owned(), |plan| plan.told(&state.outcomes));
        let (names, details) = (commands::names(thread), commands::details(thread, plan));
        let obstacle = state.obstacle.as_ref().map(|reason| format!("The plan was opened again: {reason}"));
        let problem = state.problem.as_ref().map(|problem| format!("Your last plan was refused: {problem}"));
        let problem = obstacle.into_iter().chain(problem).collect::<Vec<_>>().join("\n");
        let blanks = [
            ("commands", &*names),
            ("details", &details),
            ("next", &state.steps_planned.to_string()),
            ("plan", &told),
            ("problem", &problem),
            ("time", &thread.turn.time),
        ];
        let system = fill(PROMPT, &blanks);
        Extract::new(&thread.config.model, system, thread.all())
    }

    fn learn(&self, thread: &Thread<ActionPlan>, reply: Confirmation) -> Transition<ActionPlan> {
        let Confirmation { response_text, action_plan, missing_information } = reply;
        let question = asked(&missing_information)
            .map(|question| format!("{response_text}\n\n{question}").trim().to_owned());
        let question = question.map(|text| Question::open(InterruptKind::SlotFill, text));
        let is_dropped = action_plan.is_empty();
        let steps = action_plan.into_iter().map(Detailed::proposed).collect();
        match (merged(thread, steps), question) {
            (Err(problem), _) => misplanned(thread, NodeName::ConfirmPlan, problem),
            (Ok(_), Some(question)) if is_dropped => Transition::ask(question, NodeName::ReceiveAnswer),
            (Ok(plan), Some(question)) => {
                Transition::ask(question, NodeName::ReceiveAnswer).learn(Fact::Planned(plan))
            }
            (Ok(plan), None) if plan.steps.iter().all(|step| thread.state.is_settled(step.id)) => {
                let next = Transition::to(NodeName::Report);
                match is_dropped {
                    true => next.learn(Fact::Ended(Ending::Dropped)).declined("plan dropped"),
                    false => next.learn(Fact::Planned(plan)).learn(Fact::Ended(Ending::Finished)),
                }
            }
            (Ok(plan), None) if !is_disclosed(thread, &plan) => {
                let why = "the plan names commands whose details the model has not seen";
                consult(thread, NodeName::ConfirmPlan, Fact::Planned(plan)).because(why)
            }
            (Ok(plan), None) => propose_valid(thread, plan, &response_text),
        }
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Shows a plan whose payloads fit the schemas of their commands. The model gets one chance to correct a payload that
/// does not; after that, the step has none until its turn comes.
fn propose_valid(thread: &Thread<ActionPlan>, mut plan: Plan, words: &str) -> Transition<ActionPlan> {
    let state = &thread.state;
    let open = plan.steps.iter_mut().filter(|step| !state.is_settled(step.id));
    let mut problems = Vec::new();
    for step in open {
        let why = step.payload.as_ref().and_then(|payload| commands::mismatch(thread, step, payload));
        if let Some(why) = why {
            problems.push(why);
            step.payload = None;
        }
    }
    if problems.is_empty() {
        return propose(thread, plan, words);
    }
    let problem = problems.join("; ");
    if state.problem.is_none() {
        return misplanned(thread, NodeName::ConfirmPlan, problem);
    }
    propose(thread, plan, words).because(format!("{problem}; the payload is filled in later"))
}

impl Detailed {
    fn proposed(self) -> Proposed {
        let Detailed { step, command, description, payload, only_if } = self;
        Proposed { step, command, description, payload, only_if }
    }
}

/// Returns true if the model saw the parameters of the commands in `plan`: those of the plan in force.
fn is_disclosed(thread: &Thread<ActionPlan>, plan: &Plan) -> bool {
    let told = thread.state.plan.as_ref().map_or(&[][..], |plan| &plan.steps);
    plan.steps
        .iter()
        .all(|step| told.iter().any(|known| known.server == step.server && known.tool == step.tool))
}
