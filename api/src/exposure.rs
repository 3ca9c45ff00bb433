//! Whether the door may stand where it is told to.

use std::net::SocketAddr;

/// The door would stand open to other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{addr} can be reached from other machines, and nobody would be asked for a key: set `keys` under `[api]`, \
     or listen on 127.0.0.1"
)]
pub struct Exposed {
    /// Where it would stand.
    pub addr: SocketAddr,
}

/// Whether the door may stand at `addr` with so many keys: beyond this machine only with at least one.
///
/// # Errors
///
/// [`Exposed`], which names the mend.
pub fn check_exposure(addr: SocketAddr, keys: usize) -> Result<(), Exposed> {
    // An IPv4 address in IPv6 clothes is still what it is.
    let reaches_only_us = addr.ip().to_canonical().is_loopback();
    if reaches_only_us || 0 < keys { Ok(()) } else { Err(Exposed { addr }) }
}
