//! A connection to one MCP server.

use std::{sync::Arc, time::Duration};

use rmcp::{
    RoleClient,
    model::{
        ClientRequest, ListPromptsRequest, ListResourcesRequest, ListToolsRequest, PaginatedRequestParams,
        ProtocolVersion, ServerResult,
    },
    service::{ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RunningService},
};
use shared::{Fault, Prompt, Tool};
use tokio::{sync::Mutex, task::AbortHandle, time::Instant};
use uuid::Uuid;

use super::{
    Described, Server, Transport,
    child::{self, Murmur},
    ears::Ears,
    failure::{Failure, of_connecting, unreachable},
    http, said,
    underway::Underway,
    wants,
};
use crate::world::chain;

/// How often over progress may start the time of a call anew.
pub(super) const PATIENCE: u32 = 10;

/// How long a list of tools is taken for true, of a server that does not say when it changes.
const LIST_LASTS: Duration = Duration::from_secs(30);

/// The most pages, and so many things, that a list may have.
const PAGES_MAX: usize = 100;
const LISTED_MAX: usize = 10_000;

/// A page of a list, and where the next one is.
type Page<T> = (Vec<T>, Option<String>);

/// How long a server has to end well: rmcp closes its input, then asks it to end, then ends it, 3 s each.
const CLOSING: Duration = Duration::from_secs(8);

/// A connection to one MCP server.
pub(super) struct Connection {
    name: String,
    id: Uuid,
    running: RunningService<RoleClient, Ears>,
    listed: Mutex<Option<Listed>>,
    listener: Option<AbortHandle>,
}

struct Listed {
    tools: Vec<Tool>,
    at: Instant,
    changes: u64,
}

impl Connection {
    /// Connects, in the newest protocol that both sides speak.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the server cannot be reached, or not in time.
    pub(super) async fn open(name: &str, server: &Server) -> Result<Self, Fault> {
        let mode = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let (ears, limit) = (Ears::default(), server.connect_timeout);
        let mut murmur = Murmur::default();
        let connecting = async {
            match &server.transport {
                Transport::Stdio { command, args, env, cwd } => {
                    let transport = server.transport.clone();
                    let hide = move |words: &str| transport.hide(words);
                    let (child, heard) = child::spawn(name, command, args, env, cwd.as_deref(), hide)
                        .map_err(|error| format!("cannot start {command:?}: {error}"))?;
                    murmur = heard;
                    Ok(ears.serve_with_lifecycle(child, mode).await)
                }
                Transport::Http { url, headers } => {
                    Ok(ears.serve_with_lifecycle(http::transport(url, headers, limit)?, mode).await)
                }
            }
        };
        let why = match tokio::time::timeout(limit, connecting).await {
            Ok(Ok(Ok(running))) => {
                tracing::debug!(server = name, "connected");
                let mut this = Self {
                    name: name.to_owned(),
                    id: Uuid::now_v7(),
                    running,
                    listed: Mutex::default(),
                    listener: None,
                };
                if this.is_stateless() && this.tells_of_changes() {
                    let listening =
                        this.running.service().clone().to(this.running.peer().clone(), this.name.clone());
                    this.listener = Some(tokio::spawn(listening).abort_handle());
                }
                return Ok(this);
            }
            Ok(Ok(Err(error))) => of_connecting(name, &error)?,
            Ok(Err(why)) => why,
            Err(_) => format!("it did not answer within {limit:?}"),
        };
        let last_words = murmur.last_words().await;
        let why = if last_words.is_empty() { why } else { format!("{why}; it said: {last_words}") };
        Err(unreachable(name, &server.transport.hide(&why), None))
    }

    /// Whether the server speaks the protocol in which every request stands for itself.
    fn is_stateless(&self) -> bool {
        self.running.peer_info().is_some_and(|it| !it.protocol_version.has_initialize())
    }

    /// What tells it from every other connection, of any worker.
    pub(super) fn id(&self) -> String {
        self.id.to_string()
    }

    /// Whether the server says that it tells when its tools have changed.
    fn tells_of_changes(&self) -> bool {
        let tools = self.running.peer_info().and_then(|it| it.capabilities.tools.clone());
        tools.is_some_and(|it| it.list_changed == Some(true))
    }

    /// Whether the other side is gone. (`is_closed` alone stays false when a child dies.)
    pub(super) fn is_lost(&self) -> bool {
        self.running.is_transport_closed() || self.running.is_closed()
    }

    /// What the server says of itself.
    pub(super) fn describe(&self) -> Described {
        let info = self.running.peer_info();
        let info = info.as_deref();
        let named =
            info.and_then(|it| it.server_info.as_ref()).map(|it| format!("{} {}", it.name, it.version));
        Described {
            name: named.unwrap_or_default(),
            protocol: info.map(|it| it.protocol_version.to_string()).unwrap_or_default(),
            instructions: info.and_then(|it| it.instructions.clone()),
        }
    }

    /// Sends a request, and waits for its answer as long as the server is to be waited for.
    pub(super) async fn ask(&self, server: &Server, request: ClientRequest) -> Result<ServerResult, Failure> {
        self.ask_within(server.call_timeout, server, request).await
    }

