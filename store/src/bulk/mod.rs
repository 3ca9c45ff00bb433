//! Bulk: files of lines, batches of their lines, and what came of each line.
//!
//! ```text
//!   file    lines, in chunks of some 256 KiB                         written once, by an upload or a batch
//!   batch   how they are run, and how far that has come              kept by one api at a time, under a lease
//!   item    one line: waiting → fed (its turn is queued) → an end    changed by its batch's keeper alone
//!   result  one line of output, numbered in the order of coming      only ever added
//! ```
//!
//! Nothing here runs anything: an item's turn is a turn like any other, and its log says what came of it.
//!
//! **Invariant:** an item ends once, unless its batch is resumed. [`Store::record`](crate::Store::record) changes items, their batch's sums and
//! the results in one transaction, and only for the keeper that holds the batch's lease; whoever lost it changes nothing.

mod announce;
mod batches;
mod counts;
mod cut;
mod earlier;
mod files;
mod items;
mod kept;
mod lines;
mod prune;
mod record;
mod results;
mod status;
mod tables;

pub use batches::{Batch, BatchTimes, KnownBy, NewBatch};
pub use counts::Counts;
pub use cut::{Chunk, Cutter};
pub use earlier::Earlier;
pub use files::{File, NewFile};
pub use items::{Item, PAGE_BYTES};
pub use lines::{Line, LinePlace, Memo};
pub use record::{Move, TURN_FAILED};
pub use results::{BadLine, Cause, Good, Pace, ResultLine, UnderWay};
pub use status::{BatchStatus, ItemState, Stopped};

/// Names a file: a UUIDv7.
pub type FileId = uuid::Uuid;

/// Names a batch: a UUIDv7.
pub type BatchId = uuid::Uuid;
