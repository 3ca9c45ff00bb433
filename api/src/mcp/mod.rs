//! turnfold as an MCP server: a strategy is a tool, a call is a turn, and a task is a turn that the client comes back for.
//!
//! ```text
//!   tools/call ──▶ POST /v1/turns ──▶ a turn in the queue, like any other ──▶ the answer, or a task
//!   tasks/get  ──▶ GET /v1/turns/{id}     tasks/update ──▶ POST /v1/inbox/{thread_id}     tasks/cancel ──▶ POST /v1/turns/{id}/cancel
//! ```
//!
//! **Invariant:** this module has no path of its own to turns, threads and questions. It sends requests to the routes of the REST
//! API in the same process, as the principal of the MCP request. Each of them checks scope, tenant and limits as it always does.
//!
//! ## Why there are no sessions
//!
//! The id of a task is the id of its turn, and everything else is in each request. So any API process answers any request, and
//! nothing of a client is lost when all of them are killed.

mod arguments;
mod client;
mod messages;
mod own_tool;
mod question;
mod request;
mod server;
mod submission;
mod task;
mod tools;

use std::sync::Arc;

use axum::{Router, extract::DefaultBodyLimit, http::HeaderValue};
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService,
    streamable_http_server::session::never::NeverSessionManager,
};

use self::server::McpServer;
use crate::server::state::AppState;

/// Origins of pages on the client's own machine.
const LOCAL_ORIGINS: [&str; 4] =
    ["http://localhost:*", "https://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// The service at `/mcp`.
pub(crate) type McpService = StreamableHttpService<McpServer, NeverSessionManager>;

/// Builds the service. `routes` are those of the REST API, behind authentication. Pages of other origins than `cors_origins` and
/// the client's own machine are refused; authentication checks the `Host` header.
pub(crate) fn service(
    app: &Arc<AppState>,
    routes: Router<Arc<AppState>>,
    body_limit: usize,
    cors_origins: &[HeaderValue],
) -> McpService {
    let named = cors_origins.iter().filter_map(|origin| origin.to_str().ok()).map(with_port);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(body_limit)
        .with_cancellation_token(app.stop.clone())
        .with_allowed_origins(LOCAL_ORIGINS.map(str::to_owned).into_iter().chain(named))
        .disable_allowed_hosts();
    let routes = routes.layer(DefaultBodyLimit::max(body_limit)).with_state(Arc::clone(app));
    let server = McpServer { app: Arc::clone(app), routes };
    StreamableHttpService::new(move || Ok(server.clone()), Arc::default(), config)
}

/// Adds the port that an origin leaves out.
fn with_port(origin: &str) -> String {
    let (scheme, host) = origin.split_once("://").unwrap_or_default();
    match (scheme, host.rsplit_once(':')) {
        (_, Some((_, port))) if port.parse::<u16>().is_ok() => origin.to_owned(),
        ("http", _) => format!("{origin}:80"),
        _ => format!("{origin}:443"),
    }
}

#[test]
fn an_allowed_origin_has_one_port() {
    for (origin, with) in [
        ("https://a.example", "https://a.example:443"),
        ("http://a.example", "http://a.example:80"),
        ("http://a.example:8080", "http://a.example:8080"),
        ("https://[::1]", "https://[::1]:443"),
    ] {
        assert_eq!(with_port(origin), with);
    }
}
