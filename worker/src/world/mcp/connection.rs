//! Connections to MCP servers.

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleClient,
    model::{
        ClientRequest, ListPromptsRequest, ListResourceTemplatesRequest, ListResourcesRequest,
        ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerResult,
    },
    service::{ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RunningService},
};
use shared::{Fault, Prompt, Tool};
use tokio::{sync::Mutex, task::AbortHandle, time::Instant};
use uuid::Uuid;

use super::{
    Server, ServerInfo, Transport, convert, elicitation,
    failure::{Failure, connect_error, unreachable},
    http,
    notifications::NotificationHandler,
    pending_request::PendingMcpRequest,
    resources::Resource,
    stdio::{self, StderrTail},
};
use crate::world::error_chain;

/// Factor of a call's timeout that progress notifications may extend it to in total.
pub(super) const PROGRESS_FACTOR: u32 = 10;

/// Lifetime of a list of tools from a server that does not announce changes.
const LIST_LIFETIME: Duration = Duration::from_secs(30);

/// Maximum pages and items of a list.
const MAX_PAGES: usize = 100;
const MAX_LISTED: usize = 10_000;

/// A page of a list and the cursor of the next one.
type Page<T> = (Vec<T>, Option<String>);

/// Time a server has to shut down: rmcp closes its input, then asks it to end, then ends it, 3 s each.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);

/// A connection to one MCP server.
pub(super) struct Connection {
    name: String,
    id: Uuid,
    running: RunningService<RoleClient, NotificationHandler>,
    listed: Mutex<Option<Listed>>,
    resources: Mutex<Option<(Vec<Resource>, Instant)>>,
    subscriber: Option<AbortHandle>,
}

struct Listed {
    tools: Vec<Tool>,
    at: Instant,
    changes: u64,
}

impl Connection {
    /// Connects with the newest protocol version that both sides speak.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the server cannot be reached within its connect timeout.
    pub(super) async fn open(name: &str, server: &Server) -> Result<Self, Fault> {
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let (handler, timeout) = (NotificationHandler::default(), server.connect_timeout);
        let mut stderr_tail = StderrTail::default();
        let connecting = async {
            match &server.transport {
                Transport::Stdio { command, args, env, cwd } => {
                    let transport = server.transport.clone();
                    let redact = move |text: &str| transport.redact(text);
                    let (child, tail) = stdio::spawn(name, command, args, env, cwd.as_deref(), redact)
                        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
                    stderr_tail = tail;
                    Ok(handler.serve_with_lifecycle(child, mode).await)
                }
                Transport::Http { url, headers } => {
                    Ok(handler.serve_with_lifecycle(http::transport(url, headers, timeout)?, mode).await)
                }
            }
        };
        let why = match tokio::time::timeout(timeout, connecting).await {
            Ok(Ok(Ok(running))) => {
                tracing::debug!(server = name, "connected to MCP server");
                let mut this = Self {
                    name: name.to_owned(),
                    id: Uuid::now_v7(),
                    running,
                    listed: Mutex::default(),
                    resources: Mutex::default(),
                    subscriber: None,
                };
                if this.is_stateless() && this.announces_changes() {
                    let subscription = this
                        .running
                        .service()
                        .clone()
                        .subscribe(this.running.peer().clone(), this.name.clone());
                    this.subscriber = Some(tokio::spawn(subscription).abort_handle());
                }
                return Ok(this);
            }
            Ok(Ok(Err(error))) => connect_error(name, &error)?,
            Ok(Err(why)) => why,
            Err(_) => format!("it did not respond within {timeout:?}"),
        };
        let last_lines = stderr_tail.last_lines().await;
        let why = if last_lines.is_empty() { why } else { format!("{why}; its last output: {last_lines}") };
        Err(unreachable(name, &server.transport.redact(&why), None))
    }

    /// Returns true if the server speaks the protocol in which every request is self-contained.
    fn is_stateless(&self) -> bool {
        self.running.peer_info().is_some_and(|it| !it.protocol_version.has_initialize())
    }

