//! Progress of a thread: folds its log, determines the next step, and turns the outcomes of requests into events.

mod budget_end;
mod empty_reply;
mod fit;
mod fold;
mod limits;
mod offer;
mod offers;
mod oversize;
mod read_back;
mod receive;
mod rollback;
mod slot;
mod status;
mod stop;
mod unended;
mod unoffered;
mod window;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value;
use uuid::Uuid;

pub use self::{
    empty_reply::EMPTY_REPLY,
    fit::{SUMMARISE_NODE, SUMMARISE_PROMPT},
    receive::{ATTEMPTS_MAX, Attempt, INPUT_ROUNDS_MAX},
    status::RunStatus,
    stop::says_stop,
    unoffered::STRAY_CALLS,
};
use self::{
    empty_reply::NO_REPLY,
    offers::Offers,
    rollback::TurnStart,
    slot::{Slot, SlotState},
    stop::Writes,
    unended::Unended,
    window::Window,
};
pub use self::{slot::OpenTask, unended::UnendedWrite};

use crate::{
    client_tools::{ClientTool, ToolChoice, open_calls},
    effect::UnexpectedResponse,
    elicitation::{InputResponses, InvalidAnswer},
    event::{Decided, Event, Goto, InputProvided, Interrupt, Summarised, TurnKind, TurnStarted, Unreadable},
    message::{Message, Role, Safety, Tool},
    node_config::{EngineConfig, NodeConfig},
    outcome::{Outcome, OutcomeKind},
    request::{Request, Response},
    status::Policy,
    strategy::{Edge, Strategy, Thread, Transition, TurnSoFar},
    toolboxes::Toolboxes,
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

/// Reason for rejecting a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageRejected {
    /// A turn is under way, or waits for a decision on a call in doubt.
    #[error("the thread is busy")]
    Busy,
    /// The message was sent as an answer, but the thread did not ask anything.
    #[error("nothing was asked, so there is nothing to answer")]
    NothingAsked,
    /// The message is the result of a call of a tool of the client, and no such call is open.
    #[error("no call waits for the result {0:?}")]
    NoOpenCall(String),
    /// A tool waits for input, and the message does not fit its form.
    #[error("the message does not fit the form of the tool that waits for it: {0}")]
    InvalidAnswer(InvalidAnswer),
}

/// A thread together with the current position of its control.
pub struct Progress<S: Strategy> {
    pub(crate) thread: Thread<S>,
    /// Tenant that owns the thread.
    pub(crate) tenant: String,
    turn: Option<Uuid>,
    /// Session that each server kept for the thread at its last call.
    sessions: BTreeMap<String, String>,
    /// Configuration that belongs to the engine: that of the nodes, and the usable servers.
    pub(crate) engine: EngineConfig,
    /// Limits, sizes and the summary by which requests are made to fit.
    window: Window,
    /// Hashes of what servers and the client offer.
    offers: Offers,
    /// Tasks whose results are not needed any more, since the last requests.
    abandoned_tasks: Vec<OpenTask>,
    /// Servers that carried out a write since the approval with which the turn began; `None` if it began otherwise.
    written_since_approval: Option<BTreeSet<String>>,
    /// Calls of the current request that may have changed something.
    writes: Writes,
    /// Calls of cancelled turns of which no end is known.
    unended: Unended,
    /// True if the last turn was cancelled.
    is_cancelled: bool,
    /// Toolboxes of the client.
    toolboxes: Toolboxes,
    /// The thread as it was when the turn began; `None` before the first one.
    turn_start: Option<Box<TurnStart<S::State>>>,
    seq: usize,
    at: Phase<S::NodeName>,
}

#[derive(Clone)]
enum Phase<P> {
    /// A person may send a new request.
    Idle,
    /// A question waits for the person's answer.
    AwaitingAnswer(Interrupt, P),
    /// The node's requests are about to be recorded.
    Ready(P),
    /// The event of this number recorded the requests, and their answers are arriving.
    AwaitingResponses(Place<P>, usize, Vec<Slot>),
    /// The node failed and waits for an operator. Without requests, it failed before it could issue any.
    Failed(Place<P>, usize, Vec<Slot>, String),
}

