//! The door, tried from outside: a router over a store, a queue and news in memory.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must panic")]

mod acts;
mod auth;
mod batches;
mod bulk;
mod deed;
mod document;
mod early;
mod endings;
mod events;
mod files;
mod fork;
mod health;
mod inbox;
mod leave;
mod openai;
mod pauses;
mod problems;
mod prompted;
mod room;
mod serve;
mod strategies;
mod submit;
mod tenants;
mod threads;
mod turns;
mod waits;
mod webhooks;
