//! Requests to models, MCP servers and the index, and their responses, as recorded in the log.

mod display;
mod search;

use std::{collections::BTreeMap, ops::Range};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

pub use search::{Metric, SearchOptions, matches_pattern};

pub(crate) use display::{arguments, json, quoted};

use crate::{
    client_tools::ToolUse,
    elicitation::Elicitation,
    message::{Message, Prompt, Reply, Tool, ToolCall, ToolOutput},
    pending::BlockedBy,
    tool_content::ResponseExtras,
    usage::{Usage, is_zero},
};

/// Name of the server whose tools are the configured HTTP commands.
pub const COMMANDS: &str = "commands";

/// Request to the outside world. A worker carries it out, and the log keeps it.
///
/// ## Why requests reference data instead of copying it
///
/// The conversation, the tools of a server or a node, and the schema of an answer are referenced by name or range. The
/// log grows with the length of the conversation, not with the number of requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Request the next message of a model.
    Chat {
        /// Model, as `provider/model`.
        model: String,
        /// System prompt of the request.
        system: String,
        /// Range of messages that the model receives.
        context: Range<usize>,
        /// True if the summary of all messages before `context` precedes them, and the person's own messages of the turn
        /// that are among those.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        summarised: bool,
        /// Maximum size of a tool result that the model receives, in tokens. Larger ones are shown as head and tail.
        /// Absent if none is larger.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_result_tokens: Option<u64>,
        /// Maximum number of images and files that the model receives; the newest are shown. Absent if there are no more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attachments_max: Option<u64>,
        /// Servers whose tools the model may call: by their own names if there is one server, otherwise as
        /// `server__tool`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_servers: Vec<String>,
        /// The node's own tools that the model may call.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<String>,
        /// Name of the type that the reply must have. The node holds its JSON Schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        response_schema: Option<String>,
        /// Web search by the provider.
        #[serde(default, skip_serializing_if = "WebSearch::is_off")]
        web_search: WebSearch,
        /// Name of the prompt that `system` was made from: 64 digits for a configured prompt, 16 for the node's own template. Absent
        /// if there is no template, and for the node's own in logs of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<String>,
        /// Hash of the tools that are offered, with descriptions and schemas, and of the schema of the reply. Absent if there are
        /// none, and in logs of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offered: Option<String>,
        /// Parameters of the model's reply, if any were configured.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parameters: Option<Box<ModelParameters>>,
        /// Use of tools that the client demands.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_use: Option<Box<ToolUse>>,
    },
    /// List the tools of an MCP server.
    ListTools {
        /// Name of the server.
        server: String,
    },
    /// Call a tool of an MCP server.
    CallTool {
        /// Name of the server.
        server: String,
        /// Tool and arguments.
        call: ToolCall,
    },
    /// Read on in a tool result of which the model received only head and tail. Answered from the log, without a
    /// server.
    ReadMore {
        /// Call of the model, with the number of the result and the position to read from.
        call: ToolCall,
        /// Maximum size of the answer, in tokens.
        tokens: u64,
    },
    /// List the prompts of an MCP server.
    ListPrompts {
        /// Name of the server.
        server: String,
    },
    /// Fetch a filled-in prompt of an MCP server.
    GetPrompt {
        /// Name of the server.
        server: String,
        /// Name of the prompt.
        name: String,
        /// Arguments by name.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        arguments: BTreeMap<String, String>,
    },
    /// Describe an MCP server in one searchable text.
    Describe {
        /// Name of the server.
        server: String,
    },
    /// Search the index for servers that match a text.
    Search {
        /// Text to search for.
        query: String,
        /// Maximum number of results.
        limit: usize,
        /// Metric, filter and minimum score, if any were configured.
        #[serde(default, skip_serializing_if = "SearchOptions::is_default")]
        options: SearchOptions,
    },
    /// Update the index. Servers not listed are removed.
    Index {
        /// Description of each server. Null leaves an entry unchanged.
        servers: BTreeMap<String, Option<Description>>,
        /// Hashes of the descriptions that the index should hold of servers with null. An entry with another hash is not confirmed
        /// as unchanged.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        held: BTreeMap<String, String>,
    },
    /// Simulate work, without a model or a server.
    Simulate(Simulation),
}

