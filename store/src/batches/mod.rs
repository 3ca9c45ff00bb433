//! Batches: files of lines, their execution, and the result of each line.
//!
//! ```text
//!   file    lines, in chunks of about 256 KiB                    written once, by an upload or a batch
//!   batch   options and progress                                 processed by one api at a time, under a lease
//!   item    one line: waiting → submitted → a final state        changed only by the owner of the batch's lease
//!   result  one line of output, numbered in order of arrival     only added
//! ```
//!
//! Nothing here runs a turn: the turn of an item is an ordinary turn, and its log records the outcome.
//!
//! **Invariant:** an item ends once, unless its batch is resumed.
//! [`Store::apply_transitions`](crate::Store::apply_transitions) changes items, the counts of their batch and the
//! results in one transaction, and only for the owner of the batch's lease.

mod batch;
mod chunker;
mod common_model;
mod counts;
mod decisions;
mod derived;
mod derived_files;
mod files;
mod items;
mod leases;
mod lines;
mod ranked;
mod rerun;
mod results;
mod reuse;
mod status;
mod tables;
mod transitions;
mod webhook_events;

pub use batch::{Batch, BatchTimes, KnownBy, NewBatch};
pub use chunker::{Chunk, Chunker};
pub use counts::Counts;
pub use files::{File, NewFile};
pub use items::{Item, PAGE_BYTES};
pub use lines::{CacheKey, Line, LinePlace, duplicate_custom_id};
pub use ranked::BatchRank;
pub use rerun::Rerun;
pub use results::{Cause, InvalidLine, Pace, ResultLine, ResultSelection, UnderWay};
pub use reuse::Earlier;
pub use shared::{BatchStatus, StopReason};
pub use status::ItemState;
pub use transitions::{ItemTransition, TURN_FAILED};

/// Id of a file: a UUIDv7.
pub type FileId = uuid::Uuid;

/// Id of a batch: a UUIDv7.
pub type BatchId = uuid::Uuid;
