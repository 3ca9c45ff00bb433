//! State of one request of a node.

use std::collections::BTreeMap;

use crate::{
    attachment::Attachment,
    elicitation::{Elicitation, InputResponses},
    event::{AttemptFailed, Event, Reconciled, Verdict},
    message::ToolOutput,
    request::{Request, Response},
};

/// Maximum number of attempts of one request, unless configured. After that it is abandoned, or its node fails.
pub const ATTEMPTS_MAX: u32 = 4;

/// Result of a call in doubt that a person has left unresolved. A strategy that repeats failed calls checks for it.
pub const SKIPPED: &str = "it is unknown whether this call took effect, and it must not be repeated";

/// Task in which a server carries a request out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTask {
    /// Name of the server.
    pub server: String,
    /// Id of the task at the server.
    pub task: String,
}

#[derive(Clone)]
pub(super) struct Slot {
    pub(super) request: Request,
    pub(super) failures: u32,
    pub(super) attempts: u32,
    /// Number of attempts after which the request is given up.
    pub(super) attempts_max: u32,
    pub(super) error: Option<String>,
    /// Number of input rounds so far.
    pub(super) rounds: u32,
    /// Input data for the next attempt.
    pub(super) input_responses: Option<InputResponses>,
    /// True if the response of an attempt was lost. The request may have taken effect, whatever happened to later
    /// attempts.
    pub(super) in_doubt: bool,
    /// True if the last attempt failed because the server offers other tools than its pin.
    pub(super) pin_changed: bool,
    /// Attempts of the current read-back.
    pub(super) reading: ReadAttempts,
    /// True if a read-back showed once that the request was not made, and it was sent again.
    pub(super) was_unmade: bool,
    /// Number of the last `attempted` event.
    pub(super) attempted_seq: Option<usize>,
    /// Id of the task in which the server carries the request out.
    pub(super) task: Option<String>,
    /// Images of the answer.
    pub(super) images: Vec<Attachment>,
    pub(super) state: SlotState,
}

/// Failed attempts of a read-back.
#[derive(Clone, Default)]
pub(super) struct ReadAttempts {
    pub(super) failed: u32,
    /// Number of attempts after which a person is asked.
    pub(super) max: Option<u32>,
    pub(super) error: Option<String>,
    /// True if the last error permits no further attempt.
    pub(super) is_over: bool,
}

impl ReadAttempts {
    /// Returns the error of a read-back that is not attempted again.
    pub(super) fn given_up(&self) -> Option<String> {
        let max = self.max.unwrap_or(ATTEMPTS_MAX);
        let error = self.error.as_deref().filter(|_| self.is_over || max <= self.failed)?;
        Some(if self.failed < 2 {
            error.to_owned()
        } else {
            format!("{error} (tried {} times)", self.failed)
        })
    }

    fn fail(&mut self, failed: &AttemptFailed) {
        self.failed += u32::from(!failed.waiting);
        self.max = failed.attempts_max;
        self.error = Some(failed.error.clone());
        self.is_over = failed.retry_after_ms.is_none();
    }
}

#[derive(Clone, PartialEq)]
pub(super) enum SlotState {
    Open,
    Attempted,
    InDoubt(String),
    /// The request is in doubt for this reason, and is read back before a person is asked.
    ReadingBack(String),
    /// The request waits for these inputs.
    AwaitingInput(BTreeMap<String, Elicitation>),
    NotRetryable,
    /// The model refused the request as too large. Its node issues a smaller one.
    TooLarge,
    Answered(Response),
}

impl Slot {
    pub(super) fn retry(&mut self) {
        self.attempts = 0;
        if self.state == SlotState::NotRetryable {
            self.state = SlotState::Open;
        }
    }

    /// Returns the task of a request that has no answer yet.
    pub(super) fn open_task(&self) -> Option<OpenTask> {
        let server = self.request.server()?.to_owned();
        let SlotState::Answered(_) = self.state else {
            return self.task.clone().map(|task| OpenTask { server, task });
        };
        None
    }

    /// Returns true if the request is not attempted again, because of its last error or the number of attempts.
    pub(super) fn is_exhausted(&self) -> bool {
        match &self.state {
            SlotState::NotRetryable => true,
            SlotState::Open | SlotState::Attempted => self.attempts_max <= self.attempts,
            SlotState::InDoubt(_)
            | SlotState::ReadingBack(_)
            | SlotState::AwaitingInput(_)
            | SlotState::TooLarge
            | SlotState::Answered(_) => false,
        }
    }

    /// Returns true if the request has any history other than failed attempts.
    pub(super) fn is_begun(&self) -> bool {
        match &self.state {
            SlotState::Open | SlotState::NotRetryable | SlotState::TooLarge => {
                0 < self.rounds || self.in_doubt || self.task.is_some()
            }
            SlotState::Attempted
            | SlotState::InDoubt(_)
            | SlotState::ReadingBack(_)
            | SlotState::AwaitingInput(_)
            | SlotState::Answered(_) => true,
        }
    }

    /// Returns true if the request may have changed the outside world and its outcome is unknown.
    pub(super) fn may_have_happened(&self) -> bool {
        match &self.state {
            SlotState::Attempted | SlotState::InDoubt(_) | SlotState::ReadingBack(_) => true,
            SlotState::Open | SlotState::AwaitingInput(_) | SlotState::NotRetryable => self.in_doubt,
            SlotState::TooLarge | SlotState::Answered(_) => false,
        }
    }

    /// Returns true if the request can progress without a person.
    pub(super) fn can_move(&self) -> bool {
        match &self.state {
            SlotState::Open | SlotState::Attempted | SlotState::NotRetryable | SlotState::ReadingBack(_) => {
                true
            }
            SlotState::InDoubt(_)
            | SlotState::AwaitingInput(_)
            | SlotState::TooLarge
            | SlotState::Answered(_) => false,
        }
    }

