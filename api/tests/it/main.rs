//! Tests of the HTTP API through its router, over a store, a queue and notifications in memory.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must panic")]

mod approval;
mod auth;
mod batch_run;
mod batches;
mod bounds;
mod busy_turns;
mod cancel_retry;
mod config;
mod connections;
mod delayed;
mod document;
mod endings;
mod events;
mod faithful;
mod files;
mod fork;
mod health;
mod inbox;
mod inbox_action;
mod openai;
mod pauses;
mod pending;
mod problems;
mod prompted;
mod serve;
mod strategies;
mod submit;
mod tenants;
mod test_api;
mod threads;
mod turns;
mod webhooks;
