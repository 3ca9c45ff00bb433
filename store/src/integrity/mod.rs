//! Integrity of the logs: the hash chain of each thread, its verification, and its comparison with attested heads.

pub(crate) mod attested_heads;
pub(crate) mod chain_walk;
pub mod coverage;
pub(crate) mod finding;
pub mod hash_chain;
pub(crate) mod mistyped;
pub(crate) mod row_finding;
pub(crate) mod verify;

pub use attested_heads::{AttestedHeads, HeadCheck};
pub use coverage::{Coverage, Scope};
pub use finding::{Finding, Wrong};
pub use mistyped::Mistyped;
pub use row_finding::RowFinding;
pub use verify::Verified;