/// Issuer of requests.
#[derive(Clone, Copy)]
enum Place<P> {
    /// A node of the strategy.
    Node(P),
    /// The engine, which summarises messages to make room for the requests of this node.
    Summarise(P),
}

impl<P: serde::Serialize + serde::de::DeserializeOwned> Place<P> {
    /// Returns true if this name stands for the issuer: its name now, or an earlier one.
    fn is_named(&self, wanted: &str) -> bool {
        match self {
            Self::Node(node) => is_node(node, wanted),
            Self::Summarise(_) => wanted == SUMMARISE_NODE,
        }
    }

    /// Returns the node, or the node that follows.
    fn node(self) -> P {
        let (Self::Node(node) | Self::Summarise(node)) = self;
        node
    }

    /// Returns the name as written in the log.
    fn name(&self) -> String {
        match self {
            Self::Node(node) => name(node),
            Self::Summarise(_) => SUMMARISE_NODE.to_owned(),
        }
    }
}

/// Notice in front of a server's output after the server has lost its session.
const SESSION_LOST: &str = "[the server started a new session and may have forgotten earlier calls]";

/// Cause of the outcome of a turn whose answer is not in the form that the client asked for.
const NO_TYPED_ANSWER: &str = "no typed answer";

/// Result of a call in doubt that a person has left unresolved. A strategy that repeats failed calls checks for it.
pub const SKIPPED: &str = "it is unknown whether this call took effect, and it must not be repeated";

