//! A turn on its way in and on its way out.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};
use shared::Budget;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Interrupt, Message, Spent, Took};

/// A turn that somebody submits. Exactly one of `strategy` and `thread_id` says where.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(
    json!({"strategy": "probe", "input": "ask Which colour? | red | green"}),
    json!({"thread_id": "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d", "input": {"messages": [{"role": "user", "content": "green"}]}, "policy": "answer"})
))]
pub(crate) struct NewTurn {
    /// Opens a thread under this strategy. `assistant_id` says the same.
    #[serde(default, alias = "assistant_id")]
    #[schema(examples("probe"))]
    pub(crate) strategy: Option<String>,
    /// Goes on with this thread.
    #[serde(default)]
    pub(crate) thread_id: Option<Uuid>,
    /// The words.
    pub(crate) input: Words,
    /// Tunes the strategy of a new thread, over what the operator tuned.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) config: Option<Map<String, Value>>,
    /// What a new thread and each of its turns may take, within what the operator allows:
    /// `{"turn": {"tokens": …, "usd": …, "seconds": …}, "thread": {…}}`.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) budget: Option<Budget>,
    /// What the client wants to find again.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    pub(crate) metadata: Option<Map<String, Value>>,
    /// How the words are to be taken.
    #[serde(default)]
    pub(crate) policy: Policy,
    /// How urgent it is, among the turns of its tenant; `normal`, if nobody says.
    #[serde(default)]
    pub(crate) priority: Option<Priority>,
    /// It is not heard before this (RFC 3339), at most a year ahead; at once if nobody says.
    #[serde(default)]
    #[schema(examples("2026-12-24T18:00:00Z"))]
    pub(crate) not_before: Option<String>,
    /// It is not heard before so many seconds have passed, at most a year; instead of `not_before`.
    #[serde(default)]
    #[schema(examples(600))]
    pub(crate) delay_seconds: Option<u64>,
}

/// The words of a turn: a text, or messages of a conversation that the client brings along.
#[derive(Debug, ToSchema)]
#[schema(examples("echo hello"))]
#[serde(untagged)]
pub(crate) enum Words {
    /// What the user says.
    Text(String),
    /// What was said before, and now.
    Messages(Conversation),
}

/// Messages of a conversation that the client brings along.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Conversation {
    /// The messages, oldest first; at least one.
    pub(crate) messages: Vec<NewMessage>,
}

/// A message that a client brings along.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewMessage {
    /// Who speaks.
    pub(crate) role: NewRole,
    /// The words.
    #[schema(examples("echo hello"))]
    pub(crate) content: String,
}

/// Who may speak in the words of a turn.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NewRole {
    /// Instructions from whoever submits the turn.
    System,
    /// A person.
    User,
    /// A model.
    Assistant,
}

impl From<NewRole> for shared::Role {
    fn from(it: NewRole) -> Self {
        match it {
            NewRole::System => shared::Role::System,
            NewRole::User => shared::Role::User,
            NewRole::Assistant => shared::Role::Assistant,
        }
    }
}

/// How the words of a turn are to be taken.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Policy {
    /// As the answer, if one is waited for; else as a new matter.
    #[default]
    Auto,
    /// As the answer, or not at all.
    Answer,
    /// As a new matter, even if an answer is waited for.
    Replan,
}

impl From<Policy> for shared::Policy {
    fn from(it: Policy) -> Self {
        match it {
            Policy::Auto => shared::Policy::Auto,
            Policy::Answer => shared::Policy::Answer,
            Policy::Replan => shared::Policy::Replan,
        }
    }
}

/// How urgent a turn is. What is low waits for as long as its tenant has anything more urgent to do.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Priority {
    /// Before all others of its tenant.
    High,
    /// As it comes.
    #[default]
    Normal,
    /// When its tenant has nothing else to do.
    Low,
}

impl From<Priority> for store::Priority {
    fn from(it: Priority) -> Self {
        match it {
            Priority::High => store::Priority::High,
            Priority::Normal => store::Priority::Normal,
            Priority::Low => store::Priority::Low,
        }
    }
}

impl From<store::Priority> for Priority {
    fn from(it: store::Priority) -> Self {
        match it {
            store::Priority::High => Priority::High,
            store::Priority::Normal => Priority::Normal,
            store::Priority::Low => Priority::Low,
        }
    }
}

