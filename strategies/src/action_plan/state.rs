//! Facts that the action plan concludes and the state it folds from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::plan::{Payload, Plan, Step};

/// State of the action plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct State {
    /// Plan in force. It survives a turn that ends early, so that a later turn can continue it.
    pub plan: Option<Plan>,
    /// Outcomes of the plan's steps so far, by step id.
    pub outcomes: BTreeMap<u32, StepResult>,
    /// Number of steps ever planned in the thread. The next step gets this id.
    pub steps_planned: u32,
    /// Number of commands ever begun in the thread. Keeps the ids of calls distinct.
    pub calls: u32,
    /// Plan last shown to the person, until it is answered. Belongs to the turn.
    pub shown: Option<Shown>,
    /// Number of answers to it that could not be read. Belongs to the turn.
    pub unclear: u32,
    /// Hash of the plan that the person approved. Belongs to the turn, because a new message may ask for something
    /// else.
    pub approved: Option<String>,
    /// Calls that the person approved with their payloads, by step id. Belongs to the turn.
    pub approved_calls: BTreeMap<u32, ApprovedCall>,
    /// True if a step was settled since a model or a person last saw the results. Belongs to the turn.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
    /// Attempts at the current step. Belongs to the turn.
    pub attempt: Attempt,
    /// Number of commands begun. Belongs to the turn.
    pub begun: u32,
    /// Error in the last proposal, returned to the model so that it can correct it. Belongs to the turn.
    pub problem: Option<String>,
    /// Reason for reopening the plan. Belongs to the turn.
    pub obstacle: Option<String>,
    /// Unreachable servers, each with the reason. Belongs to the turn.
    pub unreachable: BTreeMap<String, String>,
    /// Ending of the turn, for the report. Belongs to the turn.
    pub ending: Option<Ending>,
}

/// Plan that was shown to the person.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// Hash of the plan with its payloads.
    pub plan: String,
    /// Ids of the steps whose payloads are approved with it.
    pub steps: Vec<u32>,
}

/// Call that a person approved.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApprovedCall {
    /// Server of the command.
    pub server: String,
    /// Tool of the server.
    pub tool: String,
    /// Payload as it was shown.
    pub payload: Payload,
}

/// Progress of the current step.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Attempt {
    /// Payload of the running command.
    pub payload: Option<Payload>,
    /// Number of payloads that were rejected as invalid.
    pub refusals: u32,
    /// Number of failed runs.
    pub failures: u32,
    /// Most recent problem, returned to the model so that it can correct it.
    pub problem: Option<String>,
}

/// Outcome of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// The step succeeded.
    Done {
        /// Payload of the call.
        payload: Payload,
        /// Result of the call.
        result: String,
        /// Hash of the approved plan under which the step ran.
        under: String,
    },
    /// The step failed, and a person skipped it.
    Skipped {
        /// Description of the failure.
        reason: String,
    },
    /// The condition of the step was not met.
    LeftOut {
        /// The condition, and what was found.
        reason: String,
    },
    /// The step failed and may be tried again.
    Failed {
        /// Description of the failure.
        reason: String,
        /// Kind of failure, which decides whether a repetition is allowed.
        cause: Cause,
    },
}

/// Kind of a command's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The command returned an error.
    Error,
    /// No valid payload was found.
    Unfit,
    /// The outcome is unknown, so the command is not repeated.
    Unknown,
}

impl Cause {
    /// Describes the failure in a sentence.
    pub(super) fn words(self, reason: &str) -> String {
        match self {
            Cause::Error | Cause::Unfit => format!("it failed: {reason}"),
            Cause::Unknown => reason.to_owned(),
        }
    }
}

/// Facts that the action plan concludes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fact {
    /// These servers did not answer. Each comes with the reason.
    Unreachable(BTreeMap<String, String>),
    /// A new plan is in force.
    Planned(Plan),
    /// The proposed plan was invalid.
    Misplanned {
        /// Error in the proposal.
        problem: String,
    },
    /// Payloads of steps were filled in or changed after the plan was made.
    Filled {
        /// Payload of each step, by step id.
        payloads: BTreeMap<u32, Payload>,
    },
    /// The plan with this hash was shown to the person.
    Shown {
        /// Hash of the plan.
        plan: String,
        /// Ids of the steps whose payloads are approved with it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        steps: Vec<u32>,
    },
    /// The person approved the plan with this hash, and the payloads that were shown with it.
    Approved {
        /// Hash of the plan.
        plan: String,
    },
    /// The person's answer to what was shown could not be read.
    Unclear,
    /// The plan was reopened and needs a new approval.
    Reopened {
        /// Reason for reopening the plan.
        reason: String,
    },
    /// The current step is about to run.
    Begun {
        /// Payload of the command.
        payload: Payload,
    },
    /// The payload of the current step was invalid.
    Unfit {
        /// Reason for the rejection.
        why: String,
    },
    /// The current step succeeded.
    Succeeded {
        /// Result of the command.
        result: String,
    },
    /// The current step does the same as an earlier one that succeeded.
    SameAs {
        /// Id of the step that already succeeded.
        step: u32,
    },
    /// The current step failed.
    Failed {
        /// Description of the failure.
        reason: String,
        /// Kind of failure, which decides whether a repetition is allowed.
        cause: Cause,
    },
    /// The current step was begun but not run, because a budget was exceeded.
    Withheld,
    /// A person requested another attempt at the current step.
    Again,
    /// A person skipped the current step.
    Skipped,
    /// The condition of the current step is not met.
    LeftOut {
        /// The condition, and what was found.
        reason: String,
    },
    /// The work of the turn ended.
    Ended(Ending),
    /// The plan was closed.
    Closed,
}

