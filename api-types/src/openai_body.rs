//! Bodies of requests in OpenAI's dialect. They are read by name, so that every field at fault is reported; these types only describe
//! them.

use serde_json::{Map, Value};
use shared::{MultitaskStrategy, Priority};
use utoipa::ToSchema;

use crate::NewContent;

/// Request to create a chat completion, as in OpenAI's API.
#[derive(Clone, Debug, Default, ToSchema)]
#[schema(examples(json!({"model": "turnfold/probe", "messages": [{"role": "user", "content": "echo hello"}]})))]
pub struct ChatCompletionBody {
    /// Model: a strategy (`turnfold/planner`), or a model of a provider, which the strategy `chat` asks.
    pub model: String,
    /// The conversation, oldest message first.
    #[schema(min_items = 1)]
    pub messages: Vec<ChatMessageBody>,
    /// True if the answer is sent in chunks. Default: false.
    pub stream: Option<bool>,
    /// Options of the stream: `{"include_usage": true}`.
    #[schema(value_type = Option<Object>)]
    pub stream_options: Option<Map<String, Value>>,
    /// Data stored with the turn. `thread_id` continues a thread.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// Author of the turn.
    pub user: Option<String>,
    /// Format of the answer: `text`, `json_object` or `json_schema`.
    #[schema(value_type = Option<Object>)]
    pub response_format: Option<Map<String, Value>>,
    /// Functions that the client carries out. Only the strategy `chat` takes them.
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<Map<String, Value>>>,
    /// `auto`, `none`, `required`, or one function.
    #[schema(value_type = Option<Value>)]
    pub tool_choice: Option<Value>,
    /// True if the model may make several calls at once.
    pub parallel_tool_calls: Option<bool>,
    /// Fields that OpenAI's API does not have.
    pub turnfold: Option<RequestExtension>,
    /// Maximum number of tokens that the model writes.
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_completion_tokens: Option<u64>,
    /// Older name of `max_completion_tokens`.
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_tokens: Option<u64>,
    /// Effort of a model that reasons.
    pub reasoning_effort: Option<String>,
    /// Randomness of the model.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Passed to the model.
    pub frequency_penalty: Option<f64>,
    /// Passed to the model.
    #[schema(value_type = Option<Object>)]
    pub logit_bias: Option<Map<String, Value>>,
    /// Passed to the model.
    pub presence_penalty: Option<f64>,
    /// Passed to the model.
    pub seed: Option<i64>,
    /// Passed to the model.
    pub service_tier: Option<String>,
    /// Texts at which the model stops: one, or a list. Passed to the model.
    #[schema(value_type = Option<Value>)]
    pub stop: Option<Value>,
    /// Passed to the model.
    pub top_k: Option<u64>,
    /// Passed to the model.
    pub top_p: Option<f64>,
    /// Passed to the model.
    pub verbosity: Option<String>,
}

/// A message of a chat completion request.
#[derive(Clone, Debug, ToSchema)]
pub struct ChatMessageBody {
    /// Author of the message.
    pub role: ChatRoleBody,
    /// Text of the message, or its parts.
    pub content: Option<NewContent>,
    /// Name of the author. Without effect.
    pub name: Option<String>,
    /// Calls of an assistant's message.
    #[schema(value_type = Option<Vec<Object>>)]
    pub tool_calls: Option<Vec<Map<String, Value>>>,
    /// Id of the call whose result the message is. Only with the role `tool`.
    pub tool_call_id: Option<String>,
}

/// Author of a message of a chat completion request.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum ChatRoleBody {
    /// Instructions.
    System,
    /// Instructions, by their newer name.
    Developer,
    /// A person.
    User,
    /// A model.
    Assistant,
    /// A tool of the client.
    Tool,
}

/// Fields of a request that OpenAI's API does not have.
#[derive(Clone, Debug, Default, ToSchema)]
pub struct RequestExtension {
    /// Configuration of a new thread, as in `POST /v1/turns`.
    #[schema(value_type = Option<Object>)]
    pub config: Option<Map<String, Value>>,
    /// Budget of a new thread, as in `POST /v1/turns`.
    #[schema(value_type = Option<Object>)]
    pub budget: Option<Map<String, Value>>,
    /// Priority of the turn.
    pub priority: Option<Priority>,
    /// Treatment of the turn while another one of the thread is not over.
    pub multitask_strategy: Option<MultitaskStrategy>,
}

