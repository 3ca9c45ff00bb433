//! Plans: ordered steps, identified by a hash of their content, and the merge of a new plan with the one in force.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::{Thread, visible_line, visible_start};

use super::{
    ActionPlan, commands,
    condition::Condition,
    state::{State, StepResult},
};
#[cfg(test)]
use shared::Comparison;

/// Arguments of a command.
pub type Payload = Map<String, Value>;

/// Steps in order of execution.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Plan {
    /// Steps in order of execution.
    pub steps: Vec<Step>,
}

/// One command to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Id of the step, never reused within a thread.
    pub id: u32,
    /// Server that owns the command.
    pub server: String,
    /// Tool of the server.
    pub tool: String,
    /// Purpose of the step, in words that a person understands.
    pub description: String,
    /// Arguments, if they are known before any step has run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
    /// Condition under which the step runs. It is part of what a person approves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_if: Option<Condition>,
}

/// Step as proposed by a model.
pub(super) struct Proposed {
    /// Step of the plan in force that the proposal refers to, if any.
    pub(super) step: Option<u32>,
    pub(super) command: String,
    pub(super) description: String,
    pub(super) payload: Option<Payload>,
    pub(super) only_if: Option<Condition>,
}

/// Maximum length of a result in a question, in characters.
const RESULT_MAX: usize = 200;

impl Step {
    /// Returns the command's full name.
    pub fn command(&self) -> String {
        format!("{}.{}", self.server, self.tool)
    }

    /// Formats the step of `plan` for a person, on one line. `nth` is its position, and `note` stands in place of an unknown
    /// payload.
    ///
    /// **Invariant:** every character can be seen, and no description or payload can imitate another line.
    pub(super) fn shown(&self, plan: &Plan, nth: usize, outcome: Option<&StepResult>, note: &str) -> String {
        let payload = self.payload.as_ref().map_or(note.to_owned(), |payload| format!(" {}", json(payload)));
        let (mark, text) = match outcome {
            None => ("", String::new()),
            Some(StepResult::Done { .. }) => ("[done] ", String::new()),
            Some(StepResult::Skipped { .. }) => ("[skipped] ", String::new()),
            Some(StepResult::LeftOut { .. }) => ("[left out] ", String::new()),
            Some(StepResult::Failed { reason, cause }) => ("", format!("; {}", cause.words(reason))),
        };
        let only_if = self
            .only_if
            .as_ref()
            .map_or(String::new(), |condition| format!(", {}", condition.shown_in(plan)));
        let line = format!("{mark}{} ({}{payload}){only_if}{text}", self.description, self.command());
        format!("{}. {}", nth + 1, visible_line(&line))
    }
}

