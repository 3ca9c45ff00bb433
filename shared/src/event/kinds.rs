//! Payload of each kind of event.
//!
//! Released payloads are stable: fields may be added with a default, but are never renamed or removed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    budget::{Budget, BudgetExceeded},
    context::ContextSettings,
    elicitation::{Elicitation, InputResponse},
    message::{Message, ToolOutput},
    outcome::Outcome,
    reply_options::ReplyOptions,
    request::{Request, Response},
    status::Priority,
    tool_content::ResponseExtras,
    usage::Usage,
};

/// Authenticated sender of the request that caused an event: its key proves it, while the `actor` beside it is what the
/// client claims. Absent if the API required no key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallerId {
    /// Id of the API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Name of the key, or subject of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

/// A thread was opened with a strategy and a configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// Version of the log format.
    #[serde(default = "first_format")]
    pub format: u32,
    /// Name of the strategy.
    pub strategy: String,
    /// Version of the strategy.
    #[serde(default)]
    pub version: u32,
    /// Configuration values that were set. Secrets are never part of it.
    #[serde(default)]
    pub config: Value,
    /// MCP servers available to the thread, with the description of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub servers: BTreeMap<String, String>,
    /// Budget of the thread and of each turn.
    #[serde(default, skip_serializing_if = "Budget::is_none")]
    pub budget: Budget,
    /// Settings by which requests are made to fit into the context windows of models.
    #[serde(default, skip_serializing_if = "ContextSettings::is_default")]
    pub context: ContextSettings,
    /// Person or program that opened the thread.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Tenant that owns the thread.
    #[serde(default = "default_tenant", skip_serializing_if = "is_default_tenant")]
    pub tenant: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
}

/// Tenant of threads that name none.
pub const DEFAULT_TENANT: &str = "default";

fn default_tenant() -> String {
    DEFAULT_TENANT.to_owned()
}

fn is_default_tenant(name: &str) -> bool {
    name == DEFAULT_TENANT
}

fn first_format() -> u32 {
    1
}

/// A turn started with a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnStarted {
    /// Id of the turn.
    #[serde(default)]
    pub turn: Uuid,
    /// Author of the message.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Start time of the turn (RFC 3339, UTC). A strategy sees no other clock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time: String,
    /// New request, or answer to a pending question.
    #[serde(default)]
    pub kind: TurnKind,
    /// Messages of the turn. More than one if a client supplies a conversation.
    pub messages: Vec<Message>,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// Models whose limits the thread forgets, because an operator asked for it after they were learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten_models: Vec<String>,
    /// Demands of the client on the reply. Absent: none, or in an answer those of the turn that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_options: Option<Box<ReplyOptions>>,
    /// Number of the toolbox of the client, if an earlier turn of the thread had the same: `reply_options` leaves it out. The
    /// toolboxes of a thread are those of its turns that carry `tools`, counted from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolbox: Option<usize>,
    /// Hash of the conversation that the client sent whole, by which its next request finds the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_hash: Option<String>,
    /// Priority of the turn. Absent: normal, or an older version left it in the row alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Metadata of the client. Absent: none, or an older version left it in the row alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Build of the worker that starts the turn: its version, and its commit if it was built with one. A thread may outlive many
    /// deployments, and the API that opens it decides nothing, so the build is recorded here and not in `opened`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

/// Relation of a message to its thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnKind {
    /// New request. The strategy picks the first node.
    #[default]
    New,
    /// Answer to a question. The turn resumes at the node that the question names.
    Answer,
    /// Stop. The turn before was cancelled for it; the last message is the engine's report, and the turn ends with it.
    Stop,
}

/// A node issued requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Name of the node.
    pub node: String,
    /// Requests of the node. The idempotency key of each is `thread:seq:slot`, where `seq` is the position of this
    /// event.
    pub requests: Vec<Request>,
}

/// A request that may change the outside world is about to be sent.
///
/// The append is the fence: two workers cannot both start the same attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempted {
    /// Index of the request within its node.
    pub slot: usize,
    /// Id of the worker that makes the attempt.
    #[serde(default)]
    pub worker: String,
}

/// A request was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// Index of the request within its node.
    pub slot: usize,
    /// Response as recorded in the log.
    pub response: Response,
    /// Tokens, cost and time of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Tool content other than text, and the id of the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extras: Option<Box<ResponseExtras>>,
}

impl Answered {
    /// Returns the response, with its extras merged in, and its usage.
    pub fn outcome(self) -> (Response, Option<Usage>) {
        match (self.response, self.extras) {
            (Response::Output(output), Some(extras)) => {
                (Response::OutputWithExtras { output, extras }, self.usage)
            }
            (response, Some(_) | None) => (response, self.usage),
        }
    }
}