/// Parameters of a model's reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelParameters {
    /// Sampling temperature of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Maximum number of tokens in the reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Effort of a reasoning model, such as `low`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Further fields of the request, passed to the endpoint unchanged.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl Request {
    /// Returns the MCP server that the request goes to.
    pub(crate) fn server(&self) -> Option<&str> {
        match self {
            Request::ListTools { server }
            | Request::CallTool { server, .. }
            | Request::ListPrompts { server }
            | Request::GetPrompt { server, .. }
            | Request::Describe { server } => Some(server),
            Request::Chat { .. }
            | Request::ReadMore { .. }
            | Request::Search { .. }
            | Request::Index { .. }
            | Request::Simulate(_) => None,
        }
    }
}

/// Web search by a model's provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WebSearch {
    /// The provider does not search.
    #[default]
    Off,
    /// The provider searches, if it is able to.
    On,
}

impl WebSearch {
    fn is_off(&self) -> bool {
        *self == Self::Off
    }
}

/// Searchable description of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The operator's description, with the names and descriptions of tools, prompts and resources.
    pub text: String,
    /// Hash of the text.
    pub hash: String,
}

impl Description {
    /// Length of the hash in characters; enough to tell a few thousand texts apart.
    const HASH_LENGTH: usize = 16;

    /// Creates the description with this text.
    pub fn new(text: String) -> Self {
        let mut hash = hex::encode(Sha256::digest(&text));
        hash.truncate(Self::HASH_LENGTH);
        Self { text, hash }
    }
}

/// Server that matches a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hit {
    /// Name of the server.
    pub server: String,
    /// Score of the match. Higher is better. Scores are comparable within one response only.
    pub score: f64,
    /// Description that matched.
    pub text: String,
}

/// Simulated work in place of a model or a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Simulation {
    /// Duration, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub wait_ms: u64,
    /// Number of failed attempts before the first success.
    #[serde(skip_serializing_if = "is_zero")]
    pub failures: u64,
    /// Permanent error, cleared only when an operator retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Text to return, streamed word by word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// Response to a request, as recorded in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum Response {
    /// Message of a model.
    Reply(Reply),
    /// Tools of an MCP server.
    Tools {
        /// All tools, by name.
        tools: Vec<Tool>,
    },
    /// The tools of the server are those already recorded.
    ToolsUnchanged,
    /// Output or error of a tool.
    Output(ToolOutput),
    /// Output of a tool with its extras. Recorded as an output: see [`Answered::extras`](crate::Answered::extras).
    OutputWithExtras {
        /// Output of the tool.
        output: ToolOutput,
        /// Content other than text, and the session.
        extras: Box<ResponseExtras>,
    },
    /// The server works on the call as a task. Never recorded as an answer: see [`TaskStarted`](crate::TaskStarted).
    Working {
        /// Id of the task at the server.
        task: String,
        /// Delay before the task is asked for its result, in milliseconds.
        poll_after_ms: u64,
    },
    /// Input needed from a person first. Never recorded as an answer: see [`InputRequired`](crate::InputRequired).
    InputRequired {
        /// Requested inputs by name.
        input_requests: BTreeMap<String, Elicitation>,
        /// Opaque state that the server expects back unchanged.
        request_state: Option<String>,
    },
    /// Prompts of an MCP server.
    Prompts {
        /// All prompts, in the server's order.
        prompts: Vec<Prompt>,
    },
    /// Filled-in prompt.
    Prompt {
        /// Messages of the prompt.
        messages: Vec<Message>,
    },
    /// Description of a server.
    Described(Description),
    /// Servers that match a search, best first.
    SearchResults {
        /// Matches, best first.
        hits: Vec<Hit>,
        /// Ranking method: `lexical`, or `MODEL and words`.
        ranking: String,
    },
    /// Result of an index update.
    Indexed {
        /// Servers that were added or changed.
        written: Vec<String>,
        /// Servers that were left unchanged.
        unchanged: Vec<String>,
        /// Servers that were removed.
        removed: Vec<String>,
    },
    /// Text of simulated work.
    Echo {
        /// Text that the simulation returned.
        text: String,
    },
    /// No response. The node continues without one.
    Unavailable {
        /// Reason in one sentence.
        reason: String,
    },
}