    /// Unique id of the connection across all workers.
    pub(super) fn id(&self) -> String {
        self.id.to_string()
    }

    /// Returns true if the server announces changes of its tools.
    fn announces_changes(&self) -> bool {
        let tools = self.running.peer_info().and_then(|it| it.capabilities.tools.clone());
        tools.is_some_and(|it| it.list_changed == Some(true))
    }

    /// Returns true if the other side is gone. (`is_closed` alone stays false when a child dies.)
    pub(super) fn is_lost(&self) -> bool {
        self.running.is_transport_closed() || self.running.is_closed()
    }

    /// Returns the server's self-description.
    pub(super) fn describe(&self) -> ServerInfo {
        let info = self.running.peer_info();
        let info = info.as_deref();
        let named =
            info.and_then(|it| it.server_info.as_ref()).map(|it| format!("{} {}", it.name, it.version));
        ServerInfo {
            name: named.unwrap_or_default(),
            protocol: info.map(|it| it.protocol_version.to_string()).unwrap_or_default(),
            instructions: info.and_then(|it| it.instructions.clone()),
        }
    }

    /// Sends a request and waits for its response within the server's call timeout.
    pub(super) async fn request(
        &self,
        server: &Server,
        request: ClientRequest,
    ) -> Result<ServerResult, Failure> {
        self.request_within(server.call_timeout, server, request).await
    }

    /// Sends a request and waits for its response. Each progress notification restarts the timeout, up to
    /// [`PROGRESS_FACTOR`] times the timeout in total. Dropping the future cancels the request at the server.
    pub(super) async fn request_within(
        &self,
        timeout: Duration,
        server: &Server,
        request: ClientRequest,
    ) -> Result<ServerResult, Failure> {
        let mut options = PeerRequestOptions::with_timeout(timeout)
            .reset_timeout_on_progress()
            .with_max_total_timeout(timeout.saturating_mul(PROGRESS_FACTOR));
        if self.is_stateless() {
            elicitation::declare_capabilities(options.meta.get_or_insert_default());
        }
        let sent = self.running.send_request_with_option(request, options).await;
        let sent = sent.map_err(|error| Failure::Unsent(server.transport.redact(&error_chain(&error))))?;
        let response = PendingMcpRequest::new(sent).response().await;
        response.map_err(|error| Failure::of(&self.name, error, |text| server.transport.redact(text)))
    }

    /// Lists the server's tools; the list may be up to 30 s old.
    pub(super) async fn tools(&self, server: &Server) -> Result<Vec<Tool>, Failure> {
        self.tools_of(server, LIST_LIFETIME).await
    }

    /// Lists the server's tools as last listed on this connection, unless the server announced a change since.
    pub(super) async fn listed(&self, server: &Server) -> Result<Vec<Tool>, Failure> {
        // A server that must be subscribed to and is not may have changed unnoticed.
        let is_subscribed = !self.is_stateless() || self.running.service().is_subscribed();
        self.tools_of(server, if is_subscribed { Duration::MAX } else { LIST_LIFETIME }).await
    }

    async fn tools_of(&self, server: &Server, lifetime: Duration) -> Result<Vec<Tool>, Failure> {
        let changes = self.running.service().changes();
        if let Some(it) = self.listed.lock().await.as_ref()
            && it.changes == changes
            && it.at.elapsed() < lifetime
        {
            return Ok(it.tools.clone());
        }
        let ask = |params| ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let page = |answer| {
            let ServerResult::ListToolsResult(it) = answer else { return None };
            Some((it.tools, it.next_cursor))
        };
        let tools = convert::tools(server, self.pages(server, "tools", ask, page).await?);
        *self.listed.lock().await = Some(Listed { tools: tools.clone(), at: Instant::now(), changes });
        Ok(tools)
    }

    /// Returns true if the server declares tools.
    pub(super) fn offers_tools(&self) -> bool {
        self.running.peer_info().is_some_and(|it| it.capabilities.tools.is_some())
    }