/// Error of a log that no thread of this strategy could have written.
#[derive(Debug, thiserror::Error)]
pub enum InvalidLog {
    /// An event that cannot follow the ones before it.
    #[error("event {seq} cannot occur at this point: {event}")]
    UnexpectedEvent {
        /// Number of the event.
        seq: usize,
        /// Event that cannot occur at this point.
        event: Box<Event>,
    },
    /// A stored event that this version cannot read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A fact, a node or a configuration that this version of the strategy cannot read.
    #[error("this version of the strategy cannot read the log: {0}")]
    Incompatible(#[from] serde_json::Error),
    /// An answer of the wrong kind.
    #[error("the log contains an answer of the wrong kind: {0}")]
    Refused(#[from] UnexpectedResponse),
}

impl<S: Strategy> Clone for Progress<S> {
    fn clone(&self) -> Self {
        Self {
            thread: self.thread.clone(),
            tenant: self.tenant.clone(),
            turn: self.turn,
            sessions: self.sessions.clone(),
            engine: self.engine.clone(),
            window: self.window.clone(),
            offers: self.offers.clone(),
            seq: self.seq,
            at: self.at.clone(),
            abandoned_tasks: self.abandoned_tasks.clone(),
            written_since_approval: self.written_since_approval.clone(),
            writes: self.writes.clone(),
            unended: self.unended.clone(),
            is_cancelled: self.is_cancelled,
            toolboxes: self.toolboxes.clone(),
            turn_start: self.turn_start.clone(),
        }
    }
}

impl<S: Strategy> Progress<S> {
    /// Creates a thread with an empty log.
    pub fn new() -> Self {
        Self {
            thread: Thread::default(),
            tenant: String::new(),
            turn: None,
            sessions: BTreeMap::new(),
            engine: EngineConfig::default(),
            window: Window::default(),
            offers: Offers::default(),
            abandoned_tasks: Vec::new(),
            written_since_approval: None,
            writes: Writes::new(),
            unended: Unended::new(),
            is_cancelled: false,
            toolboxes: Toolboxes::default(),
            turn_start: None,
            seq: 0,
            at: Phase::Idle,
        }
    }

    /// Returns the number of folded events, which is the number of the next one.
    pub fn seq(&self) -> usize {
        self.seq
    }

    /// Returns the tasks of servers whose results are not needed any more. Their servers have not been told yet, or only by a
    /// worker that did not continue.
    pub fn abandoned_tasks(&self) -> &[OpenTask] {
        &self.abandoned_tasks
    }

    /// Returns true if the next write of `server` is its first one after a person's approval. The server's list is read again
    /// before it.
    pub fn is_first_approved_write(&self, server: &str) -> bool {
        self.written_since_approval.as_ref().is_some_and(|written| !written.contains(server))
    }

    /// Returns true if the thread does nothing but read requests in doubt back.
    pub fn is_only_reading_back(&self) -> bool {
        let Phase::AwaitingResponses(_, _, slots) = &self.at else { return false };
        let mut moving = slots.iter().filter(|slot| slot.can_move()).peekable();
        moving.peek().is_some() && moving.all(Slot::is_reading_back)
    }

    /// Returns true if the thread is idle, and its last turn was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled
    }

    /// Returns the current turn, or the last one.
    pub fn turn(&self) -> Option<Uuid> {
        self.turn
    }

    /// Folds one event into the thread.
    ///
    /// # Errors
    ///
    /// [`InvalidLog::UnexpectedEvent`] if the event cannot occur at this point. The thread is unchanged then.
    pub fn apply(&mut self, event: &Event) -> Result<(), InvalidLog> {
        if !self.fold(event)? {
            return Err(InvalidLog::UnexpectedEvent { seq: self.seq, event: Box::new(event.clone()) });
        }
        self.seq += 1;
        Ok(())
    }

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

    /// Returns the event that records `messages` now.
    ///
    /// # Errors
    ///
    /// [`MessageRejected`] if the thread cannot take them now.
    pub fn accept_message(
        &self,
        turn: Uuid,
        actor: &str,
        time: &str,
        policy: Policy,
        mut messages: Vec<Message>,
    ) -> Result<Event, MessageRejected> {
        if let (Some(input), Policy::Auto | Policy::Answer) = (self.pending_input(), policy) {
            let words = messages
                .iter()
                .rfind(|message| message.role == Role::User)
                .map_or("", |message| &message.content);
            let response = input.elicitation.read(words).map_err(MessageRejected::InvalidAnswer)?;
            let (slot, name) = (input.slot, input.name.to_owned());
            let actor = actor.to_owned();
            let provided = InputProvided {
                slot,
                name,
                response,
                actor,
                turn,
                caller: None,
                history_hash: None,
                priority: None,
                metadata: None,
                build: None,
            };
            return Ok(provided.into());
        }
        let open = open_calls(&self.thread.messages);
        let is_open = |id: &str| open.iter().any(|call| call.id == id);
        if let Some(id) = results(&messages).find(|id| !is_open(id)) {
            return Err(MessageRejected::NoOpenCall(id.to_owned()));
        }
        let kind = match (&self.at, policy) {
            (Phase::AwaitingResponses(..), Policy::Replan) if self.is_awaiting_input() => TurnKind::New,
            (Phase::Ready(_) | Phase::AwaitingResponses(..), _) => return Err(MessageRejected::Busy),
            (Phase::Idle, _) if self.is_cancelled && says_stop(&messages) => TurnKind::Stop,
            (Phase::AwaitingAnswer(..), Policy::Auto | Policy::Answer) => TurnKind::Answer,
            (Phase::Idle | Phase::Failed(..), Policy::Answer) => return Err(MessageRejected::NothingAsked),
            (Phase::Idle | Phase::Failed(..), Policy::Auto) | (_, Policy::Replan) => TurnKind::New,
        };
        if kind == TurnKind::Stop {
            messages.push(self.stop_report(&messages));
        }
        let (actor, time) = (actor.to_owned(), time.to_owned());
        let forgotten_models = Vec::new();
        let (caller, reply_options, toolbox, history_hash, build) = (None, None, None, None, None);
        let started = TurnStarted {
            turn,
            actor,
            time,
            kind,
            messages,
            caller,
            forgotten_models,
            reply_options,
            toolbox,
            history_hash,
            priority: None,
            metadata: None,
            build,
        };
        Ok(started.into())
    }

    /// Returns the toolboxes of the client so far.
    pub(crate) fn toolboxes(&self) -> &Toolboxes {
        &self.toolboxes
    }

    /// Returns the models whose limits were learned before an operator asked to forget them, by the RFC 3339 time of that.
    pub fn models_to_forget(&self, forgotten: &BTreeMap<String, String>) -> Vec<String> {
        self.window.limits.learned_before(forgotten)
    }

    /// Returns the node whose requests are pending, for its schema and its tools.
    pub(crate) fn asking(&self) -> Option<&'static dyn crate::strategy::Step<S>> {
        match &self.at {
            Phase::AwaitingResponses(Place::Node(node), ..) => Some(S::node(*node)),
            Phase::AwaitingResponses(Place::Summarise(_), ..)
            | Phase::Idle
            | Phase::AwaitingAnswer(..)
            | Phase::Ready(_)
            | Phase::Failed(..) => None,
        }
    }

