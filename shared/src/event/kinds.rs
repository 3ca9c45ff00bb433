//! What each kind of event says. These are a promise: fields may be added with a default, never renamed or removed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    budget::{Budget, Spent},
    content::Kept,
    form::{Form, Supply},
    message::Message,
    meter::Meter,
    request::{Request, Response},
};

/// A thread began, under this strategy with this configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// The grammar of this log.
    #[serde(default = "first_format")]
    pub format: u32,
    /// The strategy's name.
    pub strategy: String,
    /// The strategy's version.
    #[serde(default)]
    pub version: u32,
    /// What of its configuration is set; secrets are never part of it.
    #[serde(default)]
    pub config: Value,
    /// The MCP servers at hand, each with what it is good for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub experts: BTreeMap<String, String>,
    /// What it and each of its turns may take.
    #[serde(default, skip_serializing_if = "Budget::is_none")]
    pub budget: Budget,
    /// Who opened it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Whom it belongs to.
    #[serde(default = "default_tenant", skip_serializing_if = "is_default_tenant")]
    pub tenant: String,
}

/// Whom a thread belongs to where nobody says anything else.
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

/// A person spoke: a turn begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Heard {
    /// The turn that this begins.
    #[serde(default)]
    pub turn: Uuid,
    /// Who spoke.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The time of the turn, RFC 3339 in UTC: the only clock that a strategy sees.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time: String,
    /// Whether it is a new matter or the answer to what was asked.
    #[serde(default)]
    pub hearing: Hearing,
    /// The words; more than one where a client brings a conversation along.
    pub messages: Vec<Message>,
}

/// What a message is to the thread that hears it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hearing {
    /// A new matter: the turn starts where the strategy says.
    #[default]
    Input,
    /// The answer to an interrupt: the turn starts at the node that wants to hear it.
    Answer,
}

/// A node put questions to the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Which node.
    pub node: String,
    /// Its questions. The idempotency key of each is `thread:seq:slot`, seq being this event's.
    pub requests: Vec<Request>,
}

/// A request that may change the world is about to be carried out. This append is the fence: two workers cannot
/// both start the same attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempted {
    /// Which of the node's requests.
    pub slot: usize,
    /// Who is about to do it.
    #[serde(default)]
    pub worker: String,
}

/// The world answered one request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answered {
    /// Which of the node's requests.
    pub slot: usize,
    /// What it said.
    pub response: Response,
    /// What it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<Meter>,
    /// What it said besides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Box<Kept>>,
}

impl Answered {
    /// The outcome that this was.
    pub fn outcome(self) -> (Response, Option<Meter>) {
        match (self.response, self.kept) {
            (Response::Output(output), Some(kept)) => (Response::Whole { output, kept }, self.meter),
            (response, Some(_) | None) => (response, self.meter),
        }
    }
}

/// The world did not answer, or not with anything of use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Faltered {
    /// Which of the node's requests.
    pub slot: usize,
    /// What went wrong.
    pub error: String,
    /// When it may be asked again, in milliseconds after this event; never, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again_after_ms: Option<u64>,
    /// It was sent and its answer was lost: it may have happened, and may be repeated all the same.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_doubt: bool,
    /// What it took all the same: a reply that is of no use is paid for too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter: Option<Meter>,
}

/// A request is given up; its node can do without an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GaveUp {
    /// Which of the node's requests.
    pub slot: usize,
    /// Why, in words for the model and the person.
    pub reason: String,
}

/// A request that may change the world lost its answer: it may or may not have happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doubted {
    /// Which of the node's requests.
    pub slot: usize,
    /// How the answer was lost.
    pub reason: String,
}

/// A person told what had become of a request in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reconciled {
    /// Which of the node's requests.
    pub slot: usize,
    /// What had become of it.
    pub verdict: Verdict,
    /// Who says so.
    #[serde(default)]
    pub by: String,
}

/// What had become of a request in doubt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It happened, with this result.
    Happened {
        /// What the tool would have said.
        result: String,
    },
    /// It did not happen: it may be attempted.
    DidNot,
    /// Nobody knows, and it shall not be attempted again.
    Skip,
}

/// A request was not carried out, because more is wanted for it first. The attempt has ended with that: the next one
/// is made once a person has supplied it all.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Which of the node's requests.
    pub slot: usize,
    /// What is wanted, by the names that the server gave; if nothing, it is only to be asked once more.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub forms: BTreeMap<String, Form>,
    /// What the server wants to be told again, letter by letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// A person supplied one thing that was wanted, or would not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Supplied {
    /// Which of the node's requests.
    pub slot: usize,
    /// Which of the things that were wanted for it.
    pub form: String,
    /// What they answered.
    pub answer: Supply,
    /// Who.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// The turn that the answer came as, and that goes on with it.
    #[serde(default)]
    pub turn: Uuid,
}

/// The node drew its conclusions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decided {
    /// Which node.
    pub node: String,
    /// What it said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<Message>,
    /// What it concluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<Value>,
    /// Why, in one line, where a threshold or a limit decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Where control goes.
    pub to: Goto,
    /// The budget by which the turn ends here, in the node's place and before it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Spent>,
}

/// Where control goes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Goto {
    /// To another node.
    Node(String),
    /// Nowhere: the turn is over.
    End,
    /// To a person.
    Interrupt(Interrupt),
}

/// A typed question to a person that the turn waits on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// What kind of decision is wanted.
    pub kind: InterruptKind,
    /// The words.
    pub question: String,
    /// What may be chosen; anything, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// What an answer must fit, where a tool wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<Box<Form>>,
    /// The node that hears the answer.
    pub resume: String,
}

/// What kind of decision is wanted of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterruptKind {
    /// What is meant?
    Clarification,
    /// A value that is missing.
    SlotFill,
    /// One of several.
    Choice,
    /// May this be done?
    Approval,
    /// Which of several readings?
    Ambiguity,
    /// Did this happen? Answered by reconciling, not by a message.
    InDoubt,
    /// What does a tool want to hear before it does as it was asked? The answer goes to the tool.
    Input,
}

impl InterruptKind {
    /// Its name on the wire.
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

/// The node gave up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failed {
    /// Which node.
    pub node: String,
    /// Why, and what an operator can do.
    pub reason: String,
}

/// An operator has a failed node try again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retried {
    /// Who.
    #[serde(default)]
    pub by: String,
}

/// A turn was called off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancelled {
    /// Who called it off.
    #[serde(default)]
    pub by: String,
}

/// The log before this is a copy of another thread's; from here on the thread lives on by itself, under what is changed
/// here. What ran before is not run again: a question that has an answer keeps it, and one without any is asked anew. Of a
/// write that was under way only the other thread may know, so it is `doubted` next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forked {
    /// The thread that the events before are a copy of, but for the names of its turns.
    pub thread: Uuid,
    /// The number of its last event that was copied.
    pub seq: u64,
    /// The hash of that event in the log of that thread, in hex.
    pub hash: String,
    /// What of the configuration is set from here on; as before, if nothing is said.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub config: Value,
    /// What it and each of its turns may take from here on; as before, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// What a model is told first, by node; `{prompt}` stands for the node's own words.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, String>,
    /// Facts that the strategy takes for concluded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<Value>,
    /// Who forked it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
}