    /// Lists the server's prompts in its own order; empty if it declares none.
    pub(super) async fn prompts(&self, server: &Server) -> Result<Vec<Prompt>, Failure> {
        if self.running.peer_info().is_none_or(|it| it.capabilities.prompts.is_none()) {
            return Ok(Vec::new());
        }
        let ask = |params| ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        let page = |answer| {
            let ServerResult::ListPromptsResult(it) = answer else { return None };
            Some((it.prompts, it.next_cursor))
        };
        Ok(convert::prompts(self.pages(server, "prompts", ask, page).await?))
    }

    /// Lists the server's resources and templates; empty if it declares none. The list may be up to 30 s old.
    pub(super) async fn resources(&self, server: &Server) -> Result<Vec<Resource>, Failure> {
        if self.running.peer_info().is_none_or(|it| it.capabilities.resources.is_none()) {
            return Ok(Vec::new());
        }
        if let Some((resources, at)) = self.resources.lock().await.as_ref()
            && at.elapsed() < LIST_LIFETIME
        {
            return Ok(resources.clone());
        }
        let mut all = self.plain_resources(server).await?;
        match self.resource_templates(server).await {
            Ok(templates) => all.extend(templates),
            // A server may have resources and no templates.
            Err(Failure::Refused(_)) => (),
            Err(failure) => return Err(failure),
        }
        *self.resources.lock().await = Some((all.clone(), Instant::now()));
        Ok(all)
    }

    async fn plain_resources(&self, server: &Server) -> Result<Vec<Resource>, Failure> {
        let ask = |params| ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params));
        let page = |answer| {
            let ServerResult::ListResourcesResult(it) = answer else { return None };
            Some((it.resources, it.next_cursor))
        };
        let listed = self.pages(server, "resources", ask, page).await?;
        let resource = |it: rmcp::model::Resource| Resource {
            description: it.description.or(it.title).unwrap_or_default(),
            name: it.name,
            uri: it.uri,
            is_template: false,
        };
        Ok(listed.into_iter().map(resource).collect())
    }

    async fn resource_templates(&self, server: &Server) -> Result<Vec<Resource>, Failure> {
        let ask = |params| {
            ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest::with_param(params))
        };
        let page = |answer| {
            let ServerResult::ListResourceTemplatesResult(it) = answer else { return None };
            Some((it.resource_templates, it.next_cursor))
        };
        let listed = self.pages(server, "resource templates", ask, page).await?;
        let template = |it: rmcp::model::ResourceTemplate| Resource {
            description: it.description.or(it.title).unwrap_or_default(),
            name: it.name,
            uri: it.uri_template,
            is_template: true,
        };
        Ok(listed.into_iter().map(template).collect())
    }

    /// Reads a paginated list.
    ///
    /// ## Why not rmcp's own
    ///
    /// It waits without timeout, follows cursors without timeout, and may answer from a cache when the server is gone.
    async fn pages<T>(
        &self,
        server: &Server,
        what: &str,
        ask: fn(PaginatedRequestParams) -> ClientRequest,
        page: fn(ServerResult) -> Option<Page<T>>,
    ) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let Some((items, next)) = page(self.request(server, ask(params)).await?) else {
                return Err(Failure::Refused(format!("its response is not a list of {what}")));
            };
            all.extend(items);
            cursor = next;
            if cursor.is_none() && all.len() <= MAX_LISTED {
                return Ok(all);
            }
        }
        Err(Failure::Refused(format!("its list has more than {MAX_PAGES} pages or {MAX_LISTED} {what}")))
    }

    /// Closes the connection, giving the server time to shut down.
    pub(super) async fn close(self: Arc<Self>) {
        match Arc::into_inner(self) {
            Some(mut connection) => {
                let _ = connection.running.close_with_timeout(CLOSE_TIMEOUT).await;
            }
            // A call is still in flight; the connection ends with it.
            None => tracing::debug!("connection to an MCP server stays open until its last call ends"),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(subscriber) = &self.subscriber {
            subscriber.abort();
        }
    }
}
