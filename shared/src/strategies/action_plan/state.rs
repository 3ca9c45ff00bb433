//! What it concludes and remembers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plan::{Payload, Plan, Step};

/// What it remembers.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// The plan in force; kept when a turn ends before the plan does, so that a later turn goes on with it.
    pub plan: Option<Plan>,
    /// What became of its steps so far.
    pub outcomes: BTreeMap<u32, Outcome>,
    /// How many steps were ever planned: the id of the next.
    pub steps_planned: u32,
    /// How many commands were ever begun: what makes the names of calls different.
    pub calls: u32,
    /// The plan that the person was last shown. Belongs to the turn.
    pub shown: Option<String>,
    /// The plan that the person approved. Belongs to the turn: new words may mean another wish.
    pub approved: Option<String>,
    /// How it goes with the current step. Belongs to the turn.
    pub attempt: Attempt,
    /// How many commands were begun. Belongs to the turn.
    pub begun: u32,
    /// What was wrong with the last proposal, for the model to mend. Belongs to the turn.
    pub problem: Option<String>,
    /// Why the plan was opened again. Belongs to the turn.
    pub obstacle: Option<String>,
    /// The servers that do not answer, and why. Belongs to the turn.
    pub unreachable: BTreeMap<String, String>,
    /// How the turn came to its end, for whoever sums it up. Belongs to the turn.
    pub ending: Option<Ending>,
}

/// How it goes with the current step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Attempt {
    /// What its command is being called with.
    pub payload: Option<Payload>,
    /// How often its payload did not fit.
    pub refusals: u32,
    /// How often it failed.
    pub failures: u32,
    /// What went wrong last, for the model to mend.
    pub problem: Option<String>,
}

/// What became of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It succeeded.
    Done {
        /// What it was called with.
        payload: Payload,
        /// What it gave back.
        result: String,
        /// The plan under which it ran.
        under: String,
    },
    /// A person had it left out after it failed.
    Skipped {
        /// How it failed.
        reason: String,
    },
    /// It failed, and may be tried again.
    Failed {
        /// How.
        reason: String,
        /// What that allows.
        cause: Cause,
    },
}

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It said so.
    Error,
    /// No payload was found that fits it.
    Unfit,
    /// Nobody knows whether it happened, so it is not repeated.
    Unknown,
}

impl Cause {
    /// The failure in words.
    pub(super) fn words(self, reason: &str) -> String {
        match self {
            Cause::Error | Cause::Unfit => format!("it failed: {reason}"),
            Cause::Unknown => reason.to_owned(),
        }
    }
}

/// What it can conclude.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// Some servers do not answer.
    Unreachable(BTreeMap<String, String>),
    /// There is a plan.
    Planned(Plan),
    /// There is none, because something was wrong with what was proposed.
    Misplanned {
        /// What was wrong.
        problem: String,
    },
    /// The person was shown the plan of this name.
    Shown {
        /// The plan's hash.
        plan: String,
    },
    /// The person approved the plan of this name.
    Approved {
        /// The plan's hash.
        plan: String,
    },
    /// The plan must be looked at again, and approved again.
    Reopened {
        /// Why.
        because: String,
    },
    /// The current step is about to run.
    Begun {
        /// What its command is called with.
        payload: Payload,
    },
    /// Its payload did not fit.
    Unfit {
        /// Why not.
        why: String,
    },
    /// The current step succeeded.
    Succeeded {
        /// What it gave back.
        result: String,
    },
    /// The current step is what another, which succeeded before, already did.
    SameAs {
        /// The other.
        step: u32,
    },
    /// The current step failed.
    Failed {
        /// How.
        reason: String,
        /// What that allows.
        cause: Cause,
    },
    /// The current step was begun and did not run, as a budget was spent.
    Withheld,
    /// A person has the current step tried again.
    Again,
    /// A person has the current step left out.
    Skipped,
    /// The work of the turn is over.
    Ended(Ending),
    /// There is no plan any more.
    Closed,
}

/// How a turn came to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// No step is open.
    Finished,
    /// No command is suited, so nothing was planned.
    Unsuited,
    /// The person said no to the plan.
    Declined,
    /// The plan is no longer wanted.
    Dropped,
    /// It could not go on.
    Stuck {
        /// Why not.
        reason: String,
    },
}