/// How far a turn has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TurnStatus {
    /// It waits for its thread's rest.
    Queued,
    /// Its thread has heard it.
    Running,
    /// It ended with words of the assistant.
    Completed,
    /// It ended with a question; the answer is a turn of its own.
    Interrupted,
    /// A node gave up, or its thread could not hear it.
    Failed,
    /// It was called off.
    Cancelled,
}

impl From<store::TurnStatus> for TurnStatus {
    fn from(it: store::TurnStatus) -> Self {
        match it {
            store::TurnStatus::Queued => TurnStatus::Queued,
            store::TurnStatus::Running => TurnStatus::Running,
            store::TurnStatus::Completed => TurnStatus::Completed,
            store::TurnStatus::Interrupted => TurnStatus::Interrupted,
            store::TurnStatus::Failed => TurnStatus::Failed,
            store::TurnStatus::Cancelled => TurnStatus::Cancelled,
        }
    }
}

impl From<TurnStatus> for store::TurnStatus {
    fn from(it: TurnStatus) -> Self {
        match it {
            TurnStatus::Queued => store::TurnStatus::Queued,
            TurnStatus::Running => store::TurnStatus::Running,
            TurnStatus::Completed => store::TurnStatus::Completed,
            TurnStatus::Interrupted => store::TurnStatus::Interrupted,
            TurnStatus::Failed => store::TurnStatus::Failed,
            TurnStatus::Cancelled => store::TurnStatus::Cancelled,
        }
    }
}

/// A turn: from what was said to the thread's next rest.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Turn {
    /// Which.
    pub(crate) id: Uuid,
    /// The thread that hears it.
    pub(crate) thread_id: Uuid,
    /// Whom that belongs to.
    #[schema(examples("default"))]
    pub(crate) tenant: String,
    /// The thread's strategy.
    #[schema(examples("probe"))]
    pub(crate) strategy: String,
    /// How far it has come.
    pub(crate) status: TurnStatus,
    /// How urgent it is.
    pub(crate) priority: Priority,
    /// Its words.
    pub(crate) input: Vec<Message>,
    /// What came of it; null while it has not ended.
    pub(crate) output: Option<Output>,
    /// What it asked, if it ended with a question.
    pub(crate) interrupt: Option<Interrupt>,
    /// What it took of the world; null while it has not ended.
    pub(crate) took: Option<Took>,
    /// The budget by which it ended before its strategy was done, if one did.
    pub(crate) spent: Option<Spent>,
    /// Why it failed.
    pub(crate) error: Option<String>,
    /// The same without what differs from case to case: by it failures are counted.
    pub(crate) cause: Option<String>,
    /// It is not heard before this (RFC 3339), if that was said.
    pub(crate) not_before: Option<String>,
    /// What the client wants to find again.
    #[schema(value_type = Object)]
    pub(crate) metadata: Value,
    /// Who submitted it.
    #[schema(examples("api"))]
    pub(crate) author: String,
    /// When it was submitted (RFC 3339).
    #[schema(examples("2026-11-21T22:57:00.000000Z"))]
    pub(crate) created_at: String,
    /// When its status last changed (RFC 3339).
    #[schema(examples("2026-11-21T22:57:01.000000Z"))]
    pub(crate) updated_at: String,
    /// The number of the event by which its thread heard it.
    pub(crate) heard_seq: Option<u64>,
    /// The number of the event that ended it.
    pub(crate) ended_seq: Option<u64>,
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, ToSchema)]
pub(crate) struct Output {
    /// What was said since it was heard, tools included.
    pub(crate) messages: Vec<Message>,
    /// The assistant's last words.
    pub(crate) reply: Option<String>,
}

impl<'de> Deserialize<'de> for Words {
    /// By hand, so that an error names the field that is wrong and not merely that nothing fits.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
            type Value = Words;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("input as a text or as {\"messages\": [{\"role\": …, \"content\": …}]}")
            }

            fn visit_str<E>(self, text: &str) -> Result<Words, E> {
                Ok(Words::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Words, A::Error> {
                Conversation::deserialize(MapAccessDeserializer::new(map)).map(Words::Messages)
            }
        }

        from.deserialize_any(Either)
    }
}
