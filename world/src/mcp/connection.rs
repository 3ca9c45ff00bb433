//! Connections to MCP servers.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    RoleClient,
    model::{ClientRequest, PingRequest, ServerResult},
    service::{PeerRequestOptions, RunningService},
};
use shared::Tool;
use tokio::{sync::Mutex, task::AbortHandle, time::Instant};
use uuid::Uuid;

use super::{
    Server, ServerInfo, doubt, elicitation,
    failure::Failure,
    http::HttpClient,
    last_output::{LastOutput, is_wordless},
    notifications::NotificationHandler,
    pending_request::PendingMcpRequest,
    resources::Resource,
};
use crate::text::error_chain;

/// Time a server has to shut down: its input is closed, then it is asked to end, then it is ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);

/// Maximum time to ask a server whether it still knows a session.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// Time after which a task is given up, and the number of tasks that keep an idle server running.
const MAX_TASK_TIME: Duration = Duration::from_secs(24 * 60 * 60);
const MAX_TASKS: usize = 10_000;

/// A connection to one MCP server.
pub(super) struct Connection {
    name: String,
    id: Uuid,
    running: RunningService<RoleClient, NotificationHandler>,
    /// The client of a server over HTTP.
    http: Option<HttpClient>,
    pub(super) listed: Mutex<Option<Listed>>,
    pub(super) resources: Mutex<Option<(Vec<Resource>, Instant)>>,
    subscriber: Option<AbortHandle>,
    activity: std::sync::Mutex<Activity>,
    output: LastOutput,
}

/// Use of a connection.
struct Activity {
    used: Instant,
    /// Open tasks of the server, by the time at which each began.
    tasks: BTreeMap<String, Instant>,
}

/// The answer to a request.
pub(super) struct Answer {
    pub(super) result: ServerResult,
    /// The server's last output, if the result is a failure that does not tell its cause.
    pub(super) last_output: Option<String>,
}

/// The tools of the last list.
pub(super) struct Listed {
    pub(super) tools: Vec<Tool>,
    /// True if the server listed none; `tools` has only those that the operator allows.
    pub(super) is_empty: bool,
    pub(super) at: Instant,
    pub(super) changes: u64,
}

impl Connection {
    /// Takes over a connection whose handshake is done.
    pub(super) fn new(
        name: &str,
        running: RunningService<RoleClient, NotificationHandler>,
        http: Option<HttpClient>,
        output: LastOutput,
    ) -> Self {
        let (listed, resources) = (Mutex::default(), Mutex::default());
        let mut this = Self {
            name: name.to_owned(),
            id: Uuid::now_v7(),
            running,
            http,
            listed,
            resources,
            subscriber: None,
            activity: std::sync::Mutex::new(Activity { used: Instant::now(), tasks: BTreeMap::new() }),
            output,
        };
        if this.is_stateless() && this.announces_changes() {
            let subscription =
                this.running.service().clone().subscribe(this.running.peer().clone(), this.name.clone());
            this.subscriber = Some(tokio::spawn(subscription).abort_handle());
        }
        this
    }

    /// Returns true if the server speaks the protocol in which every request is self-contained.
    fn is_stateless(&self) -> bool {
        self.running.peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
    }

    /// Unique id of the connection across all workers.
    pub(super) fn id(&self) -> String {
        self.id.to_string()
    }

    /// Returns true if the server announces changes of its tools.
    fn announces_changes(&self) -> bool {
        let tools = self.running.peer_info().and_then(|info| info.capabilities.tools.clone());
        tools.is_some_and(|tools| tools.list_changed == Some(true))
    }

