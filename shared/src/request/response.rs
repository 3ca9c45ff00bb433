//! Responses to requests.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Description, Hit};
use crate::{
    elicitation::Elicitation,
    message::{Message, Prompt, Reply, Tool, ToolOutput},
    tool_content::ResponseExtras,
};

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
