//! Facts that the planner concludes and the state it folds from them.

use serde::{Deserialize, Serialize};

/// State of the planner.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// Plan in progress. It survives a turn that ends early, so that a later turn can continue it; a finished one ends
    /// with its turn.
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
    /// Indexes of the tasks that are worked on side by side with the current one. They share its messages and rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<usize>,
    /// Task of each call of the last message that requests any, if several tasks are worked on side by side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<usize>,
    /// Question to the person that waits until the tasks that need no answer are done. Until then nothing is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// Something for one expert to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Name of the expert.
    pub expert: String,
    /// Work of the expert, in words that need no other task.
    pub task: String,
    /// Indexes of the earlier tasks whose results the task needs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<usize>,
    /// True if the task needs the answer to the plan's question.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_answer: bool,
    /// Progress of the work.
    #[serde(default, skip_serializing_if = "Progress::is_open")]
    pub progress: Progress,
}

/// Progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// Not done yet.
    #[default]
    Open,
    /// Worked on and done.
    Done,
    /// Left out, because the model reported it as done or no longer wanted.
    Skipped {
        /// Reason that the model gave.
        why: String,
    },
    /// Worked on in vain.
    Failed {
        /// Reason for stopping.
        why: String,
    },
}

impl Progress {
    pub(super) fn is_open(&self) -> bool {
        *self == Self::Open
    }

    /// Returns true if nothing is left to do.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Done | Self::Skipped { .. })
    }
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
    /// Work moved on to the next task, or to several side by side.
    Advanced {
        /// Index of the first message of that task.
        since: usize,
        /// Tasks that are worked on now. Empty stands for the one after the current task.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        to: Vec<usize>,
    },
    /// One of the tasks that are worked on side by side is done or failed.
    Settled {
        /// Index of the task.
        task: usize,
        /// Progress that it made.
        progress: Progress,
    },
    /// Several tasks requested calls side by side.
    Called {
        /// Task of each call.
        tasks: Vec<usize>,
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
    /// The person no longer wants it.
    Dropped,
    /// The current task could not be done.
    Failed {
        /// Reason for stopping.
        reason: String,
    },
    /// The turn could not continue, whatever the current task.
    Stuck {
        /// Reason for stopping.
        reason: String,
    },
}

impl Plan {
    /// Returns the indexes of the tasks that are worked on now: the current one, or the open ones of several side by side.
    pub fn in_work(&self) -> Vec<usize> {
        let all = std::iter::once(self.current).chain(self.beside.iter().copied());
        if self.beside.is_empty() {
            return all.collect();
        }
        all.filter(|nth| self.tasks.get(*nth).is_some_and(|task| task.progress.is_open())).collect()
    }

    /// Returns the index of the first task that is neither done nor skipped, or of the last task.
    pub fn first_unfinished(&self) -> usize {
        let last = self.tasks.len().saturating_sub(1);
        self.tasks.iter().position(|task| !task.progress.is_over()).unwrap_or(last)
    }

    /// Returns the index of the task that the call at `nth` of the last message belongs to.
    pub fn caller(&self, nth: usize) -> usize {
        self.calls.get(nth).copied().unwrap_or(self.current)
    }

    /// Returns the tasks to work on next, in order and at most `width`: the first open task from `from` on, and those whose
    /// dependencies are over. Empty if no task can be worked on: none is open, or all of them need an answer or a task that
    /// failed.
    ///
    /// A task depends on earlier ones only, so the first of these tasks can always be worked on.
    pub fn next(tasks: &[Task], from: usize, width: usize) -> Vec<usize> {
        let held = Self::held(tasks);
        let is_open = |nth: &usize| tasks[*nth].progress.is_open() && !held[*nth];
        let mut open = (from..tasks.len()).filter(is_open);
        let Some(first) = open.next() else { return Vec::new() };
        let is_ready = |n: &usize| {
            tasks[*n]
                .depends_on
                .iter()
                .filter(|other| **other < *n)
                .all(|other| tasks[*other].progress.is_over())
        };
        std::iter::once(first).chain(open.filter(is_ready)).take(width.max(1)).collect()
    }

    /// Returns for each task whether it waits for an answer or for a task that failed, directly or through another task.
    fn held(tasks: &[Task]) -> Vec<bool> {
        let mut held: Vec<bool> = Vec::with_capacity(tasks.len());
        for (nth, task) in tasks.iter().enumerate() {
            let is_failed = |other: usize| matches!(tasks[other].progress, Progress::Failed { .. });
            let mut earlier = task.depends_on.iter().copied().filter(|other| *other < nth);
            held.push(task.needs_answer || earlier.any(|other| held[other] || is_failed(other)));
        }
        held
    }
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
        self.plan.as_ref().map_or(0, |plan| plan.since)
    }

    pub(crate) fn begin_turn(&mut self) {
        self.problem = None;
        if self.ending.take() == Some(Ending::Finished) {
            self.plan = None;
        }
    }

    fn set_progress(&mut self, progress: Progress) {
        if let Some(plan) = &mut self.plan
            && let Some(task) = plan.tasks.get_mut(plan.current)
        {
            task.progress = progress;
        }
    }

    pub(crate) fn evolve(&mut self, fact: &Fact) {
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
            Fact::Advanced { since, to } => {
                // A task that failed stays so.
                if self.plan.is_some() && self.task().progress.is_open() {
                    self.set_progress(Progress::Done);
                }
                if let Some(plan) = &mut self.plan {
                    (plan.current, plan.beside) = match to.split_first() {
                        Some((current, beside)) => (*current, beside.to_vec()),
                        None => (plan.current + 1, Vec::new()),
                    };
                    plan.calls.clear();
                    plan.since = *since;
                    plan.rounds = 0;
                }
            }
            Fact::Settled { task, progress } => {
                if let Some(task) = self.plan.as_mut().and_then(|plan| plan.tasks.get_mut(*task)) {
                    task.progress = progress.clone();
                }
            }
            Fact::Called { tasks } => {
                if let Some(plan) = &mut self.plan {
                    plan.calls.clone_from(tasks);
                }
            }
            Fact::Ended(ending) => {
                match ending {
                    Ending::Finished => self.set_progress(Progress::Done),
                    Ending::Failed { reason } => self.set_progress(Progress::Failed { why: reason.clone() }),
                    Ending::Dropped => self.plan = None,
                    Ending::Unsuited | Ending::Stuck { .. } => (),
                }
                self.ending = Some(ending.clone());
            }
        }
    }
}