/// An attempt failed, or its response did not fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptFailed {
    /// Index of the request within its node.
    pub slot: usize,
    /// Error of the failed attempt.
    pub error: String,
    /// Delay before the next attempt, in milliseconds after this event. Without it, the request is not retried
    /// automatically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The request was sent and its response was lost. It may have taken effect, and is safe to repeat.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
    /// Usage of the failed attempt. Unusable responses are billed too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The model or server takes no request for now, so the request waits and this is not counted as an attempt. Further
    /// refusals of a request that changes nothing are not recorded: it waits until the next event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// Configured number of attempts of the request, if it is not the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u32>,
    /// The server offers other tools than its pin, so nothing was sent to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pin_changed: bool,
    /// Context window of the model in tokens, learned from its refusal. Later requests of the thread to this model are
    /// made to fit into it, and the node issues its requests anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Number of images and files that the model takes in one request, learned from its refusal like `context_tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments_max: Option<u64>,
    /// The refusal named no limit, so `context_tokens` or `attachments_max` is a guess. It is kept if the model answers the
    /// smaller request, and forgotten otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_trial: bool,
    /// The attempt was a read-back of the request, and not the request itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub read_back: bool,
}

impl AttemptFailed {
    /// Returns true if the request was refused for its size, and its node issues a smaller one.
    pub fn is_too_large(&self) -> bool {
        self.context_tokens.is_some() || self.attachments_max.is_some()
    }
}

/// A request was given up. Its node continues without a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abandoned {
    /// Index of the request within its node.
    pub slot: usize,
    /// Reason, for the model and for people.
    pub reason: String,
}

/// A request that may have changed the outside world lost its response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InDoubt {
    /// Index of the request within its node.
    pub slot: usize,
    /// Reason for the loss.
    pub reason: String,
    /// Delay after which the engine reads the request back, in milliseconds. Without it, a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_back_after_ms: Option<u64>,
    /// Read-back that left the doubt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_back: Option<Box<Reading>>,
}

impl InDoubt {
    /// Creates a doubt that only a person can settle.
    pub fn new(slot: usize, reason: String) -> Self {
        Self { slot, reason, read_back_after_ms: None, read_back: None }
    }
}

/// A person, or a read-back, decided the outcome of a request in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconciled {
    /// Index of the request within its node.
    pub slot: usize,
    /// Outcome as the person reported it, or as the read-back shows it.
    pub verdict: Verdict,
    /// Person or program that caused the event.
    #[serde(default)]
    pub actor: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// Read-back that settled the doubt. Absent if a person did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_back: Option<Box<Reading>>,
}

/// Call of a tool that reads a request in doubt back, and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    /// Name of the tool, at the server of the request.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Value,
    /// Answer of the tool. Absent if it is the result in the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ToolOutput>,
}

/// Outcome of a request in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It took effect with this result.
    Happened {
        /// Text in place of the lost response of the tool.
        result: String,
    },
    /// It took no effect and may be attempted again.
    DidNotHappen,
    /// The outcome is unknown, and the request must not be attempted again.
    Skip,
}

/// A server carries a call out as a task. The call is not sent again: the task is asked for its result until it ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskStarted {
    /// Index of the request within its node.
    pub slot: usize,
    /// Id of the task at the server.
    pub task: String,
}

/// A tool needs input from a person before it can run.
///
/// The attempt ends with this event. The next attempt starts once every input is provided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputRequired {
    /// Index of the request within its node.
    pub slot: usize,
    /// Requested inputs by name. If empty, the request is repeated without input.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input_requests: BTreeMap<String, Elicitation>,
    /// Opaque state that the server expects back unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_state: Option<String>,
}

/// A person provided one input, or refused to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputProvided {
    /// Index of the request within its node.
    pub slot: usize,
    /// Name of the requested input.
    pub name: String,
    /// Response of the person.
    pub response: InputResponse,
    /// Person or program that caused the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Turn that carried the response and continues with it.
    #[serde(default)]
    pub turn: Uuid,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// Hash of the conversation that the client sent whole, by which its next request finds the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_hash: Option<String>,
    /// Priority of the turn. Absent: normal, or an older version left it in the row alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Metadata of the client. Absent: none, or an older version left it in the row alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Build of the worker that continues with the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

/// Messages were summarised, because they do not fit into the context window of a model.
///
/// The text is the answer before this event. Models whose context window is too small for all messages receive it in
/// their place; the messages themselves remain in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summarised {
    /// Number of messages that the summary covers, counted from the beginning of the conversation.
    pub upto: usize,
}

/// A node decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// Name of the node.
    pub node: String,
    /// Messages added to the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<Message>,
    /// Facts concluded by the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Value>,
    /// Reason in one line, if a threshold or a limit decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Destination of control.
    pub to: Goto,
    /// Budget that ended the turn before the node ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_exceeded: Option<BudgetExceeded>,
    /// Outcome of the turn. The decision that ends the turn has all causes, and without this field the turn was
    /// answered. An earlier decision has what it adds to the outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

/// Destination of control after a decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goto {
    /// Another node.
    Node(String),
    /// End of the turn.
    End,
    /// A question to a person.
    Interrupt(Interrupt),
}

