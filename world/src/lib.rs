//! The outside world: models, MCP servers and indexes. Requests are performed here and nowhere else.
//!
//! ```text
//! Request ──▶ LiveWorld ──┬─▶ models        an OpenAI-compatible endpoint, or a script
//!                         ├─▶ mcp           a pool of connections to MCP servers
//!                         ├─▶ http_commands single HTTP requests defined by the operator
//!                         ├─▶ index         descriptions of all servers, searchable
//!                         └─▶ simulate      requests with which the engine exercises itself
//!             RecordedWorld ─▶ the answers of a fixture
//! ```
//!
//! **Invariant:** nothing here retries. A retry is an event, so the log decides on it: every failure comes back as a
//! [`Fault`](shared::Fault) that says whether it can be retried.

mod argument_check;
mod attachments;
mod description;
mod fault;
mod http_clients;
mod http_commands;
mod index;
mod live;
mod mcp;
mod models;
mod rate_limits;
mod recorded;
mod redactor;
mod retry_after;
pub mod running_time;
mod scripted;
mod text;
mod words;
mod world;

pub use argument_check::check_parameters;
pub use attachments::Attachments;
pub use http_clients::HttpClientError;
pub use http_commands::{Command, Commands, Method, describe_commands};
pub use index::{Index, SearchResult};
pub use live::LiveWorld;
pub use mcp::{
    Confinement, Correction, IDEMPOTENCY_KEY, NodeToolFilters, Protocol, Sandbox, Server, ServerInfo,
    Servers, Session, ToolFilter, ToolRule, Transport, decode_pin, encode_tools,
};
pub use models::{
    CapabilityCheck, CapabilityVerdict, DIALECTS, Dialect, DialectRow, ModelCheck, Models, OpenAi, Price,
    Prices, Provider, ProviderAnswer, Providers, Structured,
};
pub use rate_limits::{RateLimitConfig, TenantLimit, TenantLimits};
pub use recorded::RecordedWorld;
pub use redactor::Redactor;
pub use scripted::{Script, ScriptError};
pub use world::{DeltaSink, DiscardDeltas, Outcome, RequestContext, World};
