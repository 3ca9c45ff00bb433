//! Conditions of steps over the results of earlier ones. The engine checks them, and no model can answer for it.

use std::fmt::Display;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Comparison, ConditionVerdict};

use super::{
    plan::{Plan, Step},
    state::{State, StepResult},
};

/// Condition under which a step runs: a comparison with the result of an earlier step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// The number of the earlier step.
    pub step: u32,
    /// The part of its result, as `stock` or `items.0.price`; empty for the whole result.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// Comparison of the two values.
    pub is: Comparison,
    /// The value to compare with, as text: `1`, `true`, `open`.
    pub value: String,
}

/// Result of checking a condition.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The step may run.
    Met,
    /// The step is left out, for this reason.
    Unmet(String),
    /// The result does not tell, for this reason.
    Unknown(String),
}

impl Condition {
    /// Formats the condition. `step` names the earlier step as the reader knows it.
    pub(super) fn shown(&self, step: impl Display) -> String {
        let Self { field, is, value, .. } = self;
        let of = if field.is_empty() { String::new() } else { format!("{field:?} in ") };
        format!("only if {of}the result of step {step} {} {value:?}", is.words())
    }

    /// Formats the condition for a person: the step has the number of its place in the plan.
    pub(super) fn shown_in(&self, plan: &Plan) -> String {
        let place = plan.steps.iter().position(|step| step.id == self.step);
        self.shown(place.map_or_else(|| "?".to_owned(), |place| (place + 1).to_string()))
    }

    /// Checks the condition against the result of its step.
    fn verdict(&self, result: &str) -> Verdict {
        let Self { step, field, is, value } = self;
        match is.check(field, value, result) {
            ConditionVerdict::Met => Verdict::Met,
            ConditionVerdict::Unmet(found) => {
                Verdict::Unmet(format!("{}, and it is {found}", self.shown(step)))
            }
            ConditionVerdict::Missing => {
                Verdict::Unknown(format!("the result of step {step} has no {field:?}"))
            }
            ConditionVerdict::Incomparable(found) => {
                Verdict::Unknown(format!("{found} cannot be compared: {}", self.shown(step)))
            }
        }
    }
}

/// Checks the condition of `step`. A step without one may run.
pub(super) fn verdict(state: &State, step: &Step) -> Verdict {
    let Some(condition) = &step.only_if else { return Verdict::Met };
    match state.outcomes.get(&condition.step) {
        Some(StepResult::Done { result, .. }) => condition.verdict(result),
        Some(StepResult::Skipped { .. } | StepResult::LeftOut { .. } | StepResult::Failed { .. }) | None => {
            Verdict::Unmet(format!("{}, which has no result", condition.shown(condition.step)))
        }
    }
}
