//! Turns: requests and results.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};
use shared::{Budget, MultitaskStrategy, OutcomeKind as Outcome, Policy, Priority, TurnStatus};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{BudgetExceeded, Interrupt, Message, ToolCall, Usage};

/// Request to submit a turn. Exactly one of `strategy` and `thread_id` is required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(
    json!({"strategy": "probe", "input": "ask Which colour? | red | green"}),
    json!({"thread_id": "019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d", "input": {"messages": [{"role": "user", "content": "green"}]}, "policy": "answer"})
))]
pub struct NewTurn {
    /// Strategy of a new thread. Alias: `assistant_id`.
    #[serde(default, alias = "assistant_id", skip_serializing_if = "Option::is_none")]
    #[schema(examples("probe"))]
    pub strategy: Option<String>,
    /// Id of the thread to continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<Uuid>,
    /// Text or messages of the turn.
    pub input: Input,
    /// Configuration of a new thread; overrides the operator's configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub config: Option<Map<String, Value>>,
    /// Budget of a new thread and of each of its turns, capped by the operator's budget:
    /// `{"turn": {"tokens": …, "usd": …, "seconds": …}, "thread": {…}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub budget: Option<Budget>,
    /// Format of the reply, as in OpenAI's API: `{"type": "text"}`, `{"type": "json_object"}` or
    /// `{"type": "json_schema", "json_schema": {"name": …, "schema": …, "strict": true}}`. The answer of the turn is then one JSON
    /// object that fits; a reply of a model that does not is asked for again. A question to a person stays text. Default: text, or
    /// in an answer to a question the format of the turn that asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>, examples(json!({"type": "json_schema", "json_schema": {"name": "place", "schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false}, "strict": true}})))]
    pub response_format: Option<Value>,
    /// Tools that the client carries out, as in OpenAI's API: `[{"type": "function", "function": {"name": …, "parameters": …}}]`. If the
    /// model calls one, the turn ends with `output.tool_calls`. Only the strategy `chat` takes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Value>,
    /// `auto`, `none`, `required`, or one function: `{"type": "function", "function": {"name": …}}`, whose arguments then fit its
    /// parameters. Default: `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub tool_choice: Option<Value>,
    /// True if the model may make several calls at once. Default: as its endpoint has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel_tool_calls: Option<bool>,
    /// Arbitrary data stored with the turn. Filter by it later with `metadata.KEY`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// Treatment of the input if the thread is waiting for an answer. Default: `auto`. An input that was submitted before a
    /// question was asked never answers it.
    #[serde(default)]
    pub policy: Policy,
    /// Treatment of the turn while another one of the thread is running, in doubt or queued. Default: that of the key, or else
    /// that of the tenant, or else that of the strategy, or else `enqueue`. A turn that starts later can only be enqueued. A message that says nothing
    /// but stop always interrupts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multitask_strategy: Option<MultitaskStrategy>,
    /// Priority among the turns of the same tenant. Default: `normal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Earliest start (RFC 3339), at most one year ahead. Default: immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(examples("2026-12-24T18:00:00Z"))]
    pub not_before: Option<String>,
    /// Earliest start in seconds from now, at most one year. Alternative to `not_before`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 31622400, examples(600))]
    pub delay_seconds: Option<u64>,
}

/// Input of a turn: a text, or messages of an existing conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(examples("echo hello"))]
#[serde(untagged)]
pub enum Input {
    /// One user message.
    Text(String),
    /// Messages of an existing conversation.
    Messages(Conversation),
}

/// Messages of an existing conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// The messages, oldest first; at least one.
    pub messages: Vec<NewMessage>,
}

/// A message in the input of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// Author of the message.
    pub role: NewRole,
    /// Text of the message, or its parts.
    pub content: NewContent,
    /// Id of the call whose result the message is. Only with the role `tool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// Content of a message in the input of a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
