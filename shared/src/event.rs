//! What happened. Past tense, immutable, complete: the grammar of the log, and how each event reads in one line.
//!
//! ```text
//! thread = opened turn*
//! turn   = heard step*                        the last step decides `end` or `interrupt`
//! step   = [asked try+] decided
//!        | asked try+ failed [retried …]
//! try    = [attempted] (answered | faltered | gave_up | doubted reconciled)
//! anywhere between events of a turn: cancelled
//! ```
//!
//! **Invariant:** all that follows from a decision stands in one event, so a crash can fall between decisions
//! but never inside one.
//!
//! ## Why a struct a kind
//!
//! The kind is a column of its own in the store and picks the payload's struct: an internally tagged enum must
//! buffer the payload to find its tag, and decodes 1.6 times slower. Fixtures are JSON lines, where the tag
//! stands in the line; they use the enum's own serde form.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{
    message::Message,
    request::{Request, Response, quoted},
};

/// The version of the grammar that this build writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// An event that this build cannot read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// Nobody here knows this kind.
    #[error(
        "event kind {kind:?} is unknown: a newer turnfold wrote it; run that version (this one reads format {FORMAT})"
    )]
    Kind {
        /// The stored kind.
        kind: String,
    },
    /// The log says of itself that it is newer.
    #[error(
        "the log has format {format} and this build reads up to {FORMAT}: a newer turnfold wrote it; run that version"
    )]
    Format {
        /// The stored format.
        format: u32,
    },
    /// The payload does not fit its kind.
    #[error(
        "cannot read a payload of kind {kind:?}: {error}; a newer turnfold wrote it, or the log is damaged (`turnfold thread verify` tells)"
    )]
    Payload {
        /// The stored kind.
        kind: String,
        /// What does not fit.
        error: serde_json::Error,
    },
}

