//! Batches, in OpenAI's dialect and a few words of our own: the lines of a file, each a turn of a thread of its own.
//!
//! ```text
//!   POST /v1/batches ─▶ row ─▶ Keeper: validate ─▶ feed ─▶ collect ─▶ finish      one api at a time, under a lease
//!                                  │         turns │      ▲ ended turns     │
//!                                items             └ workers                └ files of results
//! ```
//!
//! **Invariant:** every step may be done again. An item is fed under a key made of its batch, its number and its attempt,
//! and ends in one transaction with its result: so an api that dies anywhere loses nothing and repeats nothing, and whoever
//! takes its batches over goes on where it stood.
//!
//! ## Why a bad line stops nobody
//!
//! A night's work is not to be lost for a line. What is wrong with single lines stands in the file of errors, by the
//! number of the line; a batch fails as a whole only if no line of it can be run.
//!
//! ## Why the keeper looks twice a second
//!
//! Workers are other processes, and tell nobody that a turn has ended. So while a batch is open its keeper looks, twice a
//! second and at once after it found much to do; a batch that is made or changed here wakes the keeper of this process.

pub(crate) mod keeper;
pub(crate) mod quote;
pub(crate) mod results;
pub(crate) mod routes;
pub(crate) mod wire;

mod collect;
mod dialect;
mod feed;
mod finish;
mod line;
mod past;
mod validate;

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
            lease: Duration::from_secs(10),
        }
    }
}
