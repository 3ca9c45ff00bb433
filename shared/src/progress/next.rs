//! Next step of a thread: an event that follows from its log, requests to carry out, or nothing.

use super::{
    InvalidLog, Progress,
    empty_reply::EMPTY_REPLY,
    phase::{Phase, Place, name},
    slot::{Slot, SlotState},
    unoffered::STRAY_CALLS,
};
use crate::{
    client_tools::ToolChoice,
    elicitation::InputResponses,
    event::{Event, Summarised},
    message::Safety,
    node_config::NodeConfig,
    request::{Request, Response},
    strategy::Strategy,
};

/// Next step of a thread.
#[derive(Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one is made a step, and used up at once")]
pub enum Next {
    /// Append this event, then determine the next step again.
    Append(Event),
    /// Append an `attempted` event for each request that [may change the outside world](PendingRequest::is_write),
    /// carry out all requests concurrently, and append the event that [`Progress::receive`] returns for each outcome.
    Perform(Vec<PendingRequest>),
    /// Wait for a person.
    Wait,
}

/// Request that is waiting for its answer.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingRequest {
    /// Index among the node's requests.
    pub slot: usize,
    /// Number of the `asked` event. Together with the thread and the slot it forms the idempotency key.
    pub asked_seq: usize,
    /// Request to carry out.
    pub request: Request,
    /// Effect of a repetition on the outside world.
    pub safety: Safety,
    /// Number of failed attempts since the node asked, over all retries.
    pub failures: u32,
    /// Number of failed attempts since the node asked or was last retried. The backoff grows with it.
    pub attempts: u32,
    /// Error of the last reply, returned to the model so that it can correct it.
    pub previous_error: Option<String>,
    /// Id of the task in which the server carries the request out. It is asked for its result, and the request is not sent
    /// again.
    pub task: Option<String>,
    /// Inputs from a person to send along, if an earlier attempt required them.
    pub input_responses: Option<InputResponses>,
    /// True if this is the read-back of a request in doubt, and not the request itself.
    pub is_read_back: bool,
}

impl PendingRequest {
    /// Returns true if sending the request may change the outside world. Asking a task for its result changes nothing.
    pub fn is_write(&self) -> bool {
        self.safety != Safety::Read && self.task.is_none()
    }
}

impl<S: Strategy> Progress<S> {
    /// Determines the next step from the log alone. Every caller advances a thread through this function.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no version of this strategy could have written the log.
    pub fn next(&self) -> Result<Next, InvalidLog> {
        match &self.at {
            Phase::Idle | Phase::AwaitingAnswer(..) | Phase::Failed(..) => Ok(Next::Wait),
            Phase::Ready(place) => {
                let requests = self.requests(*place);
                if requests.is_empty() {
                    return Ok(Next::Append(self.decide(*place, &[])?));
                }
                if let Some(exceeded) = self.budget_exceeded() {
                    return Ok(Next::Append(self.stop(name(place), exceeded)?));
                }
                Ok(Next::Append(self.issue(*place, requests)))
            }
            Phase::AwaitingResponses(place, asked, slots) => {
                if let Some(event) =
                    slots.iter().enumerate().find_map(|(nth, slot)| self.verdict(*place, nth, slot))
                {
                    return Ok(Next::Append(event));
                }
                let due: Vec<PendingRequest> =
                    slots.iter().enumerate().filter_map(|(n, slot)| self.pending(*asked, n, slot)).collect();
                if let (Some(first), Some(exceeded)) = (due.first(), self.budget_exceeded()) {
                    return Ok(Next::Append(self.withhold(*place, first, &slots[first.slot], exceeded)?));
                }
                if !due.is_empty() {
                    return Ok(Next::Perform(due));
                }
                let responses: Vec<Response> = slots.iter().filter_map(Slot::answer).collect();
                if responses.len() < slots.len() {
                    return Ok(Next::Wait);
                }
                Ok(Next::Append(match place {
                    Place::Node(node) => self.decide(*node, &responses)?,
                    Place::Summarise(_) => summarised(slots),
                }))
            }
        }
    }

    /// Returns the requests of a node, with the configuration of the node applied, and tools called by their servers' own
    /// names.
    fn requests(&self, place: S::NodeName) -> Vec<Request> {
        let node = match self.engine.nodes.is_empty() {
            true => None,
            false => self.engine.nodes.get(&name(&place)),
        };
        let mut requests = S::node(place).requests(&self.thread, node.unwrap_or(&NodeConfig::default()));
        for request in &mut requests {
            if let Request::CallTool { server, call } = request
                && let Some(tool) =
                    self.thread.tool_called(server, &call.name).filter(|tool| tool.name != call.name)
            {
                call.name.clone_from(&tool.name);
            }
        }
        requests.into_iter().map(|request| self.answered_by_log(request)).collect()
    }

    fn pending(&self, asked_seq: usize, slot: usize, state: &Slot) -> Option<PendingRequest> {
        if let SlotState::ReadingBack(_) = state.state {
            return Some(PendingRequest {
                slot,
                asked_seq,
                safety: Safety::Read,
                request: self.read_back(state)?,
                failures: state.failures,
                attempts: state.reading.failed,
                previous_error: None,
                task: None,
                input_responses: None,
                is_read_back: true,
            });
        }
        let open = matches!(state.state, SlotState::Open | SlotState::Attempted);
        let has_schema = matches!(state.request, Request::Chat { response_schema: Some(_), .. });
        open.then(|| PendingRequest {
            slot,
            asked_seq,
            safety: self.safety(&state.request),
            request: state.request.clone(),
            failures: state.failures,
            attempts: state.attempts,
            previous_error: state.error.clone().filter(|error| {
                has_schema
                    || demands_a_call(&state.request)
                    || error.starts_with(EMPTY_REPLY)
                    || error.starts_with(STRAY_CALLS)
            }),
            task: state.task.clone(),
            input_responses: state.input_responses.clone(),
            is_read_back: false,
        })
    }
}

/// Returns true if the reply to a request must call a tool.
fn demands_a_call(request: &Request) -> bool {
    let Request::Chat { tool_use: Some(tool_use), .. } = request else { return false };
    matches!(tool_use.tool_choice, ToolChoice::Required | ToolChoice::Function(_))
}

/// Returns the event that accepts the answer to a request for a summary.
fn summarised(slots: &[Slot]) -> Event {
    let upto = slots.iter().find_map(|slot| {
        let Request::Chat { context, .. } = &slot.request else { return None };
        Some(context.end)
    });
    Summarised { upto: upto.unwrap_or_default() }.into()
}