/// Question to a person, as it is recorded. It ends the turn; the answer starts the next one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// Kind of the question.
    pub kind: InterruptKind,
    /// Text of the question.
    pub question: String,
    /// Accepted answers. Empty if any text is accepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// True if any text is accepted in addition to the options.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open_ended: bool,
    /// Elicitation that the question is about. Only with the kind `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<Box<Elicitation>>,
    /// Node that receives the answer.
    pub resume: String,
}

/// Kind of a question to a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// Meaning of an ambiguous request.
    Clarification,
    /// Value of a missing field.
    SlotFill,
    /// Choice among options.
    Choice,
    /// Permission to act.
    Approval,
    /// Choice among readings of a request.
    Ambiguity,
    /// Outcome of a call in doubt. Answered by reconciling, not by a message.
    InDoubt,
    /// Input that a tool needs before it can run. The answer goes to the tool.
    Input,
}

impl InterruptKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 7] = [
        Self::Clarification,
        Self::SlotFill,
        Self::Choice,
        Self::Approval,
        Self::Ambiguity,
        Self::InDoubt,
        Self::Input,
    ];

    /// Returns true if the question proposes an action, so that "yes" alone answers it.
    pub fn proposes_an_action(self) -> bool {
        matches!(self, Self::Approval | Self::InDoubt | Self::Input)
    }

    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            InterruptKind::Clarification => "clarification",
            InterruptKind::SlotFill => "slot_fill",
            InterruptKind::Choice => "choice",
            InterruptKind::Approval => "approval",
            InterruptKind::Ambiguity => "ambiguity",
            InterruptKind::InDoubt => "in_doubt",
            InterruptKind::Input => "input",
        }
    }
}

/// A node failed and the turn stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Name of the node.
    pub node: String,
    /// Reason, with the action an operator can take.
    pub reason: String,
    /// Worker that stopped the node, because it killed or panicked its workers or exceeded their limits. Absent if the node
    /// failed because of its requests, which replay decides again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

/// An operator retried a failed node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retried {
    /// Person or program that caused the event.
    #[serde(default)]
    pub actor: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// Models whose limits the thread forgets, because an operator asked for it after they were learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten_models: Vec<String>,
}

/// A turn was cancelled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancelled {
    /// Person or program that caused the event.
    #[serde(default)]
    pub actor: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
    /// The thread continues as if the turn had not been. Calls that may have changed something are not undone: the
    /// conversation names them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rolled_back: bool,
}

/// A call that may change something was under way when its turn was cancelled, and has ended. The cancellation is not undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteEnded {
    /// Number of the last `attempted` event of the call.
    pub attempted: u64,
    /// Ending of the call.
    pub ending: WriteEnding,
    /// Result or error of the call, at most 4,000 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Ending of a call whose turn was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteEnding {
    /// The call was made.
    Made,
    /// The call was made, and its result is an error.
    Failed,
    /// The call was not made.
    NotMade,
    /// The answer was lost. The call may have been made, or still be made.
    Unknown,
}

/// The events before this one were copied from another thread, and the log continues on its own from here.
///
/// Copied answers are kept and not requested again. A request without an answer is issued anew. A write that was under
/// way is marked `in_doubt` next, because only the source thread knows its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forked {
    /// Source thread. Its events were copied unchanged except for the ids of turns.
    pub thread: Uuid,
    /// Position of the last copied event.
    pub seq: u64,
    /// Hash of that event in the source log, in hex.
    pub hash: String,
    /// Configuration values from here on. Null leaves the configuration unchanged.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub config: Value,
    /// Budget from here on. Absent leaves the budget unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// System prompts by node. `{prompt}` is replaced by the node's own prompt.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, String>,
    /// Facts added to the state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub facts: Vec<Value>,
    /// Person or program that caused the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
}

/// A worker continues a turn that another worker had begun to run, and did not finish: it was killed, disconnected or stalled
/// until its lease expired. Requests that were under way are sent again, or are in doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakenOver {
    /// Name of the worker that continues.
    pub worker: String,
    /// Name of the worker before it.
    pub from: String,
    /// Time since the last sign of life of that worker, in milliseconds before this event. Absent if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_ms: Option<u64>,
}

/// A person rated the answer of a turn. Nothing else changes. A later rating of the same turn replaces this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rated {
    /// Turn whose answer is rated.
    pub turn: Uuid,
    /// Judgement of the person.
    pub rating: Rating,
    /// Reason in the person's words, at most 2,000 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// Person or program that caused the event.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    /// Authenticated sender of the request that caused the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<CallerId>,
}

/// Maximum length of the note of a rating, in characters.
pub const RATING_NOTE_MAX: usize = 2_000;

/// Judgement of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    /// The answer is good.
    Good,
    /// The answer is bad.
    Bad,
}

impl Rating {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
        }
    }
}

#[test]
fn all_kinds_of_interrupts_are_listed() {
    let unknown = serde_json::from_str::<InterruptKind>("\"unknown\"").unwrap_err().to_string();
    let names = InterruptKind::ALL.map(|kind| format!("`{}`", kind.name()));
    assert!(unknown.contains(&format!("expected one of {} at", names.join(", "))), "{unknown}");
}
