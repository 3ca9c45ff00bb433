//! Decides what to do about a failed command, as configured.

use crate::action_plan::{
    ActionPlan, Cause, Ending, Fact, NodeName, OnFailure, Step, StepResult,
    failure_answer::{RETRY, SKIP, STOP},
    route,
};
use shared::{Node, Question, Thread, Transition};

pub(in crate::action_plan) struct AssessFailure;

impl Node<ActionPlan> for AssessFailure {
    type Effect = ();

    fn ask(&self, _: &Thread<ActionPlan>) {}

    fn learn(&self, thread: &Thread<ActionPlan>, (): ()) -> Transition<ActionPlan> {
        let (reason, cause) = failure(thread);
        let (failures, limit) = (thread.state.attempt.failures, thread.config.retries);
        let command = thread.state.step().map(Step::command).unwrap_or_default();
        let why = match (thread.config.policy(&command), cause) {
            (OnFailure::Ask, _) => {
                return Transition::ask(
                    Question::choice(reason, options(cause)).open_ended(),
                    NodeName::ReceiveFailureChoice,
                );
            }
            (OnFailure::Stop, _) => "a failure ends the turn".to_owned(),
            (OnFailure::Retry, Cause::Unknown) => "what may have happened is not repeated".to_owned(),
            (OnFailure::Retry, Cause::Unfit) => {
                format!("the limit of {} mended payloads for a command is reached", thread.config.repairs)
            }
            (OnFailure::Retry, Cause::Error) if limit < failures => {
                format!("the limit of {limit} retries for a command is reached")
            }
            (OnFailure::Retry, Cause::Error) => {
                return route::consult(thread, NodeName::NextPayload, Fact::Again);
            }
        };
        let ended = Fact::Ended(Ending::Stuck { reason });
        Transition::to(NodeName::Report).learn(ended).because(why).partial("command failed")
    }
}

/// Returns the options. A repetition is not offered for a command whose outcome is unknown.
pub(super) fn options(cause: Cause) -> Vec<String> {
    let all: &[&str] = match cause {
        Cause::Error | Cause::Unfit => &[RETRY, SKIP, STOP],
        Cause::Unknown => &[SKIP, STOP],
    };
    all.iter().map(|reading| (*reading).to_owned()).collect()
}

/// Describes the failure of the current step to the person.
pub(super) fn failure(thread: &Thread<ActionPlan>) -> (String, Cause) {
    let step = thread.state.step();
    let words = step.map_or(String::new(), |step| format!("{} ({})", step.description, step.command()));
    match step.and_then(|step| thread.state.outcomes.get(&step.id)) {
        Some(StepResult::Failed { reason, cause }) => (format!("{words}: {}", cause.words(reason)), *cause),
        Some(StepResult::Done { .. } | StepResult::Skipped { .. } | StepResult::LeftOut { .. }) | None => {
            (words, Cause::Error)
        }
    }
}
