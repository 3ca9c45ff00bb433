//! Status of a thread for observers, and the questions that the engine itself asks a person: the outcome of a call in
//! doubt, and the input that a tool requires.

use super::{
    Progress,
    phase::Phase,
    slot::{Slot, SlotState},
};
use crate::{
    elicitation::Elicitation,
    event::{Interrupt, InterruptKind},
    request::Request,
    strategy::Strategy,
    visible::visible,
};

/// Status of a thread for observers.
#[derive(Clone, Debug, PartialEq)]
pub enum RunStatus {
    /// A person may send a new request.
    Idle,
    /// The thread can continue without a person.
    Busy,
    /// The thread waits for a person's answer.
    Waiting(Interrupt),
    /// A node failed. An operator may retry it, or a person may send a new request.
    Failed {
        /// Name of the failed node.
        node: String,
        /// Reason for the failure.
        reason: String,
    },
}

impl<S: Strategy> Progress<S> {
    /// Returns the thread's status for observers.
    pub fn status(&self) -> RunStatus {
        match &self.at {
            Phase::Idle => RunStatus::Idle,
            Phase::AwaitingAnswer(interrupt, _) => RunStatus::Waiting(interrupt.clone()),
            Phase::Ready(_) => RunStatus::Busy,
            Phase::Failed(place, _, _, reason) => {
                RunStatus::Failed { node: place.name(), reason: reason.clone() }
            }
            Phase::AwaitingResponses(place, _, slots) => {
                let doubted = |(n, slot): (usize, &Slot)| match &slot.state {
                    SlotState::InDoubt(reason) => Some((n, slot.request.clone(), reason.clone())),
                    SlotState::Open
                    | SlotState::Attempted
                    | SlotState::ReadingBack(_)
                    | SlotState::AwaitingInput(_)
                    | SlotState::NotRetryable
                    | SlotState::TooLarge
                    | SlotState::Answered(_) => None,
                };
                if slots.iter().any(Slot::can_move) {
                    return RunStatus::Busy;
                }
                if let Some((slot, request, reason)) = slots.iter().enumerate().find_map(doubted) {
                    return RunStatus::Waiting(in_doubt(place.name(), slot, &request, &reason));
                }
                self.pending_input()
                    .map_or(RunStatus::Busy, |pending| RunStatus::Waiting(input(place.name(), &pending)))
            }
        }
    }

    /// Returns the next input that a tool requires, if the thread waits for one. Calls in doubt are settled first.
    pub(super) fn pending_input(&self) -> Option<PendingInput<'_>> {
        let Phase::AwaitingResponses(_, _, slots) = &self.at else { return None };
        if slots.iter().any(|slot| slot.can_move() || matches!(slot.state, SlotState::InDoubt(_))) {
            return None;
        }
        slots.iter().enumerate().find_map(|(slot, pending)| {
            let SlotState::AwaitingInput(requests) = &pending.state else { return None };
            let (name, elicitation) = requests.first_key_value()?;
            Some(PendingInput { slot, request: &pending.request, name, elicitation })
        })
    }

    /// Returns true if the thread waits for input to a tool.
    pub(super) fn is_awaiting_input(&self) -> bool {
        self.pending_input().is_some()
    }
}

fn in_doubt(node: String, slot: usize, request: &Request, reason: &str) -> Interrupt {
    Interrupt {
        kind: InterruptKind::InDoubt,
        question: visible(&format!("[{slot}] {request} may or may not have happened: {reason}. Did it?")),
        options: ["happened", "did not", "skip"].map(str::to_owned).to_vec(),
        open_ended: false,
        elicitation: None,
        resume: node,
    }
}

/// Input that a tool requires.
pub(super) struct PendingInput<'a> {
    pub(super) slot: usize,
    pub(super) request: &'a Request,
    pub(super) name: &'a str,
    pub(super) elicitation: &'a Elicitation,
}

/// **Invariant:** the question names the tool and server that ask, because a server's text could imitate the engine's.
fn input(node: String, pending: &PendingInput<'_>) -> Interrupt {
    let who = match pending.request {
        Request::CallTool { server, call } => format!("{} of {server}", call.name),
        Request::GetPrompt { server, name, .. } => format!("the prompt {name} of {server}"),
        other @ (Request::Chat { .. }
        | Request::ReadMore { .. }
        | Request::ListTools { .. }
        | Request::ListPrompts { .. }
        | Request::Describe { .. }
        | Request::Search { .. }
        | Request::Index { .. }
        | Request::Simulate(_)) => other.to_string(),
    };
    Interrupt {
        kind: InterruptKind::Input,
        question: visible(&format!(
            "{who} asks: {} ({})",
            pending.elicitation.question,
            pending.elicitation.wants()
        )),
        options: Vec::new(),
        open_ended: false,
        elicitation: Some(Box::new(pending.elicitation.clone())),
        resume: node,
    }
}
