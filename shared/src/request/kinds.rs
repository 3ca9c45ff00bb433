//! Kinds of requests.

use std::{collections::BTreeMap, ops::Range};

use serde::{Deserialize, Serialize};

use super::{Description, ModelParameters, SearchOptions, Simulation, WebSearch};
use crate::{client_tools::ToolUse, message::ToolCall};

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
