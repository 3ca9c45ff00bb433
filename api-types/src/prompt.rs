//! Requests to models, as their models received them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::Message;

/// The requests of a node to models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SentPrompts {
    /// Event that records the requests.
    pub seq: u64,
    /// Node that made them; `engine.summarise` for a summary of older messages.
    pub node: String,
    /// The requests to models, in order.
    pub requests: Vec<SentPrompt>,
}

/// A request to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SentPrompt {
    /// Index among the requests of the node.
    pub slot: usize,
    /// Model, as `provider/model`.
    pub model: String,
    /// Template that the system prompt was made from.
    pub prompt: PromptName,
    /// System prompt as the model received it; may be empty.
    pub system: String,
    /// Position in the conversation of the first message after `earlier`.
    pub first_message: usize,
    /// Number of messages at the beginning that stand for all before `first_message`: a summary, and those of the person that are
    /// kept beside it.
    pub earlier: usize,
    /// Messages, with long tool results shortened as in the request. For a summary they are one text.
    pub messages: Vec<Message>,
    /// Tools that the model may call, as the log has them. A worker leaves out those that its configuration denies, and those that
    /// do not fit.
    pub tools: Vec<SentTool>,
    /// Name of the type of the reply; null without a schema.
    pub schema_name: Option<String>,
    /// JSON Schema of the reply; null without one.
    #[schema(value_type = Option<Object>)]
    pub schema: Option<Value>,
    /// Configured parameters of the reply; null without any.
    #[schema(value_type = Option<Object>)]
    pub parameters: Option<Value>,
    /// Use of tools that the client demands; null without a demand.
    #[schema(value_type = Option<Object>)]
    pub tool_use: Option<Value>,
    /// Error of the reply before, which the model is to correct; null at the first attempt.
    pub previous_error: Option<String>,
}

/// The template of a system prompt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PromptName {
    /// `configured`; `built-in`, for the node's own; or `made by the node`, for a prompt without a template.
    pub origin: String,
    /// SHA-256 of the template: as the log has it if it was configured, and that of this build if it is built in. Null without a
    /// template.
    pub hash: Option<String>,
}

/// A tool that is offered to a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SentTool {
    /// Name that the model sees and calls.
    pub name: String,
    /// MCP server that has it; null for a tool of the strategy, of the engine or of the client.
    pub server: Option<String>,
    /// Purpose of the tool.
    pub description: String,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    pub parameters: Value,
}