    pub(super) fn answer(&self) -> Option<Response> {
        match &self.state {
            SlotState::Answered(response) => Some(response.clone()),
            SlotState::Open
            | SlotState::Attempted
            | SlotState::InDoubt(_)
            | SlotState::ReadingBack(_)
            | SlotState::AwaitingInput(_)
            | SlotState::NotRetryable
            | SlotState::TooLarge => None,
        }
    }

    /// Returns true if the request is in doubt, and the doubt is recorded.
    pub(super) fn is_doubted(&self) -> bool {
        matches!(self.state, SlotState::InDoubt(_) | SlotState::ReadingBack(_))
    }

    /// Returns the state after a person or a read-back decided the outcome.
    fn reconciled(&mut self, reconciled: &Reconciled) -> SlotState {
        match &reconciled.verdict {
            Verdict::Happened { result } => {
                SlotState::Answered(Response::Output(ToolOutput::Ok(result.clone())))
            }
            Verdict::DidNotHappen => {
                (self.in_doubt, self.attempts, self.task) = (false, 0, None);
                self.was_unmade |= reconciled.read_back.is_some();
                SlotState::Open
            }
            Verdict::Skip => SlotState::Answered(Response::Output(ToolOutput::Error(SKIPPED.to_owned()))),
        }
    }

    /// Returns true if a failed attempt shows that a request in doubt was not carried out.
    fn is_settled_by(&self, failed: &AttemptFailed) -> bool {
        !self.in_doubt && !failed.in_doubt
    }

    /// Returns the state after `event`, or `None` if the event cannot occur in this state.
    pub(super) fn after(&mut self, event: &Event) -> Option<SlotState> {
        match (event, &self.state) {
            (Event::Attempted(_), SlotState::Open) => Some(SlotState::Attempted),
            (Event::Attempted(_), SlotState::Attempted) => {
                self.in_doubt = true;
                Some(SlotState::Attempted)
            }
            (
                Event::TaskStarted(started),
                SlotState::Open | SlotState::Attempted | SlotState::InDoubt(_) | SlotState::ReadingBack(_),
            ) if self.task.is_none() => {
                self.in_doubt |= self.state != SlotState::Open;
                self.task = Some(started.task.clone());
                Some(SlotState::Open)
            }
            // A late answer settles a doubt as a person would.
            (
                Event::Answered(answered),
                SlotState::Open | SlotState::Attempted | SlotState::InDoubt(_) | SlotState::ReadingBack(_),
            ) => Some(SlotState::Answered(answered.response.clone())),
            (Event::AttemptFailed(failed), SlotState::ReadingBack(reason)) if failed.read_back => {
                let state = SlotState::ReadingBack(reason.clone());
                self.failures += 1;
                self.reading.fail(failed);
                Some(state)
            }
            (
                Event::AttemptFailed(failed),
                SlotState::Open | SlotState::Attempted | SlotState::InDoubt(_) | SlotState::ReadingBack(_),
            ) if !failed.read_back && (!self.is_doubted() || self.is_settled_by(failed)) => {
                self.failures += 1;
                self.attempts += u32::from(!failed.waiting);
                self.attempts_max = failed.attempts_max.unwrap_or(ATTEMPTS_MAX);
                self.in_doubt |= failed.in_doubt;
                self.error = Some(failed.error.clone());
                self.task.take_if(|_| !failed.waiting);
                self.pin_changed = failed.pin_changed;
                Some(match (&self.request, failed.retry_after_ms) {
                    (Request::Chat { .. }, _) if failed.is_too_large() => SlotState::TooLarge,
                    (_, Some(_)) => SlotState::Open,
                    (_, None) => SlotState::NotRetryable,
                })
            }
            (
                Event::Abandoned(abandoned),
                SlotState::Open | SlotState::Attempted | SlotState::NotRetryable,
            ) => Some(SlotState::Answered(Response::Unavailable { reason: abandoned.reason.clone() })),
            (Event::InputRequired(required), SlotState::Open | SlotState::Attempted) => {
                self.rounds += 1;
                self.attempts = 0;
                self.input_responses = Some(InputResponses {
                    request_state: required.request_state.clone(),
                    responses: BTreeMap::new(),
                    questions: required.input_requests.clone(),
                });
                Some(awaiting(required.input_requests.clone()))
            }
            (Event::InputProvided(provided), SlotState::AwaitingInput(forms)) => {
                let mut left = forms.clone();
                left.remove(&provided.name)?;
                let input_responses = self.input_responses.get_or_insert_default();
                input_responses.responses.insert(provided.name.clone(), provided.response.clone());
                Some(awaiting(left))
            }
            (
                Event::InDoubt(in_doubt),
                SlotState::Open | SlotState::Attempted | SlotState::NotRetryable | SlotState::ReadingBack(_),
            ) if self.may_have_happened() => {
                let reason = in_doubt.reason.clone();
                self.reading = ReadAttempts::default();
                Some(match in_doubt.read_back_after_ms {
                    Some(_) => SlotState::ReadingBack(reason),
                    None => SlotState::InDoubt(reason),
                })
            }
            (Event::Reconciled(reconciled), SlotState::InDoubt(_) | SlotState::ReadingBack(_)) => {
                Some(self.reconciled(reconciled))
            }
            _ => None,
        }
    }
}

/// Returns the state of a slot that waits for `forms`. Without forms the request is open again.
fn awaiting(forms: BTreeMap<String, Elicitation>) -> SlotState {
    if forms.is_empty() { SlotState::Open } else { SlotState::AwaitingInput(forms) }
}