macro_rules! events {
    ($($(#[$doc:meta])* $kind:literal $name:ident),* $(,)?) => {
        /// One line of a thread's log.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "event")]
        pub enum Event {
            $($(#[$doc])* #[serde(rename = $kind)] $name($name),)*
        }

        $(impl From<$name> for Event {
            fn from(event: $name) -> Self {
                Event::$name(event)
            }
        })*

        impl Event {
            /// Its kind, as the store's column holds it.
            pub fn kind(&self) -> &'static str {
                match self { $(Event::$name(_) => $kind,)* }
            }

            /// Its payload, as the store keeps it byte for byte.
            pub fn payload(&self) -> Result<String, serde_json::Error> {
                match self { $(Event::$name(it) => serde_json::to_string(it),)* }
            }

            /// The event of this kind and payload.
            pub fn decode(kind: &str, payload: &str) -> Result<Self, Unreadable> {
                let event = match kind {
                    $($kind => serde_json::from_str(payload).map(Event::$name),)*
                    _ => return Err(Unreadable::Kind { kind: kind.to_owned() }),
                };
                let event = event.map_err(|error| Unreadable::Payload { kind: kind.to_owned(), error })?;
                match &event {
                    Event::Opened(Opened { format, .. }) if *format > FORMAT => Err(Unreadable::Format { format: *format }),
                    _ => Ok(event),
                }
            }
        }
    };
}

events! {
    /// A thread began.
    "opened" Opened,
    /// A person spoke: a turn begins.
    "heard" Heard,
    /// A node put questions to the world.
    "asked" Asked,
    /// A request that may change the world is about to be carried out.
    "attempted" Attempted,
    /// The world answered one request.
    "answered" Answered,
    /// The world did not, or not with anything of use.
    "faltered" Faltered,
    /// A request is given up; its node can do without an answer.
    "gave_up" GaveUp,
    /// A request that may change the world lost its answer.
    "doubted" Doubted,
    /// A person told what had become of it.
    "reconciled" Reconciled,
    /// The node drew its conclusions.
    "decided" Decided,
    /// The node gave up; an operator may have it try again.
    "failed" Failed,
    /// An operator did.
    "retried" Retried,
    /// The turn was called off.
    "cancelled" Cancelled,
}

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
    /// Who opened it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub by: String,
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
}

/// What an answer took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Meter {
    /// Who answered: a model as the endpoint names it, or `scripted`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// How long it took, in milliseconds.
    pub ms: u64,
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

impl Event {
    /// Whether it came from outside, rather than from a decision of the code.
    ///
    /// `attempted` is neither: the worker writes it by rule, and a re-enactment writes it anew.
    pub fn is_outside(&self) -> bool {
        match self {
            Event::Opened(_)
            | Event::Heard(_)
            | Event::Answered(_)
            | Event::Faltered(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::Retried(_)
            | Event::Cancelled(_) => true,
            Event::Asked(_)
            | Event::Attempted(_)
            | Event::GaveUp(_)
            | Event::Decided(_)
            | Event::Failed(_) => false,
        }
    }

    /// Which of its node's requests it is about, if about one.
    pub fn slot(&self) -> Option<usize> {
        match self {
            Event::Attempted(it) => Some(it.slot),
            Event::Answered(it) => Some(it.slot),
            Event::Faltered(it) => Some(it.slot),
            Event::GaveUp(it) => Some(it.slot),
            Event::Doubted(it) => Some(it.slot),
            Event::Reconciled(it) => Some(it.slot),
            Event::Opened(_)
            | Event::Heard(_)
            | Event::Asked(_)
            | Event::Decided(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::Cancelled(_) => None,
        }
    }

    /// Whether the code decided it: today's code must decide the same at the same place.
    pub fn is_decision(&self) -> bool {
        match self {
            Event::Asked(_) | Event::GaveUp(_) | Event::Decided(_) | Event::Failed(_) => true,
            Event::Opened(_)
            | Event::Heard(_)
            | Event::Attempted(_)
            | Event::Answered(_)
            | Event::Faltered(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::Retried(_)
            | Event::Cancelled(_) => false,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<11}", self.kind())?;
        match self {
            Event::Opened(it) => {
                write!(f, "{} v{}", it.strategy, it.version)?;
                (!it.config.is_null()).then(|| write!(f, " {}", it.config)).transpose()?;
                it.experts.iter().try_for_each(|(name, what)| line(f, format_args!("expert {name}: {what}")))
            }
            Event::Heard(it) => {
                write!(f, "{}", if it.hearing == Hearing::Answer { "the answer " } else { "" })?;
                write!(f, "{}", it.messages.iter().map(said).collect::<Vec<_>>().join(" "))
            }
            Event::Asked(it) => {
                write!(f, "{}", it.node)?;
                it.requests.iter().try_for_each(|request| line(f, format_args!("{request}")))
            }
            Event::Attempted(it) => write!(f, "[{}]", it.slot),
            Event::Answered(it) => write!(f, "[{}] {}", it.slot, it.response),
            Event::Faltered(it) => {
                let never = if it.again_after_ms.is_none() { " (asking again will not help)" } else { "" };
                write!(f, "[{}] {}{never}", it.slot, it.error)
            }
            Event::GaveUp(it) => write!(f, "[{}] {}", it.slot, it.reason),
            Event::Doubted(it) => write!(f, "[{}] {}", it.slot, it.reason),
            Event::Reconciled(it) => match &it.verdict {
                Verdict::Happened { result } => write!(f, "[{}] it happened: {}", it.slot, quoted(result)),
                Verdict::DidNot => write!(f, "[{}] it did not happen", it.slot),
                Verdict::Skip => write!(f, "[{}] skip it", it.slot),
            },
            Event::Decided(it) => it.fmt_body(f),
            Event::Failed(it) => write!(f, "{}: {}", it.node, it.reason),
            Event::Retried(_) => write!(f, "by an operator"),
            Event::Cancelled(_) => write!(f, "by request"),
        }
    }
}

impl Decided {
    fn fmt_body(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = match &self.to {
            Goto::Node(node) => node,
            Goto::End => "end",
            Goto::Interrupt(_) => "a person",
        };
        write!(f, "{} → {to}", self.node)?;
        self.why.iter().try_for_each(|why| line(f, format_args!("because {why}")))?;
        self.said.iter().try_for_each(|message| line(f, format_args!("said {}", said(message))))?;
        self.learned.iter().try_for_each(|fact| line(f, format_args!("learned {fact}")))?;
        match &self.to {
            Goto::Interrupt(Interrupt { kind, question, options, resume }) => {
                line(f, format_args!("asks for {}: {}", kind.name(), quoted(question)))?;
                options
                    .iter()
                    .enumerate()
                    .try_for_each(|(n, it)| line(f, format_args!("  {}. {it}", n + 1)))?;
                line(f, format_args!("the answer is heard at {resume}"))
            }
            Goto::Node(_) | Goto::End => Ok(()),
        }
    }
}

fn line(f: &mut fmt::Formatter<'_>, text: fmt::Arguments<'_>) -> fmt::Result {
    write!(f, "\n                {text}")
}

fn said(message: &Message) -> String {
    let calls = message.tool_calls.iter().map(|it| format!("{}({})", it.name, it.arguments));
    let words =
        (!message.content.is_empty() || message.tool_calls.is_empty()).then(|| quoted(&message.content));
    format!("{}: {}", message.role.name(), words.into_iter().chain(calls).collect::<Vec<_>>().join(" + "))
}