/// Request to create a completion of a prompt, as in OpenAI's API. It also takes the parameters of a chat completion.
#[derive(Clone, Debug, Default, ToSchema)]
#[schema(examples(json!({"model": "turnfold/probe", "prompt": "echo hello"})))]
pub struct TextCompletionBody {
    /// Model, as in chat completions.
    pub model: String,
    /// Text that the model answers or continues.
    pub prompt: String,
    /// True if the answer is sent in chunks. Default: false.
    pub stream: Option<bool>,
    /// Maximum number of tokens that the model writes.
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_tokens: Option<u64>,
    /// Randomness of the model.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Author of the turn.
    pub user: Option<String>,
    /// Fields that OpenAI's API does not have.
    pub turnfold: Option<RequestExtension>,
}

/// Request to create embeddings, as in OpenAI's API. It is passed on with all its fields.
#[derive(Clone, Debug, Default, ToSchema)]
#[schema(examples(json!({"model": "text-embedding-3-small", "input": "hello"})))]
pub struct EmbeddingsBody {
    /// The embedding model.
    pub model: String,
    /// A text, or a list of texts.
    #[schema(value_type = Value)]
    pub input: Value,
}

/// Request to create a response, as in OpenAI's API.
#[derive(Clone, Debug, Default, ToSchema)]
#[schema(examples(json!({"model": "turnfold/probe", "input": "echo hello"})))]
pub struct ResponseBody {
    /// Model, as in chat completions.
    pub model: String,
    /// A text, or a list of items.
    #[schema(value_type = Value)]
    pub input: Value,
    /// Instructions before the input.
    pub instructions: Option<String>,
    /// Response to continue.
    pub previous_response_id: Option<String>,
    /// Conversation to continue: its id, or an object with it.
    #[schema(value_type = Option<Value>)]
    pub conversation: Option<Value>,
    /// True if the response is sent at once and completed in the background. Default: false.
    pub background: Option<bool>,
    /// True if the answer is sent in events. Default: false.
    pub stream: Option<bool>,
    /// Data stored with the response.
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// Format of the answer: `{"format": {…}}`.
    #[schema(value_type = Option<Object>)]
    pub text: Option<Map<String, Value>>,
    /// Functions that the client carries out. Only the strategy `chat` takes them.
    #[schema(value_type = Option<Vec<Object>>)]
    pub tools: Option<Vec<Map<String, Value>>>,
    /// `auto`, `none`, `required`, or one function.
    #[schema(value_type = Option<Value>)]
    pub tool_choice: Option<Value>,
    /// True if the model may make several calls at once.
    pub parallel_tool_calls: Option<bool>,
    /// Maximum number of tokens that the model writes.
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub max_output_tokens: Option<u64>,
    /// Reasoning of the model: `{"effort": "low"}`.
    #[schema(value_type = Option<Object>)]
    pub reasoning: Option<Map<String, Value>>,
    /// Randomness of the model.
    #[schema(minimum = 0, maximum = 2)]
    pub temperature: Option<f64>,
    /// Passed to the model.
    pub top_p: Option<f64>,
    /// Author of the turn.
    pub user: Option<String>,
    /// Fields that OpenAI's API does not have.
    pub turnfold: Option<RequestExtension>,
}

/// Items that are added to a conversation, as in OpenAI's API.
#[derive(Clone, Debug, Default, ToSchema)]
#[schema(examples(json!({"items": [{"role": "user", "content": "hello"}]})))]
pub struct ConversationItemsBody {
    /// The items, oldest first.
    #[schema(value_type = Vec<Object>)]
    pub items: Vec<Map<String, Value>>,
}

/// Request to change a conversation, as in OpenAI's API.
#[derive(Clone, Debug, Default, ToSchema)]
#[schema(examples(json!({"metadata": {"topic": "demo"}})))]
pub struct ConversationMetadataBody {
    /// Data stored with the conversation.
    #[schema(value_type = Object)]
    pub metadata: Map<String, Value>,
}