#[schema(examples("echo hello"))]
pub enum NewContent {
    /// Text.
    Text(String),
    /// Parts as in OpenAI's API: `text`, `image_url` with a `data:` URL, and `file` with `file_data`.
    Parts(Vec<Value>),
}

/// Author of a message in the input of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NewRole {
    /// Instructions from the client.
    System,
    /// A person.
    User,
    /// A model.
    Assistant,
    /// A tool of the client.
    Tool,
}

impl From<NewRole> for shared::Role {
    fn from(role: NewRole) -> Self {
        match role {
            NewRole::System => shared::Role::System,
            NewRole::User => shared::Role::User,
            NewRole::Assistant => shared::Role::Assistant,
            NewRole::Tool => shared::Role::Tool,
        }
    }
}

/// A turn: one input to a thread and everything that follows until the thread is idle, asks a person or fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Turn {
    /// Id of the turn.
    pub id: Uuid,
    /// Id of its thread.
    pub thread_id: Uuid,
    /// Tenant that owns the thread.
    #[schema(examples("default"))]
    pub tenant: String,
    /// Strategy of the thread.
    #[schema(examples("probe"))]
    pub strategy: String,
    /// Status of the turn.
    pub status: TurnStatus,
    /// Priority of the turn.
    pub priority: Priority,
    /// Messages of the input.
    pub input: Vec<Message>,
    /// Result; null until the turn has ended.
    pub output: Option<Output>,
    /// Question to a person; null unless the status is `interrupted`.
    pub interrupt: Option<Interrupt>,
    /// Usage of the turn; null until it has ended.
    pub usage: Option<Usage>,
    /// Budget that ended the turn before its strategy finished; null if none did.
    pub budget_exceeded: Option<BudgetExceeded>,
    /// Error that failed the turn.
    pub error: Option<String>,
    /// Outcome of the turn; null unless the status is `completed`.
    pub outcome: Option<Outcome>,
    /// Reason that the turn failed or got no full answer: the error with numbers, ids and quoted text replaced by `#`, or the
    /// causes of the outcome, joined by `; `. Turns are grouped by it.
    #[schema(examples("mcp unreachable: files"))]
    pub cause: Option<String>,
    /// Earliest start (RFC 3339), if one was requested.
    pub not_before: Option<String>,
    /// Data stored with the turn by the client.
    #[schema(value_type = Object)]
    pub metadata: Value,
    /// User who submitted the turn.
    #[schema(examples("api"))]
    pub author: String,
    /// Time of submission (RFC 3339).
    #[schema(examples("2026-11-21T22:57:00.000000Z"))]
    pub created_at: String,
    /// Time of the last status change (RFC 3339).
    #[schema(examples("2026-11-21T22:57:01.000000Z"))]
    pub updated_at: String,
    /// Event that started the turn; null while it is queued.
    pub started_seq: Option<u64>,
    /// Event that ended the turn; null until it has ended.
    pub ended_seq: Option<u64>,
}

/// Result of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Output {
    /// Messages since the turn started, including those of tools.
    pub messages: Vec<Message>,
    /// Last message of the assistant; null if there is none.
    pub reply: Option<String>,
    /// Calls of the client's tools with which the turn ended. The next turn of the thread carries their results as messages of the
    /// role `tool`. Omitted if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
}

impl<'de> Deserialize<'de> for Input {
    /// Unlike the derived implementation for untagged enums, names the field at fault in its errors.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InputVisitor;

        impl<'de> Visitor<'de> for InputVisitor {
            type Value = Input;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or {\"messages\": [{\"role\": …, \"content\": …}]}")
            }

            fn visit_str<E>(self, text: &str) -> Result<Input, E> {
                Ok(Input::Text(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Input, A::Error> {
                Conversation::deserialize(MapAccessDeserializer::new(map)).map(Input::Messages)
            }
        }

        deserializer.deserialize_any(InputVisitor)
    }
}