    /// Returns true if the other side is gone. (`is_closed` alone stays false when a child dies.)
    pub(super) fn is_lost(&self) -> bool {
        self.running.is_transport_closed() || self.running.is_closed()
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the connection is used.
    pub(super) fn touch(&self) {
        self.activity().used = Instant::now();
    }

    /// Records that the server works on a task.
    pub(super) fn task_began(&self, task: &str) {
        let tasks = &mut self.activity().tasks;
        tasks.retain(|_, began| began.elapsed() < MAX_TASK_TIME);
        if tasks.len() < MAX_TASKS {
            tasks.insert(task.to_owned(), Instant::now());
        }
    }

    /// Records that a task has ended.
    pub(super) fn task_ended(&self, task: &str) {
        self.activity().tasks.remove(task);
    }

    /// Returns true if the server works on a task.
    pub(super) fn has_tasks(&self) -> bool {
        self.activity().tasks.values().any(|began| began.elapsed() < MAX_TASK_TIME)
    }

    /// Returns true if no request began for this long, and the server works on no task.
    pub(super) fn is_idle_for(&self, time: Duration) -> bool {
        time <= self.activity().used.elapsed() && !self.has_tasks()
    }

    /// Returns true if the server declares tools, and listed none by the newest protocol.
    pub(super) async fn hides_tools(&self) -> bool {
        let is_empty = self.listed.lock().await.as_ref().is_some_and(|listed| listed.is_empty);
        is_empty && self.is_stateless() && self.offers_tools()
    }

    /// Returns the server's self-description.
    pub(super) fn describe(&self) -> ServerInfo {
        let info = self.running.peer_info();
        let info = info.as_deref();
        let named = info
            .and_then(|info| info.server_info.as_ref())
            .map(|server| format!("{} {}", server.name, server.version));
        ServerInfo {
            name: named.unwrap_or_default(),
            protocol: info.map(|info| info.protocol_version.to_string()).unwrap_or_default(),
            instructions: info.and_then(|info| info.instructions.clone()),
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

    /// Sends a request and waits for its response. Each progress notification restarts the timeout. Dropping the future
    /// cancels the request at the server.
    pub(super) async fn request_within(
        &self,
        timeout: Duration,
        server: &Server,
        request: ClientRequest,
    ) -> Result<ServerResult, Failure> {
        Ok(self.answer_within(timeout, server, request).await?.result)
    }

    /// As [`request_within`](Self::request_within), with what the server wrote beside an error that does not tell its cause.
    pub(super) async fn answer_within(
        &self,
        timeout: Duration,
        server: &Server,
        request: ClientRequest,
    ) -> Result<Answer, Failure> {
        let span = self.output.begin();
        let last_line = || span.last_line(|text| server.transport.redact(text));
        match self.exchange(timeout, server, request).await {
            Ok(result) => {
                let is_wordless = doubt::text_of_failure(&result).is_some_and(|text| is_wordless(&text));
                let last_output = if is_wordless { last_line().await } else { None };
                Ok(Answer { result, last_output })
            }
            Err(failure) => Err(match failure.is_wordless() {
                true => match last_line().await {
                    Some(line) => failure.with_last_output(line),
                    None => failure,
                },
                false => failure,
            }),
        }
    }

    async fn exchange(
        &self,
        timeout: Duration,
        server: &Server,
        request: ClientRequest,
    ) -> Result<ServerResult, Failure> {
        let mut options = PeerRequestOptions::no_options();
        if self.is_stateless() {
            elicitation::declare_capabilities(options.meta.get_or_insert_default());
        }
        let sent = self.running.send_request_with_option(request, options).await;
        let sent = sent.map_err(|error| Failure::Unsent(server.transport.redact(&error_chain(&error))))?;
        let progress = self.running.service().progress_of(&sent.progress_token);
        let response = PendingMcpRequest::new(sent, progress).response_within(timeout).await;
        response.map_err(|error| Failure::of(error, |text| server.transport.redact(text)))
    }

    /// Returns the reason if the server no longer knows the session, as after a restart.
    ///
    /// ## Why before a write
    ///
    /// A server may refuse an unknown session with any status. After a server error it is unknown whether a write
    /// was made, so a person would have to be asked.
    pub(super) async fn lost_session(&self, server: &Server) -> Option<Failure> {
        self.http.as_ref().filter(|http| http.has_session())?;
        let ping = ClientRequest::PingRequest(PingRequest::default());
        let timeout = server.call_timeout.min(PING_TIMEOUT);
        self.request_within(timeout, server, ping)
            .await
            .err()
            .filter(|failure| failure.is_for_new_connection(true))
    }

    /// The server's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Changes of the server's tools, and whether all of them are known.
    pub(super) fn changes(&self) -> (u64, bool) {
        let handler = self.running.service();
        (handler.changes().count(), !self.is_stateless() || handler.is_subscribed())
    }

    /// Capabilities that the server declares.
    pub(super) fn capabilities(&self) -> rmcp::model::ServerCapabilities {
        self.running.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default()
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