/// Ending of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// No step is open any more.
    Finished,
    /// No command suits the request, so nothing was planned.
    Unsuited,
    /// The person rejected the plan.
    Declined,
    /// The person no longer wants the plan.
    Dropped,
    /// The turn could not continue.
    Stuck {
        /// Reason for stopping.
        reason: String,
    },
}

impl State {
    /// Returns the next step: the first that has neither succeeded nor been skipped.
    pub fn step(&self) -> Option<&Step> {
        self.plan.as_ref()?.steps.iter().find(|step| !self.is_settled(step.id))
    }

    /// Returns the hash of the plan in force.
    pub fn hash(&self) -> Option<String> {
        self.plan.as_ref().map(Plan::hash)
    }

    pub(super) fn is_settled(&self, id: u32) -> bool {
        match self.outcomes.get(&id) {
            Some(StepResult::Done { .. } | StepResult::Skipped { .. } | StepResult::LeftOut { .. }) => true,
            Some(StepResult::Failed { .. }) | None => false,
        }
    }

    /// Resets the part of the state that belongs to a turn.
    ///
    /// **Invariant:** a command that was running when its turn was cut off counts as a failure with unknown outcome,
    /// never as not run.
    pub(super) fn begin_turn(&mut self) {
        if self.attempt.payload.is_some() {
            let reason =
                "its turn ended before its result was recorded, so it is unknown whether it took effect"
                    .to_owned();
            self.settle(StepResult::Failed { reason, cause: Cause::Unknown });
        }
        let State { plan, outcomes, steps_planned, calls, .. } = std::mem::take(self);
        *self = State { plan, outcomes, steps_planned, calls, ..State::default() };
    }

    pub(super) fn evolve(&mut self, fact: &Fact) {
        match fact {
            Fact::Unreachable(servers) => self.unreachable.clone_from(servers),
            Fact::Planned(plan) => self.replan(plan),
            Fact::Misplanned { problem } => self.problem = Some(problem.clone()),
            Fact::Filled { payloads } => self.fill(payloads),
            Fact::Shown { plan, steps } => {
                self.shown = Some(Shown { plan: plan.clone(), steps: steps.clone() });
                self.unclear = 0;
            }
            Fact::Approved { plan } => self.approve(plan),
            Fact::Unclear => self.unclear += 1,
            Fact::Reopened { reason } => {
                self.obstacle = Some(reason.clone());
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
                self.settle(StepResult::Done { payload, result: result.clone(), under });
            }
            Fact::SameAs { step } => {
                self.outcomes.get(step).cloned().into_iter().for_each(|outcome| self.settle(outcome));
            }
            Fact::Failed { reason, cause } => {
                let failures = self.attempt.failures + 1;
                self.fail(reason, *cause);
                self.attempt.failures = failures;
                self.unclear = 0;
            }
            Fact::Withheld => self.attempt.payload = None,
            Fact::Again => self.attempt.refusals = 0,
            Fact::Skipped => {
                let reason = self.attempt.problem.take().unwrap_or_default();
                self.settle(StepResult::Skipped { reason });
            }
            Fact::LeftOut { reason } => self.settle(StepResult::LeftOut { reason: reason.clone() }),
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
        let next = plan.steps.iter().map(|step| step.id + 1).max().unwrap_or_default();
        self.steps_planned = self.steps_planned.max(next);
        self.plan = Some(plan.clone());
        self.problem = None;
        self.obstacle = None;
        self.revoke();
    }

    /// **Invariant:** a payload that was filled in is not approved, and the question that was shown before no longer
    /// counts.
    fn fill(&mut self, payloads: &BTreeMap<u32, Payload>) {
        for step in self.plan.iter_mut().flat_map(|plan| &mut plan.steps) {
            if let Some(payload) = payloads.get(&step.id) {
                step.payload = Some(payload.clone());
            }
        }
        self.shown = None;
    }

    /// Keeps the first plan that was approved, because steps that ran belong to it, and every payload that was shown.
    fn approve(&mut self, plan: &str) {
        let shown =
            self.shown.take().filter(|shown| shown.plan == plan).map_or(Vec::new(), |shown| shown.steps);
        self.approved.get_or_insert_with(|| plan.to_owned());
        self.unseen = false;
        for step in self.plan.iter().flat_map(|plan| &plan.steps).filter(|step| shown.contains(&step.id)) {
            let Some(payload) = step.payload.clone() else { continue };
            let call = ApprovedCall { server: step.server.clone(), tool: step.tool.clone(), payload };
            self.approved_calls.insert(step.id, call);
        }
    }

    fn fail(&mut self, reason: &str, cause: Cause) {
        let refusals = self.attempt.refusals;
        self.settle(StepResult::Failed { reason: reason.to_owned(), cause });
        self.attempt = Attempt { refusals, problem: Some(reason.to_owned()), ..Attempt::default() };
    }

    /// **Invariant:** every change of the plan calls this function, so no approval outlives the plan that it approved.
    fn revoke(&mut self) {
        self.shown = None;
        self.approved = None;
        self.approved_calls.clear();
        self.unseen = false;
        self.attempt = Attempt::default();
    }

    /// Records the outcome of the current step and resets the attempt for the next one.
    fn settle(&mut self, outcome: StepResult) {
        self.unseen |= matches!(outcome, StepResult::Done { .. } | StepResult::Skipped { .. });
        if let Some(id) = self.step().map(|step| step.id) {
            self.outcomes.insert(id, outcome);
        }
        self.attempt = Attempt::default();
    }
}
