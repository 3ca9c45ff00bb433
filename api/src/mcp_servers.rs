//! Routes that show the MCP servers as workers last found them, and approve their tools.

use api_types::{
    ApproveTools, McpPin, McpPrompt, McpResource, McpServer, McpServerSummary, McpState, McpTool, Page,
    PinState, Problem, ToolChange,
};
use axum::{Json, extract::State};
use queue::clock::rfc3339;
use shared::{Prompt, Safety, Tool, diff_tools};
use store::{McpOffer, McpServerRecord, Pin};

use crate::server::{
    extract::{Body, Path},
    pagination::whole,
    principal::{Decider, Operator},
    problem::{ApiError, Kind},
    state::{AppState, SharedState},
};

/// List MCP servers
///
/// Returns the configured MCP servers, sorted by name, with their state when a worker last used them. Requires an operator.
#[utoipa::path(
    get, path = "/v1/mcp/servers", tag = "mcp", operation_id = "list_mcp_servers",
    responses((status = 200, description = "The servers.", body = Page<McpServerSummary>))
)]
pub(crate) async fn list(
    State(app): SharedState,
    _: Operator,
) -> Result<Json<Page<McpServerSummary>>, ApiError> {
    let mut servers = Vec::new();
    for name in app.mcp_servers.keys() {
        servers.push(Found::read(&app, name).await?.summary());
    }
    Ok(Json(whole(servers)))
}

/// Show an MCP server
///
/// Returns everything that the server offered when a worker last used it, and how its tools differ from the approved ones.
/// Requires an operator.
#[utoipa::path(
    get, path = "/v1/mcp/servers/{name}", tag = "mcp", operation_id = "get_mcp_server",
    params(("name" = String, Path, description = "Name of the server.", example = "calendar")),
    responses(
        (status = 200, description = "The server.", body = McpServer),
        (status = 404, description = "The server is not configured.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    _: Operator,
    Path(name): Path<String>,
) -> Result<Json<McpServer>, ApiError> {
    Ok(Json(Found::read(&app, &name).await?.detail()))
}

/// Approve the tools of an MCP server
///
/// Pins the server to the tools that were shown, named by their hash, so that exactly what was seen is approved. Failed turns
/// can then be retried. Requires an operator.
#[utoipa::path(
    post, path = "/v1/mcp/servers/{name}/pins", tag = "mcp", operation_id = "approve_mcp_tools",
    request_body = ApproveTools,
    params(
        ("name" = String, Path, description = "Name of the server.", example = "calendar"),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who approves. Default: `api`."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The server.", body = McpServer),
        (status = 404, description = "The server is not configured.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The tools no longer have this hash.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn approve(
    State(app): SharedState,
    _: Operator,
    Decider(by): Decider,
    Path(name): Path<String>,
    Body { value: ApproveTools { hash }, .. }: Body<ApproveTools>,
) -> Result<Json<McpServer>, ApiError> {
    let found = Found::read(&app, &name).await?;
    let definitions = found.definitions().filter(|tools| Pin::hash_of(tools) == hash).ok_or_else(|| {
        let detail = format!("the tools of MCP server {name} do not have the hash {hash:?}");
        Kind::ToolsChanged.because(detail).hint("show the server again, and approve the hash that it has now")
    })?;
    let author = by.name.clone();
    app.backends.store.approve(Pin::new(&name, definitions, &author), by).await?;
    tracing::info!(server = name, by = author, "the tools of an MCP server were approved");
    Ok(Json(Found::read(&app, &name).await?.detail()))
}

/// A configured server, the last report about it, and its pin.
struct Found {
    name: String,
    description: String,
    report: Option<McpServerRecord>,
    pin: Option<Pin>,
}

impl Found {
    async fn read(app: &AppState, name: &str) -> Result<Self, ApiError> {
        let Some(description) = app.mcp_servers.get(name).cloned() else {
            let detail = format!("no MCP server named {name:?} is configured");
            return Err(Kind::UnknownServer
                .because(detail)
                .hint("GET /v1/mcp/servers lists the configured servers"));
        };
        let store = &app.backends.store;
        let (report, pin) = (store.mcp_server(name).await?, store.pin(name).await?);
        Ok(Self { name: name.to_owned(), description, report, pin })
    }

    fn definitions(&self) -> Option<&str> {
        self.report.as_ref()?.definitions.as_deref()
    }

    /// Returns the tools that were last found. `None`: they are not known, or another version wrote them.
    fn tools(&self) -> Option<Vec<Tool>> {
        serde_json::from_str(self.definitions()?).ok()
    }

    /// Compares the tools with the pin.
    fn compare(&self) -> (PinState, Vec<ToolChange>) {
        let Some(pin) = &self.pin else { return (PinState::Unpinned, Vec::new()) };
        let Some(tools) = self.tools() else { return (PinState::Unknown, Vec::new()) };
        // Workers do not use a server whose pin they cannot read.
        let approved: Option<Vec<Tool>> = serde_json::from_str(&pin.definitions).ok();
        let changes = diff_tools(approved.as_deref().unwrap_or_default(), &tools);
        let state = match approved.is_some() && changes.is_empty() {
            true => PinState::Approved,
            false => PinState::Changed,
        };
        (state, changes.iter().map(ToolChange::from).collect())
    }

    fn summary(&self) -> McpServerSummary {
        let report = self.report.as_ref();
        let state = match report {
            None => McpState::Unused,
            Some(report) if report.error.is_some() => McpState::Unreachable,
            Some(_) => McpState::Reachable,
        };
        McpServerSummary {
            name: self.name.clone(),
            description: self.description.clone(),
            state,
            error: report.and_then(|report| report.error.clone()),
            tool_count: self.tools().map(|tools| tools.len()),
            pin_state: self.compare().0,
            worker: report.map(|report| report.worker.clone()),
            last_seen_at: report.map(|report| rfc3339(report.seen_at)),
        }
    }

    fn detail(&self) -> McpServer {
        let offer = self.report.as_ref().and_then(|report| report.offer.clone());
        let is_known = offer.is_some();
        let McpOffer { name, protocol, instructions, prompts, resources, tools_withheld } =
            offer.unwrap_or_default();
        McpServer {
            summary: self.summary(),
            server: Some(name).filter(|name| !name.is_empty()),
            protocol: Some(protocol).filter(|_| is_known),
            instructions,
            tools: self.tools().into_iter().flatten().map(tool).collect(),
            tools_withheld,
            hash: self.definitions().map(Pin::hash_of),
            prompts: prompts.into_iter().map(prompt).collect(),
            resources: resources.into_iter().map(resource).collect(),
            pin: self.pin.as_ref().map(pin),
            changes: self.compare().1,
        }
    }
}

fn tool(tool: Tool) -> McpTool {
    let safety = match tool.safety {
        Safety::Read => "read",
        Safety::Idempotent => "idempotent",
        Safety::Write => "write",
    };
    McpTool {
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
        safety: safety.to_owned(),
    }
}

fn prompt(prompt: Prompt) -> McpPrompt {
    let arguments = prompt.arguments.into_iter().map(|argument| argument.name).collect();
    McpPrompt { name: prompt.name, description: prompt.description, arguments }
}

fn resource(resource: store::McpResource) -> McpResource {
    let store::McpResource { name, description, uri, is_template } = resource;
    McpResource { name, description, uri, is_template }
}

fn pin(pin: &Pin) -> McpPin {
    McpPin {
        hash: pin.hash.clone(),
        approved_by: pin.approved_by.clone(),
        approved_at: rfc3339(pin.updated_at),
    }
}
