//! Facts that the planner concludes and the state it folds from them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of the planner.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// Plan in progress. It survives a turn that ends early, so that a later turn can continue it.
    pub plan: Option<Plan>,
    /// Error in the last plan, returned to the model so that it can correct it. Belongs to the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Ending of the turn's work, for the node that sums it up. Belongs to the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// Ordered tasks and the position of the current one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Tasks in order, never empty.
    pub tasks: Vec<Task>,
    /// Index of the current task, always within `tasks`.
    pub current: usize,
    /// Index of the current task's first message.
    pub since: usize,
    /// Number of rounds already worked on the current task.
    #[serde(default)]
    pub rounds: u32,
}

/// Something for one expert to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// The name of the expert.
    pub expert: String,
    /// What the expert should do, complete in itself.
    pub task: String,
}

/// Facts that the planner concludes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// A new plan is in force.
    Planned(Plan),
    /// The proposed plan was invalid.
    Misplanned {
        /// Error in the proposal.
        problem: String,
    },
    /// The current task needs more work.
    Unfinished,
    /// Work moved on to the next task.
    Advanced {
        /// Index of that task's first message.
        since: usize,
    },
    /// The work of the turn ended.
    Ended(Ending),
}

/// Ending of a turn's work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every task is done.
    Finished,
    /// No expert suits the request, so nothing was planned.
    Unsuited,
    /// The turn could not continue.
    Stuck {
        /// Reason for stopping.
        reason: String,
    },
}

impl State {
    /// Returns the current task.
    ///
    /// # Panics
    ///
    /// Panics without a plan. Only the `plan` node leads to the nodes that call this, and only with a task.
    pub fn task(&self) -> &Task {
        let plan = self.plan.as_ref().expect("only a plan leads here");
        &plan.tasks[plan.current]
    }

    /// Returns the index of the current task's first message.
    pub fn since(&self) -> usize {
        self.plan.as_ref().map_or(0, |it| it.since)
    }

    pub(in crate::strategies) fn begin_turn(&mut self) {
        self.problem = None;
        self.ending = None;
    }

    pub(in crate::strategies) fn evolve(&mut self, fact: &Fact) {
        match fact {
            Fact::Planned(plan) => {
                self.plan = Some(plan.clone());
                self.problem = None;
            }
            Fact::Misplanned { problem } => self.problem = Some(problem.clone()),
            Fact::Unfinished => {
                if let Some(plan) = &mut self.plan {
                    plan.rounds += 1;
                }
            }
            Fact::Advanced { since } => {
                if let Some(plan) = &mut self.plan {
                    plan.current += 1;
                    plan.since = *since;
                    plan.rounds = 0;
                }
            }
            Fact::Ended(ending) => {
                if *ending == Ending::Finished {
                    self.plan = None;
                }
                self.ending = Some(ending.clone());
            }
        }
    }
}
