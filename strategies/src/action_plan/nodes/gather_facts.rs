//! Selects the commands that the request needs. The model sees their names, not yet their parameters.

use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Extract, InterruptKind, Node, Question, Thread, Transition};

use crate::{
    action_plan::{
        ActionPlan, Ending, Fact, NodeName, commands,
        plan::{Proposed, merged},
        route::consult,
    },
    prompt::fill,
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/gather_facts.md");

pub(in crate::action_plan) struct GatherFacts;

/// What the model gathers.
#[derive(Deserialize, JsonSchema)]
pub(in crate::action_plan) struct Gathered {
    /// The steps, in order; empty if no command is suited, or if it is not clear what is wanted.
    action_plan: Vec<Sketch>,
    /// Questions to the person, one for each thing that only the person can know.
    #[serde(default)]
    missing_information: Vec<String>,
}

/// A step, before it is known what its command takes.
#[derive(Deserialize, JsonSchema)]
struct Sketch {
    /// The full name of the command.
    command: String,
    /// What it does for the person, in plain words.
    description: String,
}

impl Node<ActionPlan> for GatherFacts {
    type Effect = Extract<Gathered>;

    fn ask(&self, thread: &Thread<ActionPlan>) -> Self::Effect {
        let problem = thread.state.problem.as_ref();
        let problem =
            problem.map_or(String::new(), |problem| format!("Your last plan was refused: {problem}"));
        let names = commands::names(thread);
        let blanks = [("commands", &*names), ("problem", &problem), ("time", &thread.turn.time)];
        let system = fill(PROMPT, &blanks);
        Extract::new(&thread.config.model, system, thread.all())
    }

    fn learn(&self, thread: &Thread<ActionPlan>, reply: Gathered) -> Transition<ActionPlan> {
        let Gathered { action_plan, missing_information } = reply;
        let question = asked(&missing_information);
        let propose = |Sketch { command, description }| Proposed {
            step: None,
            command,
            description,
            payload: None,
            only_if: None,
        };
        match (action_plan.is_empty(), question) {
            (true, None) => {
                let why = "no command is suited to the request";
                let next = Transition::to(NodeName::Report).learn(Fact::Ended(Ending::Unsuited));
                next.because(why).declined("no command fits")
            }
            (true, Some(question)) => {
                let question = Question::open(InterruptKind::Clarification, question);
                Transition::ask(question, NodeName::ReceiveAnswer)
            }
            (false, question) => {
                match (merged(thread, action_plan.into_iter().map(propose).collect()), question) {
                    (Err(problem), _) => misplanned(thread, NodeName::GatherFacts, problem),
                    (Ok(plan), None) => consult(thread, NodeName::ConfirmPlan, Fact::Planned(plan)),
                    (Ok(plan), Some(question)) => {
                        let question = Question::open(InterruptKind::SlotFill, question);
                        Transition::ask(question, NodeName::ReceiveAnswer).learn(Fact::Planned(plan))
                    }
                }
            }
        }
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Returns the question to the person, if there is one.
pub(super) fn asked(missing: &[String]) -> Option<String> {
    let missing: Vec<&str> = missing.iter().map(|line| line.trim()).filter(|line| !line.is_empty()).collect();
    match missing[..] {
        [] => None,
        [one] => Some(one.to_owned()),
        _ => Some(missing.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")),
    }
}

/// Handles an invalid proposal: the model receives the error once, at `again`.
pub(super) fn misplanned(
    thread: &Thread<ActionPlan>,
    again: NodeName,
    problem: String,
) -> Transition<ActionPlan> {
    if thread.state.problem.is_none() {
        return consult(thread, again, Fact::Misplanned { problem });
    }
    let ended = Fact::Ended(Ending::Stuck { reason: problem });
    Transition::to(NodeName::Report).learn(ended).declined("no valid plan")
}