    /// Returns the tools that a node may offer in addition to those of servers: its own and the client's.
    pub(crate) fn node_tools(&self, node: &dyn crate::strategy::Step<S>) -> Vec<Tool> {
        let of_client = self.thread.turn.reply_options.tools.iter().map(ClientTool::tool);
        node.tools().into_iter().chain(of_client).collect()
    }

    /// Returns the JSON Schema of replies to a node: its own, or that of the client where the node writes the answer.
    pub(crate) fn schema_of(&self, node: &dyn crate::strategy::Step<S>) -> Option<Value> {
        node.schema().or_else(|| self.thread.turn.reply_options.response_format.schema())
    }

    /// Returns the part of the pending node's incomplete reply that the person may already read. The answer of a node with
    /// several requests follows from all of them, so it has no preview.
    pub fn preview<'a>(&self, partial: &'a str) -> Option<Cow<'a, str>> {
        match &self.at {
            // A reply in a format may be asked for again until it is checked.
            Phase::AwaitingResponses(Place::Node(node), _, slots)
                if slots.len() == 1 && !self.thread.turn.is_formatted() =>
            {
                S::node(*node).preview(&self.thread, partial)
            }
            Phase::Idle
            | Phase::AwaitingAnswer(..)
            | Phase::Ready(_)
            | Phase::AwaitingResponses(..)
            | Phase::Failed(..) => None,
        }
    }

    /// Returns the current node, if a turn is under way.
    pub fn node(&self) -> Option<String> {
        match &self.at {
            Phase::Ready(node) => Some(name(node)),
            Phase::AwaitingResponses(place, ..) | Phase::Failed(place, ..) => Some(place.name()),
            Phase::Idle | Phase::AwaitingAnswer(..) => None,
        }
    }

    /// Returns the outcome of the turn if it ends with a decision that adds `last`, or `None` if the turn was answered.
    fn outcome_with(&self, last: Outcome) -> Option<Outcome> {
        let TurnSoFar { outcome, causes, .. } = &self.thread.turn;
        let mut all = self.judged(last.and(outcome));
        causes.iter().for_each(|cause| all.add(OutcomeKind::Partial, cause.clone()));
        if self.has_empty_reply() {
            all.add(OutcomeKind::Partial, NO_REPLY.into());
        }
        (!all.is_answered()).then_some(all)
    }

    /// Returns true if a turn that ends with these messages has no answer in the form that the client asked for.
    fn misses_format(&self, messages: &[Message]) -> bool {
        let answer = messages.iter().rfind(|message| message.role == Role::Assistant);
        let text = answer.map_or("", |answer| answer.content.as_str());
        self.thread.turn.reply_options.response_format.check_reply(text).is_err()
    }

    /// **Invariant:** a turn is declined only if no tool has run for its request, whatever its strategy decides.
    fn judged(&self, outcome: Outcome) -> Outcome {
        if self.thread.turn.tool_ran { outcome.after_a_tool_ran() } else { outcome }
    }

    /// Attaches the images of tool results to the messages that hold the results.
    fn attach_images(&self, messages: &mut [Message]) {
        let Phase::AwaitingResponses(_, _, slots) = &self.at else { return };
        let with_images = slots.iter().filter(|slot| !slot.images.is_empty());
        for slot in with_images {
            let Request::CallTool { call, .. } = &slot.request else { continue };
            let is_result = |message: &&mut Message| {
                message.role == Role::Tool && message.tool_call_id.as_ref() == Some(&call.id)
            };
            if let Some(result) = messages.iter_mut().find(is_result) {
                result.attachments.extend(slot.images.iter().cloned());
            }
        }
    }

    fn decide(&self, place: S::NodeName, responses: &[Response]) -> Result<Event, InvalidLog> {
        let Transition { mut messages, facts, reason, to, question, outcome } =
            S::node(place).transition(&self.thread, responses)?;
        self.attach_images(&mut messages);
        let facts = facts.iter().map(serde_json::to_value).collect::<Result<_, _>>()?;
        let to = match (to, question) {
            (Edge::To(node), _) => Goto::Node(name(&node)),
            (Edge::Ask(resume), Some(question)) => Goto::Interrupt(Interrupt {
                kind: question.kind,
                question: question.question,
                open_ended: question.open_ended && !question.options.is_empty(),
                options: question.options,
                elicitation: None,
                resume: name(&resume),
            }),
            (Edge::End | Edge::Ask(_), _) => Goto::End,
        };
        let outcome = match to {
            Goto::End => {
                let mut outcome = outcome.unwrap_or_default();
                if self.misses_format(&messages) {
                    outcome.add(OutcomeKind::Partial, NO_TYPED_ANSWER.into());
                }
                self.outcome_with(outcome)
            }
            Goto::Node(_) | Goto::Interrupt(_) => outcome.map(|outcome| self.judged(outcome)),
        };
        Ok(Decided { node: name(&place), messages, facts, reason, to, budget_exceeded: None, outcome }.into())
    }
}

