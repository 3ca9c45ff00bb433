//! Administrative logs: what people and turnfold itself decided about a tenant, beside the logs of its threads.
//!
//! Holds, keys, pins, pauses, schedules, webhooks and batches are rows that later ones replace, and a deletion leaves none. Each change of one of them is
//! also an entry of a log, written in the transaction of the change. There is one log for each tenant, and one for what concerns no
//! tenant. An entry is hashed like an event of a thread, so a log has one chain, and checkpoints attest its head like those of threads.
//!
//! **Invariant:** the entry is the last statement of its transaction. Transactions that append to one log wait for each other, in the
//! order of the logs' ids, so they cannot deadlock.
//!
//! **Invariant:** no step of a turn writes an entry, except the first use of an MCP server.

pub(crate) mod adopt;
pub(crate) mod append;
mod compare;
mod compare_fields;
mod configuration;
mod details;
mod entry;
mod event;
mod expected;
mod read;
mod verify;

pub(crate) use append::{Entry, append};

pub use details::{KeyDetails, ScheduleDetails, WebhookDetails};
pub use entry::{AdminEntry, By, admin_log, is_admin_log};
pub use event::AdminEvent;
pub use read::AdminFilter;
pub use verify::AdminVerified;
