//! MCP servers: their state, what they offer, and the tools that were approved.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::Tool;
use utoipa::ToSchema;

/// State of an MCP server, as a worker last found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpState {
    /// No worker has used it yet.
    Unused,
    /// It answered.
    Reachable,
    /// The last attempt to reach it failed.
    Unreachable,
}

/// State of the pin of an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PinState {
    /// It is not pinned; the next turn that uses it pins the tools it finds.
    Unpinned,
    /// Its tools are the approved ones.
    Approved,
    /// Its tools differ from the approved ones, so no turn uses it.
    Changed,
    /// Its tools are not known, or cannot be shown.
    Unknown,
}

/// An MCP server in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct McpServerSummary {
    /// Name of the server in the configuration.
    #[schema(examples("calendar"))]
    pub name: String,
    /// Purpose of the server, from the configuration.
    pub description: String,
    /// State when a worker last used it.
    pub state: McpState,
    /// Reason why it cannot be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Number of its tools, if they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_count: Option<usize>,
    /// State of its pin.
    pub pin_state: PinState,
    /// Name of the worker that reported last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Last report (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<String>,
}

/// An MCP server, with everything that it offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct McpServer {
    /// The fields of the list of servers.
    #[serde(flatten)]
    pub summary: McpServerSummary,
    /// Name and version that the server reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Negotiated protocol version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    /// Usage instructions of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Tools, sorted by name.
    pub tools: Vec<McpTool>,
    /// Reason why the tools are not shown; approve them with `turnfold mcp pins approve`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools_withheld: Option<String>,
    /// Hash of the tools, by which they are approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Prompts, at most 200.
    pub prompts: Vec<McpPrompt>,
    /// Resources and templates of resources, at most 200.
    pub resources: Vec<McpResource>,
    /// Approval of the tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<McpPin>,
    /// Differences from the approved tools.
    pub changes: Vec<ToolChange>,
}

/// A tool of an MCP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct McpTool {
    /// Name of the tool.
    pub name: String,
    /// Purpose of the tool.
    pub description: String,
    /// JSON Schema of the arguments.
    #[schema(value_type = Object)]
    pub parameters: Value,
    /// Effect of repeating a call: `read`, `idempotent` or `write`.
    #[schema(examples("read"))]
    pub safety: String,
}

/// A prompt of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct McpPrompt {
    /// Name of the prompt.
    pub name: String,
    /// Purpose of the prompt.
    pub description: String,
    /// Names of its arguments, in order.
    pub arguments: Vec<String>,
}

/// A resource of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct McpResource {
    /// Name of the resource.
    pub name: String,
    /// Purpose of the resource.
    pub description: String,
    /// URI, or an RFC 6570 template of URIs.
    pub uri: String,
    /// True if the URI is a template.
    pub is_template: bool,
}

/// The approval of a server's tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct McpPin {
    /// Hash of the approved tools.
    pub hash: String,
    /// User who approved them; `first use` if the server's first use did.
    pub approved_by: String,
    /// Time of the approval (RFC 3339).
    pub approved_at: String,
}

/// Request to approve the tools of an MCP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveTools {
    /// Hash of the tools that were shown, as in `hash` of the server.
    pub hash: String,
}

/// Kind of change of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolChangeKind {
    /// The tool is new.
    Added,
    /// The tool no longer exists.
    Removed,
    /// The definition changed.
    Changed,
}

/// Change of one tool. A renamed tool is removed and added.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolChange {
    /// Name of the tool.
    pub tool: String,
    /// Kind of change.
    pub change: ToolChangeKind,
    /// Definition of a removed tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub before: Option<Value>,
    /// Definition of an added tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub after: Option<Value>,
    /// Changed places of a changed tool.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<ToolPlace>,
}

/// A changed place in the definition of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ToolPlace {
    /// Path, such as `description` or `parameters.properties.day.type`.
    pub path: String,
    /// Previous value; null if the place is new.
    pub before: Option<Value>,
    /// Current value; null if the place was removed.
    pub after: Option<Value>,
}

impl From<&shared::ToolChange> for ToolChange {
    fn from(change: &shared::ToolChange) -> Self {
        let of = |tool: &str, change| Self {
            tool: tool.to_owned(),
            change,
            before: None,
            after: None,
            places: Vec::new(),
        };
        match change {
            shared::ToolChange::Added(tool) => {
                Self { after: Some(definition(tool)), ..of(&tool.name, ToolChangeKind::Added) }
            }
            shared::ToolChange::Removed(tool) => {
                Self { before: Some(definition(tool)), ..of(&tool.name, ToolChangeKind::Removed) }
            }
            shared::ToolChange::Changed { tool, fields } => {
                let place = |change: &shared::FieldChange| ToolPlace {
                    path: change.path.clone(),
                    before: change.before.clone(),
                    after: change.after.clone(),
                };
                Self { places: fields.iter().map(place).collect(), ..of(tool, ToolChangeKind::Changed) }
            }
        }
    }
}

fn definition(tool: &Tool) -> Value {
    serde_json::json!(tool)
}
