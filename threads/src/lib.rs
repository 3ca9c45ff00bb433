//! Threads: logs that are open for writing, and everything else that folds a log and lets the store write the result.
//!
//! ```text
//!   thread_log   the log of one thread, open for writing: its folded state and its head
//!   log          the interface of the event log, which the store implements
//!   job_note     what the job of a new thread brings to its worker
//!   registry     the strategies of this process
//!   announce     what an append tells counters, exporters and followers
//!   turn_result  the result of a turn, as the fold of its log says
//!   turn_end     the end of a turn as it is announced to those who wait for it
//!   cancel       obeys requests to cancel a turn
//!   counts       writes what this process has counted
//!   index        fills the search index with what this process appends
//!   park         gives up a thread that cannot continue
//!   fork, import new threads with the events of other logs
//!   rebuild      rows of threads and turns, put right by their logs
//!   predicate    conditions on the folded state of a thread
//! ```
//!
//! **Invariant:** this crate writes no SQL.

#![warn(missing_docs)]

mod announce;
mod asked_models;
mod backends;
mod cancel;
mod counts;
mod expected;
mod fork;
mod import;
mod index;
mod job_note;
mod log;
mod lost_counts;
mod park;
mod predicate;
mod rated_turn;
mod rebuild;
mod registry;
mod status;
mod thread_log;
mod turn_end;
mod turn_result;
mod verify;

pub use backends::Backends;
pub use cancel::{cancel_requested_turn, obey_cancel_request};
pub use counts::keep_writing_counts;
pub use fork::{NewFork, fork, rename_turns};
pub use import::{ImportedEvent, import_thread};
pub use index::keep_indexing;
pub use job_note::JobNote;
pub use log::Log;
pub use lost_counts::count_lost;
pub use park::park;
pub use predicate::Predicate;
pub use rated_turn::RatedTurn;
pub use rebuild::{Rebuilt, rebuild};
pub use registry::StrategyRegistry;
pub use thread_log::ThreadLog;
pub use turn_end::TurnEnd;
pub use turn_result::{Course, TurnResult};
pub use verify::{Audited, verify};
