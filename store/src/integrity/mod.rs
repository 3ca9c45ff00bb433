//! Integrity of the logs: the hash chain of each thread, its verification, and its comparison with attested heads.

pub(crate) mod attested_heads;
pub(crate) mod chain_walk;
pub(crate) mod finding;
pub mod hash_chain;
pub(crate) mod mistyped;
pub(crate) mod verify;

pub use attested_heads::{AttestedHeads, HeadCheck};
pub use finding::{Finding, Wrong};
pub use mistyped::Mistyped;
pub use verify::Verified;
