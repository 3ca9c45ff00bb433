//! Signed checkpoints: heads of threads kept outside of the store, which prove that logs were not changed.
//!
//! ```text
//!   thread   a hash chain: its head covers all earlier events; anyone who can write to the store can recompute it
//!   head     thread, number of events, hash of the last event: one line
//!   list     heads in the order of attestation, append-only: the leaves of an RFC 6962 tree
//!   note     origin, number of heads, root of the tree, identity of the store, signature: a C2SP tlog-checkpoint of about 250 bytes
//! ```
//!
//! The head of an administrative log is a line like that of a thread. Its id is a UUID of version 8, those of threads have version 7.
//!
//! Threads grow, but leaves of a Merkle log never change, so each checkpoint adds a head for every thread that has grown since
//! the last. The last head of a thread marks how much of it is attested. A head of zero events says that the thread was deleted; its hash is
//! the SHA-256 of the reason.
//!
//! **Invariant:** a note never relies on the store alone: a head is added only if the log's hash chain is valid and continues
//! the attested part.
//!
//! ## What a head does not cover
//!
//! The codec of an event is not hashed: only events stored as JSON are attested, and another codec in their place is a finding.
//! The rows of `threads` and `turns` are not hashed: they are compared with the logs.

mod checkpoint;
mod error;
mod export;
mod folder;
mod heads;
mod index;
mod key;
mod note;
mod report;
mod rotation;
mod strict_json;
mod successor;
mod trusted;
mod verify;
mod witness;

pub use checkpoint::{Gone, Made, Place, REASON_MAX, checkpoint};
pub use error::Error;
pub use export::{Exported, export};
pub use folder::{Checked, check_folder};
pub use key::Key;
pub use report::{AdminLogs, Found, Report, Seen, Unchecked, Verdict};
pub use rotation::rotate;
pub use trusted::Asked;
pub use verify::verify;
pub use witness::{Cosigned, count_witnesses};
