//! The HTTP API: accepts turns and serves events, states and results.
//!
//! ```text
//!   request ──auth──▶ handler ──▶ store: queue a turn, append an event ──▶ queue: enqueue the thread
//!   response ◀── fold of the log ◀── store        notifications ──▶ wake long polls and event streams
//! ```
//!
//! **Invariant:** the API makes no decision in a conversation. It records input from outside (a turn, a verdict, a retry, a
//! cancellation) and serves folds of logs. A worker derives everything that follows from an event.
//!
//! Three background tasks run beside the handlers. The batch coordinator submits the lines of batches as turns and collects
//! their results. The webhook dispatcher reports events to webhooks. The scheduler submits what is scheduled.

#![warn(missing_docs)]

mod audits;
mod batches;
mod costs;
mod files;
mod forgotten_models;
mod ids;
mod inbox;
mod keys;
mod learned_models;
mod logs;
mod mcp;
mod mcp_servers;
mod openai;
mod pauses;
mod prompts;
mod router;
mod schedules;
mod search;
mod server;
mod stats;
mod strategies;
mod strategy_setup;
mod threads;
mod turns;
mod views;
mod webhooks;
mod workers;

pub use batches::BatchFileCheck;
pub use router::{openapi, router, run_background, serve};
pub use server::{
    bind_guard::{UnprotectedBind, check_bind},
    config::{ApiConfig, BatchConfig, Capacity, Origins, WebhookConfig},
    embedding_model::{EmbeddingModel, RequestEmbeddings},
    issuer_http::private_url,
    key_ring::KeyRing,
    listener::{ConnectionLimits, listen},
    oidc::OidcConfig,
    sign_in::{SessionToken, SignInConfig},
    tenant_rules::{TenantRule, TenantRules},
};
pub use strategy_setup::strategy_setup;