/// Failure of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Error text that an operator can act on.
    pub error: String,
    /// Reaction that the error permits.
    pub kind: FaultKind,
    /// Usage of the failed attempt. Boxed, because it is rare and would enlarge every result.
    pub usage: Option<Box<Usage>>,
    /// The server offers other tools than its pin.
    pub pin_changed: bool,
}

/// Permitted reaction to a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The request may be retried.
    Transient {
        /// Delay that the server requested (`Retry-After`), in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The model or server refuses requests for now, or takes fewer than are sent. The request waits and counts no attempt.
    Unavailable {
        /// Delay that the server requested, in milliseconds.
        retry_after_ms: Option<u64>,
        /// The request was sent, and nothing was answered in time. It may be billed. A call that may change something is
        /// then in doubt.
        sent: bool,
        /// Cause for which the request waits.
        by: BlockedBy,
    },
    /// Retrying does not help. An operator must act.
    Permanent,
    /// The model takes fewer tokens than the request has. A smaller request may succeed.
    ContextExceeded {
        /// Context window of the model in tokens, if the endpoint names it.
        context_tokens: Option<u64>,
    },
    /// The endpoint refused the request, possibly because of its size. A smaller request may succeed.
    Oversized(Oversize),
    /// The request was sent and its response was lost. It may have taken effect.
    InDoubt {
        /// Delay that the server requested, in milliseconds, for requests that are safe to repeat.
        retry_after_ms: Option<u64>,
    },
}

/// Sign that the size of a request is the cause of its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oversize {
    /// The endpoint says that the request has too many images or files, or too large ones.
    Attachments {
        /// Maximum number of them, if the endpoint names it.
        max: Option<u64>,
    },
    /// The status or the code says so, and nothing names the part that is too large.
    Status,
    /// Nothing says so. The endpoint refused the request as invalid, for a reason that is not known.
    Unknown,
}

impl Fault {
    /// Creates a fault without usage.
    pub fn new(error: impl Into<String>, kind: FaultKind) -> Self {
        Self { error: error.into(), kind, usage: None, pin_changed: false }
    }

    /// Creates a fault that may be retried.
    pub fn transient(error: impl Into<String>) -> Self {
        Self::new(error, FaultKind::Transient { retry_after_ms: None })
    }

    /// Creates the fault of a model or server that took no request.
    pub fn unavailable(error: impl Into<String>, retry_after_ms: Option<u64>) -> Self {
        Self::new(error, FaultKind::Unavailable { retry_after_ms, sent: false, by: BlockedBy::Provider })
    }

    /// Creates the fault of a model or server that answered nothing in time.
    pub fn unanswered(error: impl Into<String>) -> Self {
        let by = BlockedBy::Provider;
        Self::new(error, FaultKind::Unavailable { retry_after_ms: None, sent: true, by })
    }

    /// Makes the fault count as an attempt: the model or server takes requests, and failed this one.
    #[must_use]
    pub fn as_attempt(self) -> Self {
        let kind = match self.kind {
            FaultKind::Unavailable { retry_after_ms, sent: false, .. } => {
                FaultKind::Transient { retry_after_ms }
            }
            FaultKind::Unavailable { retry_after_ms, sent: true, .. } => {
                FaultKind::InDoubt { retry_after_ms }
            }
            other @ (FaultKind::Transient { .. }
            | FaultKind::InDoubt { .. }
            | FaultKind::Permanent
            | FaultKind::ContextExceeded { .. }
            | FaultKind::Oversized(_)) => other,
        };
        Self { kind, ..self }
    }

    /// Creates a fault that only an operator can resolve.
    pub fn permanent(error: impl Into<String>) -> Self {
        Self::new(error, FaultKind::Permanent)
    }

    /// Creates the permanent fault of a server that offers other tools than its pin.
    pub fn pin_changed(error: impl Into<String>) -> Self {
        Self { pin_changed: true, ..Self::permanent(error) }
    }

    /// Creates a fault of a request that may have taken effect.
    pub fn in_doubt(error: impl Into<String>) -> Self {
        Self::new(error, FaultKind::InDoubt { retry_after_ms: None })
    }
}
