//! Plans: ordered steps, identified by a hash of their content, and the merge of a new plan with the one in force.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::{Thread, visible_line};

use super::{
    ActionPlan, commands,
    state::{Outcome, State},
};

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
}

/// Step as proposed by a model.
pub(super) struct Proposed {
    /// Step of the plan in force that the proposal refers to, if any.
    pub(super) step: Option<u32>,
    pub(super) command: String,
    pub(super) description: String,
    pub(super) payload: Option<Payload>,
}

impl Step {
    /// Returns the command's full name.
    pub fn command(&self) -> String {
        format!("{}.{}", self.server, self.tool)
    }

    /// Formats the step for a person, on one line. `nth` is its position in the plan, and `note` stands in place of an
    /// unknown payload.
    ///
    /// **Invariant:** every character can be seen, and no description or payload can imitate another line.
    pub(super) fn shown(&self, nth: usize, outcome: Option<&Outcome>, note: &str) -> String {
        let payload = self.payload.as_ref().map_or(note.to_owned(), |payload| format!(" {}", json(payload)));
        let (mark, text) = match outcome {
            None => ("", String::new()),
            Some(Outcome::Done { .. }) => ("[done] ", String::new()),
            Some(Outcome::Skipped { .. }) => ("[skipped] ", String::new()),
            Some(Outcome::Failed { reason, cause }) => ("", format!("; {}", cause.words(reason))),
        };
        let line = format!("{mark}{} ({}{payload}){text}", self.description, self.command());
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
    pub(super) fn shown(&self, outcomes: &BTreeMap<u32, Outcome>) -> String {
        let line = |(n, step): (usize, &Step)| step.shown(n, outcomes.get(&step.id), "");
        self.steps.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
    }

    /// Formats the plan for a model, with the outcome of each step.
    pub(super) fn told(&self, outcomes: &BTreeMap<u32, Outcome>) -> String {
        let line = |step: &Step| {
            let payload =
                step.payload.as_ref().map_or(String::new(), |payload| format!(", with {}", json(payload)));
            let text = match outcomes.get(&step.id) {
                None => "open".to_owned(),
                Some(Outcome::Done { payload, result, .. }) => {
                    format!("done with {}: {result}", json(payload))
                }
                Some(Outcome::Skipped { reason }) => {
                    format!("skipped by the person after it failed: {reason}")
                }
                Some(Outcome::Failed { reason, cause }) => format!("open; {}", cause.words(reason)),
            };
            format!("- step {} {}: {}{payload} [{text}]", step.id, step.command(), step.description)
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
        Some(Outcome::Done { .. }) => true,
        Some(Outcome::Skipped { .. }) => !again.contains(&step.id),
        Some(Outcome::Failed { .. }) | None => false,
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
        };
        if old.iter().any(|known| is_same(known, outcomes.get(&known.id), proposed.step, &step)) {
            continue;
        }
        let kept = proposed.step.filter(|id| {
            let is_open = matches!(outcomes.get(id), None | Some(Outcome::Failed { .. }));
            let names_it = |old: &Step| old.id == *id && old.server == step.server && old.tool == step.tool;
            is_open && old.iter().any(names_it) && steps.iter().all(|new| new.id != *id)
        });
        match kept {
            Some(id) => step.id = id,
            None => fresh += 1,
        }
        steps.push(step);
    }
    let limit = thread.config.steps_max;
    match u32::try_from(steps.len() - past) {
        Ok(open) if open <= limit => Ok(Plan { steps }),
        Ok(_) | Err(_) => Err(format!("a plan may hold at most {limit} steps that are still to be done")),
    }
}

/// Returns whether a proposed step repeats one that has succeeded: the model names that step, or the content is the
/// same.
fn is_same(old: &Step, outcome: Option<&Outcome>, named: Option<u32>, proposed: &Step) -> bool {
    let Some(Outcome::Done { payload, .. }) = outcome else { return false };
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
fn the_hash_names_all_that_a_plan_says() {
    let step = |description: &str| Step {
        id: 0,
        server: "calendar".to_owned(),
        tool: "book".to_owned(),
        description: description.to_owned(),
        payload: None,
    };
    assert_eq!(fnv(b"a"), "af63dc4c8601ec8c", "as its authors publish it");
    let one = Plan { steps: vec![step("lunch")] };
    let other = Plan { steps: vec![Step { payload: Some(Payload::new()), ..step("lunch") }] };
    let hashes = [one.hash(), other.hash(), Plan { steps: vec![step("dinner")] }.hash()];
    assert!(hashes.iter().enumerate().all(|(n, hash)| !hashes[..n].contains(hash)), "{hashes:?}");
    assert_eq!(one.hash(), Plan { steps: vec![step("lunch")] }.hash());
}
