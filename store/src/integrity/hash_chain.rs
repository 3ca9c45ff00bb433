//! The hash chain of a log: a change of any earlier byte is detected.
//!
//! The hash covers the stored bytes, never JSON that was parsed and written again. The chain does not detect that the
//! end of a log was cut off; for that, the last hash must be kept elsewhere.

use sha2::{Digest, Sha256};

/// Hash before the first event.
pub const START: [u8; 32] = [0; 32];

/// Returns the hash of an event: the SHA-256 of the previous hash, the number and the time (eight bytes each,
/// big-endian), the kind, a zero byte, and the payload.
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
