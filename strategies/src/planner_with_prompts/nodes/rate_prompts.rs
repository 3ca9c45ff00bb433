//! Rates each of the expert's prompts for the task.

use schemars::JsonSchema;
use serde::Deserialize;
use shared::{Extract, Node, Prompt, Thread, Transition};

use crate::{
    planner_with_prompts::{Candidate, Fact, NodeName, PlannerWithPrompts},
    prompt::fill,
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/rate_prompts.md");

pub(in super::super) struct RatePrompts;

/// What the model makes of them.
#[derive(Deserialize, JsonSchema)]
pub(in super::super) struct Ratings {
    /// One rating for each prompt that was listed.
    ratings: Vec<Rating>,
}

#[derive(Deserialize, JsonSchema)]
struct Rating {
    /// The name of the prompt, exactly as listed.
    name: String,
    /// How well it fits the task: 1 is made for it, 0 has nothing to do with it.
    confidence: f64,
    /// Why, in a sentence.
    #[serde(default)]
    reason: String,
    /// Those of its arguments whose values the task or the conversation gives.
    #[serde(default)]
    arguments: Vec<Argument>,
}

#[derive(Deserialize, JsonSchema)]
struct Argument {
    /// Its name, exactly as listed.
    name: String,
    /// The value of that argument.
    value: String,
}

impl Node<PlannerWithPrompts> for RatePrompts {
    type Effect = Extract<Ratings>;

    fn ask(&self, thread: &Thread<PlannerWithPrompts>) -> Self::Effect {
        let task = thread.state.planned.task();
        let offered: Vec<String> = offered(thread).iter().map(shown).collect();
        let blanks = [
            ("expert", &*task.expert),
            ("task", &task.task),
            ("prompts", &offered.join("\n")),
            ("time", &thread.turn.time),
        ];
        let system = fill(PROMPT, &blanks);
        Extract::new(&thread.config.planner.model, system, thread.all())
    }

    fn learn(&self, thread: &Thread<PlannerWithPrompts>, reply: Ratings) -> Transition<PlannerWithPrompts> {
        let rate = |prompt: &Prompt| {
            let rating = reply.ratings.iter().find(|rating| rating.name == prompt.name)?;
            Some(candidate(prompt, rating))
        };
        let mut candidates: Vec<Candidate> = offered(thread).iter().filter_map(rate).collect();
        // The sort is stable: prompts with equal ratings keep the server's order.
        candidates.sort_by(|one, other| other.confidence.total_cmp(&one.confidence));
        Transition::to(NodeName::SelectPrompt).learn(Fact::Rated(candidates))
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }
}

/// Returns the prompt with its rating, without arguments that the model invented.
fn candidate(prompt: &Prompt, rating: &Rating) -> Candidate {
    let takes = |argument: &&Argument| prompt.arguments.iter().any(|known| known.name == argument.name);
    let given = rating.arguments.iter().filter(takes).filter(|argument| !argument.value.trim().is_empty());
    Candidate {
        prompt: prompt.name.clone(),
        confidence: rating.confidence.clamp(0.0, 1.0),
        reason: rating.reason.clone(),
        arguments: given.map(|argument| (argument.name.clone(), argument.value.clone())).collect(),
    }
}

fn offered(thread: &Thread<PlannerWithPrompts>) -> &[Prompt] {
    thread.state.offered().unwrap_or_default()
}

/// Formats a prompt for the model.
fn shown(prompt: &Prompt) -> String {
    let mut out = line("- ", &prompt.name, &prompt.description);
    for argument in &prompt.arguments {
        let name = format!("{} ({})", argument.name, if argument.required { "required" } else { "optional" });
        out += &line("\n  - argument ", &name, &argument.description);
    }
    out
}

fn line(mark: &str, name: &str, what: &str) -> String {
    if what.is_empty() { format!("{mark}{name}") } else { format!("{mark}{name}: {what}") }
}
