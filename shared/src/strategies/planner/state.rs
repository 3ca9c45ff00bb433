//! What the planner concludes and remembers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What it remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// The plan being worked through; kept when a turn ends early, so that a later one can go on with it.
    pub plan: Option<Plan>,
    /// What was wrong with the last plan, for the planner to mend. Belongs to the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How the work of the turn came to its end, for whoever sums it up. Belongs to the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ending: Option<Ending>,
}

/// Tasks in order, and which is being worked on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The tasks; never empty.
    pub tasks: Vec<Task>,
    /// The one being worked on; always one of them.
    pub current: usize,
    /// The first message that belongs to it.
    pub since: usize,
    /// How often it was worked on already.
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

/// What it can conclude.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// There is a plan.
    Planned(Plan),
    /// There is none, because something was wrong with what was proposed.
    Misplanned {
        /// What was wrong.
        problem: String,
    },
    /// The current task needs more work.
    Unfinished,
    /// Work goes on with the next task.
    Advanced {
        /// The first message that belongs to it.
        since: usize,
    },
    /// The work of the turn is over.
    Ended(Ending),
}

/// How the work of a turn came to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Every task is done.
    Finished,
    /// No expert is suited, so nothing was planned.
    Unsuited,
    /// It could not go on.
    Stuck {
        /// Why not.
        reason: String,
    },
}

impl State {
    /// The task being worked on.
    ///
    /// # Panics
    ///
    /// Outside of a plan: only `plan` leads to the nodes that ask, and only with a task.
    pub fn task(&self) -> &Task {
        let plan = self.plan.as_ref().expect("only a plan leads here");
        &plan.tasks[plan.current]
    }

    /// The first message that belongs to it.
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
