//! Batches, in OpenAI's dialect and a few words of our own: the lines of a file, each a turn of a thread of its own.
//!
//! ```text
//!   POST /v1/batches ─▶ row ─▶ Keeper: validate ─▶ feed ─▶ collect ─▶ finish      one api at a time, under a lease
//!                                  │         turns │      ▲ ended turns     │
//!                                items             └ workers                └ files of results
//!
//!   validating    one chunk after the other is validated, and beside it the items that are there by now are fed and collected
//!   in_progress   the file was looked through: items are fed and collected
//!   finalizing    all items have ended
//! ```
//!
//! **Invariant:** every step may be done again. An item is fed under a key made of its batch, its number and its attempt,
//! and ends in one transaction with its result: so an api that dies anywhere loses nothing and repeats nothing, and whoever
//! takes its batches over goes on where it stood.
//!
//! ## Why lines are run before the last one was looked at
//!
//! To look through a million lines takes minutes, and whoever sent them wants the first answer at once. Nothing that is
//! known only after the last line decides about an earlier one: of lines of one name the first counts, so a line that
//! was taken stays good; a batch without a line that can be run has nothing begun when it fails. What holds lines back
//! (window, cap, pause, expiry, calling off) acts on items, and all of it acts while more of them come; so does whoever
//! takes the batch over, as how far the file was read stands in the row, and changes with the items. Only how urgent a
//! line is shows late: it comes before those that are not begun when it is found.
//!
//! **Invariant:** a batch is `validating` until its last line was looked at; so `in_progress` says that its total is final,
//! and it ends only after, unless it is called off.
//!
//! ## Why a bad line stops nobody
//!
//! A night's work is not to be lost for a line. What is wrong with single lines stands in the file of errors, by the
//! number of the line; a batch fails as a whole only if no line of it can be run.
//!
//! ## Why the keeper looks twice a second
//!
//! Workers are other processes, and tell nobody that a turn has ended. So while a batch is open its keeper looks, twice a
//! second, sooner after it found something to do, and at once after it found much; what has ended is collected while more is
//! begun. A batch that is made or changed here wakes the keeper of this process.
//!
//! ## Why its pages are small beside the window
//!
//! What a page begins is run while the next pages go their way. A page of half the window would leave one half to the workers
//! and the other to the keeper, each of whom would wait for the other.

pub(crate) mod keeper;
pub(crate) mod quote;
pub(crate) mod results;
pub(crate) mod routes;
pub(crate) mod wire;

mod collect;
mod dialect;
mod envelope;
mod feed;
mod finish;
mod line;
mod past;
mod resumed;
mod validate;

/// What a line of a batch file must be, for whoever checks one before it is sent.
pub mod batch_line {
    pub use super::{
        dialect::endpoints,
        envelope::{Envelope, Wrong, open},
    };
}

use std::time::Duration;

pub use quote::Capacity;

/// What batches may be, and how they are looked after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bulk {
    /// How many items of a batch are under way at once, at most.
    pub window: u64,
    /// The longest file, in bytes.
    pub file_max: u64,
    /// The longest line, in bytes.
    pub line_max: usize,
    /// How often open batches are looked at.
    pub look: Duration,
    /// How often it is looked at what turns took so far that run for that long.
    pub meter: Duration,
    /// For how long the batches of an api that died are nobody's.
    pub lease: Duration,
}

impl Default for Bulk {
    fn default() -> Self {
        Self {
            window: 2000,
            file_max: 2048 << 20,
            line_max: 1024 << 10,
            look: Duration::from_millis(500),
            meter: Duration::from_secs(5),
            lease: Duration::from_secs(3),
        }
    }
}
