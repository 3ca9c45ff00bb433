//! Everything the handlers share: configuration, state, authentication, request parsing and error responses.

pub(crate) mod access_log;
pub(crate) mod admission;
pub(crate) mod api_keys;
pub(crate) mod auth;
pub(crate) mod bind_guard;
pub(crate) mod bounds;
pub(crate) mod caller;
pub(crate) mod config;
mod connections;
pub(crate) mod extract;
pub(crate) mod health;
pub(crate) mod issued_keys;
pub(crate) mod key_ring;
pub(crate) mod limit_warnings;
pub(crate) mod listener;
pub(crate) mod measurement;
pub(crate) mod oidc;
pub(crate) mod openai_ids;
pub(crate) mod pagination;
pub(crate) mod principal;
pub(crate) mod problem;
pub(crate) mod readiness;
pub(crate) mod state;
pub(crate) mod storage;
pub(crate) mod streams;
pub(crate) mod tenant_rules;
mod wrong_keys;