impl Plan {
    /// Returns a hash of everything in the plan: FNV-1a, 64 bits, over its JSON.
    ///
    /// ## Why not a stronger hash
    ///
    /// The hash distinguishes one plan from another in the same thread, for people. What was approved is kept and
    /// compared in full, so a collision has no value to anyone.
    pub fn hash(&self) -> String {
        fnv(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// Returns the step with this id.
    pub fn step(&self, id: u32) -> Option<&Step> {
        self.steps.iter().find(|step| step.id == id)
    }

    /// Formats the plan for a person.
    pub(super) fn shown(&self, outcomes: &BTreeMap<u32, StepResult>) -> String {
        let line = |(n, step): (usize, &Step)| step.shown(self, n, outcomes.get(&step.id), "");
        self.steps.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Formats the results so far for a person who approves what follows, each on one line of its own.
    pub(super) fn results(&self, outcomes: &BTreeMap<u32, StepResult>) -> String {
        let line = |(nth, step): (usize, &Step)| match outcomes.get(&step.id)? {
            StepResult::Done { result, .. } => {
                Some(format!("\n   {}: {}", nth + 1, visible_start(result.trim(), RESULT_MAX)))
            }
            StepResult::Skipped { .. } | StepResult::LeftOut { .. } | StepResult::Failed { .. } => None,
        };
        let lines: String = self.steps.iter().enumerate().filter_map(line).collect();
        if lines.is_empty() { lines } else { format!("\nResults so far, by step:{lines}") }
    }

    /// Formats the plan for a model, with the outcome of each step.
    pub(super) fn told(&self, outcomes: &BTreeMap<u32, StepResult>) -> String {
        let line = |step: &Step| {
            let payload =
                step.payload.as_ref().map_or(String::new(), |payload| format!(", with {}", json(payload)));
            let text = match outcomes.get(&step.id) {
                None => "open".to_owned(),
                Some(StepResult::Done { payload, result, .. }) => {
                    format!("done with {}: {result}", json(payload))
                }
                Some(StepResult::Skipped { reason }) => {
                    format!("skipped by the person after it failed: {reason}")
                }
                Some(StepResult::LeftOut { reason }) => format!("left out: {reason}"),
                Some(StepResult::Failed { reason, cause }) => format!("open; {}", cause.words(reason)),
            };
            let only_if = step
                .only_if
                .as_ref()
                .map_or(String::new(), |condition| format!(", {}", condition.shown(condition.step)));
            format!("- step {} {}: {}{payload}{only_if} [{text}]", step.id, step.command(), step.description)
        };
        self.steps.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

/// Merges a proposal into the plan in force and returns the new plan.
///
/// **Invariant:** a step that succeeded stays unchanged, even if the model omits it or names it differently.
///
/// # Errors
///
/// A description of the error, so that the model can correct it.
pub(super) fn merged(thread: &Thread<ActionPlan>, proposal: Vec<Proposed>) -> Result<Plan, String> {
    let State { plan, outcomes, steps_planned, .. } = &thread.state;
    let old = plan.as_ref().map_or(&[][..], |plan| &plan.steps);
    let again: Vec<u32> = proposal.iter().filter_map(|proposed| proposed.step).collect();
    let is_past = |step: &&Step| match outcomes.get(&step.id) {
        Some(StepResult::Done { .. }) => true,
        Some(StepResult::Skipped { .. } | StepResult::LeftOut { .. }) => !again.contains(&step.id),
        Some(StepResult::Failed { .. }) | None => false,
    };
    let mut steps: Vec<Step> = old.iter().filter(is_past).cloned().collect();
    let past = steps.len();
    let mut fresh = *steps_planned;
    for proposed in proposal {
        let Some(command) = commands::find(thread, &proposed.command) else {
            return Err(commands::unknown(thread, &proposed.command));
        };
        let mut step = Step {
            id: fresh,
            server: command.server.to_owned(),
            tool: command.tool.name.clone(),
            description: proposed.description,
            payload: proposed.payload,
            only_if: proposed.only_if,
        };
        if old.iter().any(|known| is_same(known, outcomes.get(&known.id), proposed.step, &step)) {
            continue;
        }
        let kept = proposed.step.filter(|id| {
            let is_open = matches!(outcomes.get(id), None | Some(StepResult::Failed { .. }));
            let names_it = |old: &Step| old.id == *id && old.server == step.server && old.tool == step.tool;
            is_open && old.iter().any(names_it) && steps.iter().all(|new| new.id != *id)
        });
        match kept {
            Some(id) => step.id = id,
            None => fresh += 1,
        }
        if let Some(only_if) = &step.only_if
            && steps.iter().all(|earlier| earlier.id != only_if.step)
        {
            let (id, of) = (step.id, only_if.step);
            return Err(format!(
                "the condition of step {id} is about step {of}, which does not come before it"
            ));
        }
        steps.push(step);
    }
    let limit = thread.config.steps_max;
    match u32::try_from(steps.len() - past) {
        Ok(open) if open <= limit => Ok(Plan { steps }),
        Ok(_) | Err(_) => Err(format!(
            "a plan may hold at most {limit} steps that are still to be done (strategies.action_plan.steps_max)"
        )),
    }
}

/// Returns whether a proposed step repeats one that has succeeded: the model names that step, or the content is the
/// same.
fn is_same(old: &Step, outcome: Option<&StepResult>, named: Option<u32>, proposed: &Step) -> bool {
    let Some(StepResult::Done { payload, .. }) = outcome else { return false };
    match named {
        Some(id) => old.id == id,
        None => {
            let same_words = old.description == proposed.description && proposed.payload.is_none();
            let same = same_words || proposed.payload.as_ref() == Some(payload);
            same && old.server == proposed.server && old.tool == proposed.tool
        }
    }
}

fn fnv(bytes: &[u8]) -> String {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// Formats a payload on one line.
pub(super) fn json(payload: &Payload) -> String {
    Value::Object(payload.clone()).to_string()
}

#[test]
fn the_hash_of_a_plan_covers_all_of_its_fields() {
    let step = |description: &str| Step {
        id: 0,
        server: "calendar".to_owned(),
        tool: "book".to_owned(),
        description: description.to_owned(),
        payload: None,
        only_if: None,
    };
    assert_eq!(fnv(b"a"), "af63dc4c8601ec8c", "as its authors publish it");
    let one = Plan { steps: vec![step("lunch")] };
    let other = Plan { steps: vec![Step { payload: Some(Payload::new()), ..step("lunch") }] };
    let only_if =
        Condition { step: 0, field: "free".to_owned(), is: Comparison::Equal, value: "true".to_owned() };
    let third = Plan { steps: vec![Step { only_if: Some(only_if), ..step("lunch") }] };
    let hashes = [one.hash(), other.hash(), third.hash(), Plan { steps: vec![step("dinner")] }.hash()];
    assert!(hashes.iter().enumerate().all(|(n, hash)| !hashes[..n].contains(hash)), "{hashes:?}");
    assert_eq!(one.hash(), Plan { steps: vec![step("lunch")] }.hash());
}