    /// Sends a request, and waits for its answer or a sign of progress for so long; for progress over and over, up to
    /// [`PATIENCE`] times. The server is told when this is dropped before.
    pub(super) async fn ask_within(
        &self,
        timeout: Duration,
        server: &Server,
        request: ClientRequest,
    ) -> Result<ServerResult, Failure> {
        let mut options = PeerRequestOptions::with_timeout(timeout)
            .reset_timeout_on_progress()
            .with_max_total_timeout(timeout.saturating_mul(PATIENCE));
        if self.is_stateless() {
            wants::offered(options.meta.get_or_insert_default());
        }
        let sent = self.running.send_request_with_option(request, options).await;
        let sent = sent.map_err(|error| Failure::Unsent(server.transport.hide(&chain(&error))))?;
        let answer = Underway::new(sent).answer().await;
        answer.map_err(|error| Failure::of(&self.name, error, |words| server.transport.hide(words)))
    }

    /// What the server can do, as it said a moment ago or says now.
    pub(super) async fn tools(&self, server: &Server) -> Result<Vec<Tool>, Failure> {
        self.tools_of(server, LIST_LASTS).await
    }

    /// What the server can do, as it said last on this connection, if it did not say since that this has changed.
    pub(super) async fn listed(&self, server: &Server) -> Result<Vec<Tool>, Failure> {
        // One that must be listened to and is not, may have changed in silence.
        let hears = !self.is_stateless() || self.running.service().listen();
        self.tools_of(server, if hears { Duration::MAX } else { LIST_LASTS }).await
    }

    async fn tools_of(&self, server: &Server, lasts: Duration) -> Result<Vec<Tool>, Failure> {
        let changes = self.running.service().changes();
        if let Some(it) = self.listed.lock().await.as_ref()
            && it.changes == changes
            && it.at.elapsed() < lasts
        {
            return Ok(it.tools.clone());
        }
        let ask = |params| ClientRequest::ListToolsRequest(ListToolsRequest::with_param(params));
        let page = |answer| {
            let ServerResult::ListToolsResult(it) = answer else { return None };
            Some((it.tools, it.next_cursor))
        };
        let tools = said::tools(server, self.pages(server, "tools", ask, page).await?);
        *self.listed.lock().await = Some(Listed { tools: tools.clone(), at: Instant::now(), changes });
        Ok(tools)
    }

    /// Whether it says that it has tools.
    pub(super) fn offers_tools(&self) -> bool {
        self.running.peer_info().is_some_and(|it| it.capabilities.tools.is_some())
    }

    /// What prompts the server offers, in its own order; none, if it does not say that it has any.
    pub(super) async fn prompts(&self, server: &Server) -> Result<Vec<Prompt>, Failure> {
        if self.running.peer_info().is_none_or(|it| it.capabilities.prompts.is_none()) {
            return Ok(Vec::new());
        }
        let ask = |params| ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params));
        let page = |answer| {
            let ServerResult::ListPromptsResult(it) = answer else { return None };
            Some((it.prompts, it.next_cursor))
        };
        Ok(said::prompts(self.pages(server, "prompts", ask, page).await?))
    }

    /// What resources the server offers, each with what it is; none, if it does not say that it has any.
    pub(super) async fn resources(&self, server: &Server) -> Result<Vec<(String, String)>, Failure> {
        if self.running.peer_info().is_none_or(|it| it.capabilities.resources.is_none()) {
            return Ok(Vec::new());
        }
        let ask = |params| ClientRequest::ListResourcesRequest(ListResourcesRequest::with_param(params));
        let page = |answer| {
            let ServerResult::ListResourcesResult(it) = answer else { return None };
            Some((it.resources, it.next_cursor))
        };
        let all = self.pages(server, "resources", ask, page).await?;
        Ok(all.into_iter().map(|it| (it.name, it.description.or(it.title).unwrap_or_default())).collect())
    }

    /// A list, page by page.
    ///
    /// ## Why not rmcp's own
    ///
    /// It waits for ever, follows cursors for ever, and may answer from a cache when the server is gone.
    async fn pages<T>(
        &self,
        server: &Server,
        what: &str,
        ask: fn(PaginatedRequestParams) -> ClientRequest,
        page: fn(ServerResult) -> Option<Page<T>>,
    ) -> Result<Vec<T>, Failure> {
        let mut all = Vec::new();
        let mut cursor = None;
        for _ in 0..PAGES_MAX {
            let params = PaginatedRequestParams::default().with_cursor(cursor);
            let Some((some, next)) = page(self.ask(server, ask(params)).await?) else {
                return Err(Failure::Refused(format!(
                    "it answered with something that is no list of {what}"
                )));
            };
            all.extend(some);
            cursor = next;
            if cursor.is_none() && all.len() <= LISTED_MAX {
                return Ok(all);
            }
        }
        Err(Failure::Refused(format!("its list has more than {PAGES_MAX} pages or {LISTED_MAX} {what}")))
    }

    /// Ends it, giving the server the time to end well.
    pub(super) async fn close(self: Arc<Self>) {
        match Arc::into_inner(self) {
            Some(mut alone) => {
                let _ = alone.running.close_with_timeout(CLOSING).await;
            }
            // A call is still under way, and the connection ends with it.
            None => tracing::debug!("a connection to an MCP server outlives its world by one call"),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            listener.abort();
        }
    }
}
