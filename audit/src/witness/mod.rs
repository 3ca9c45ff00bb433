//! Whether the logs are those that were written: heads of threads, kept outside of the store and signed.
//!
//! ```text
//!   thread   a chain of hashes: its head binds all before it, and whoever writes to the store can make it anew
//!   head     thread, number of events, hash of the last: one line
//!   list     heads in the order in which they were attested, only ever added to: the leaves of an RFC 6962 tree
//!   note     origin, how many heads, the tree's root, signed: a C2SP tlog-checkpoint of some 200 bytes
//! ```
//!
//! A thread grows and a Merkle log is never changed: so each checkpoint adds the heads of the threads that have grown
//! since the last. The last head of a thread is the longest part of it that is attested; a head of no events says that
//! the thread was gone by then.
//!
//! **Invariant:** what a note attests is never taken from the store alone: a head is added only if the log's chain holds
//! and continues what was attested before.
//!
//! ## What a head does not bind
//!
//! Not the codec, which is not hashed: only events stored as JSON are attested, and a store that says otherwise of one is
//! found out by that. Not the rows of `threads` and `turns`: they are held against the logs.

mod checkpoint;
mod error;
mod export;
mod heads;
mod index;
mod key;
mod report;
mod trusted;
mod verify;

pub use checkpoint::{Gone, Made, Place, checkpoint};
pub use error::Error;
pub use export::{Exported, export};
pub use key::Key;
pub use report::{Found, Report, Seen, Unchecked, Verdict};
pub use trusted::Asked;
pub use verify::verify;
