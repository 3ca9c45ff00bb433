//! The hash that chains the events of a log: no byte of the past changes unnoticed.
//!
//! It is taken over the stored bytes, never over JSON that was read and written again. Cutting off the end of
//! a log is the one change that it does not show: whoever must know keeps the last hash elsewhere.

use sha2::{Digest, Sha256};

/// What stands before the first event.
pub const START: [u8; 32] = [0; 32];

/// The hash of an event: SHA-256 over the previous event's hash, its number and its time (eight bytes each,
/// most significant first), its kind, a zero byte, and its payload.
pub fn link(previous: &[u8; 32], seq: u64, at: i64, kind: &str, payload: &str) -> [u8; 32] {
    let hash = Sha256::new()
        .chain_update(previous)
        .chain_update(seq.to_be_bytes())
        .chain_update(at.to_be_bytes())
        .chain_update(kind)
        .chain_update([0])
        .chain_update(payload);
    hash.finalize().into()
}
