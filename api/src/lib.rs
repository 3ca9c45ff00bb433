//! The door: turns come in over HTTP; events, states and results go out.
//!
//! ```text
//!   request ──auth──▶ route ──▶ store: a turn is queued, an event appended ──▶ queue: its thread is rung for
//!   response ◀── fold of the log ◀── store                    news ──▶ long polls and event streams wake up
//! ```
//!
//! **Invariant:** the door decides nothing about a conversation. It writes what came from outside (a turn, a
//! verdict, a retry, a cancellation) and shows folds of logs; whatever follows from an event is a worker's to find.
//!
//! Beside the door stands a keeper, who looks after batches: it submits their lines as turns, and collects what came of
//! them; and a courier, who tells webhooks how batches ended.

mod door;
mod exposure;

mod acts;
mod answers;
mod batches;
mod compare;
mod events;
mod failures;
mod files;
mod fork;
mod health;
mod inbox;
mod openai;
mod page;
mod pauses;
mod strategies;
mod submit;
mod threads;
mod turns;
mod waits;
mod webhooks;

mod auth;
mod ears;
mod extract;
mod fold;
mod house;
mod problem;
mod said;
mod schema;
mod threshold;

pub use batches::{Bulk, Capacity, batch_line};
pub use door::{Door, keep, openapi, router, serve};
pub use exposure::{Exposed, check_exposure};
pub use threshold::WaitingMax;
pub use webhooks::Webhooks;