impl<S: Strategy> Default for Progress<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<P: serde::Serialize + serde::de::DeserializeOwned> Phase<P> {
    /// Returns true if this decision may be recorded now. A decision for an exceeded budget needs no answers.
    fn may_decide(&self, decided: &Decided) -> bool {
        match self {
            Phase::Idle | Phase::AwaitingAnswer(..) | Phase::Failed(..) => false,
            Phase::Ready(place) => is_node(place, &decided.node),
            Phase::AwaitingResponses(place, _, slots) => {
                let answered = || slots.iter().all(|slot| slot.answer().is_some());
                place.is_named(&decided.node) && (decided.budget_exceeded.is_some() || answered())
            }
        }
    }
}

/// Returns the ids of the calls whose results are the first messages.
fn results(messages: &[Message]) -> impl Iterator<Item = &str> {
    messages.iter().map_while(|message| message.tool_call_id.as_deref())
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

/// Returns true if this name stands for the node: the name that it has now, or an earlier one that serde still reads.
fn is_node<P: serde::Serialize + serde::de::DeserializeOwned>(place: &P, wanted: &str) -> bool {
    let now = name(place);
    now == wanted || read::<P>(&Value::from(wanted)).is_ok_and(|place| name(&place) == now)
}

/// Returns a node's name as written in the log.
pub(crate) fn name<P: serde::Serialize>(place: &P) -> String {
    match serde_json::to_value(place) {
        Ok(Value::String(name)) => name,
        other => unreachable!("a node serializes to its name, not to {other:?}"),
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, serde_json::Error> {
    T::deserialize(value)
}