impl State {
    /// The step that is next: the first that neither succeeded nor was left out.
    pub fn step(&self) -> Option<&Step> {
        self.plan.as_ref()?.steps.iter().find(|it| !self.is_settled(it.id))
    }

    /// The name of the plan in force.
    pub fn hash(&self) -> Option<String> {
        self.plan.as_ref().map(Plan::hash)
    }

    pub(super) fn is_settled(&self, id: u32) -> bool {
        matches!(self.outcomes.get(&id), Some(Outcome::Done { .. } | Outcome::Skipped { .. }))
    }

    /// Resets what belongs to a turn.
    ///
    /// **Invariant:** a command that was under way when its turn was cut off is not taken for one that never ran.
    pub(super) fn begin_turn(&mut self) {
        if self.attempt.payload.is_some() {
            let reason = "its turn was cut off, so nobody knows whether it happened".to_owned();
            self.settle(Outcome::Failed { reason, cause: Cause::Unknown });
        }
        let State { plan, outcomes, steps_planned, calls, .. } = std::mem::take(self);
        *self = State { plan, outcomes, steps_planned, calls, ..State::default() };
    }

    pub(super) fn evolve(&mut self, fact: &Fact) {
        match fact {
            Fact::Unreachable(servers) => self.unreachable.clone_from(servers),
            Fact::Planned(plan) => self.replan(plan),
            Fact::Misplanned { problem } => self.problem = Some(problem.clone()),
            Fact::Shown { plan } => self.shown = Some(plan.clone()),
            Fact::Approved { plan } => self.approved = Some(plan.clone()),
            Fact::Reopened { because } => {
                self.obstacle = Some(because.clone());
                self.revoke();
            }
            Fact::Begun { payload } => {
                self.attempt.payload = Some(payload.clone());
                self.begun += 1;
                self.calls += 1;
            }
            Fact::Unfit { why } => {
                let problem = Some(format!("it was not carried out, {why}"));
                self.attempt =
                    Attempt { payload: None, refusals: self.attempt.refusals + 1, problem, ..self.attempt };
            }
            Fact::Succeeded { result } => {
                let payload = self.attempt.payload.take().unwrap_or_default();
                let under = self.approved.clone().unwrap_or_default();
                self.settle(Outcome::Done { payload, result: result.clone(), under });
            }
            Fact::SameAs { step } => {
                self.outcomes.get(step).cloned().into_iter().for_each(|it| self.settle(it));
            }
            Fact::Failed { reason, cause } => {
                let failures = self.attempt.failures + 1;
                self.fail(reason, *cause);
                self.attempt.failures = failures;
            }
            Fact::Withheld => self.attempt.payload = None,
            Fact::Again => self.attempt.refusals = 0,
            Fact::Skipped => {
                let reason = self.attempt.problem.take().unwrap_or_default();
                self.settle(Outcome::Skipped { reason });
            }
            Fact::Ended(ending) => self.ending = Some(ending.clone()),
            Fact::Closed => {
                self.plan = None;
                self.outcomes.clear();
                self.revoke();
            }
        }
    }

    fn replan(&mut self, plan: &Plan) {
        self.outcomes.retain(|id, _| plan.step(*id).is_some());
        let next = plan.steps.iter().map(|it| it.id + 1).max().unwrap_or_default();
        self.steps_planned = self.steps_planned.max(next);
        self.plan = Some(plan.clone());
        self.problem = None;
        self.obstacle = None;
        self.revoke();
    }

    fn fail(&mut self, reason: &str, cause: Cause) {
        let refusals = self.attempt.refusals;
        self.settle(Outcome::Failed { reason: reason.to_owned(), cause });
        self.attempt = Attempt { refusals, problem: Some(reason.to_owned()), ..Attempt::default() };
    }

    /// **Invariant:** every change of the plan comes through here, so no approval outlives what was approved.
    fn revoke(&mut self) {
        self.shown = None;
        self.approved = None;
        self.attempt = Attempt::default();
    }

    /// What became of the current step; the next one starts anew.
    fn settle(&mut self, outcome: Outcome) {
        if let Some(id) = self.step().map(|it| it.id) {
            self.outcomes.insert(id, outcome);
        }
        self.attempt = Attempt::default();
    }
}
