//! Protection against listening on a public address without keys.

use std::net::SocketAddr;

/// Error: the API would be reachable from other machines without a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{addr} is reachable from other machines and no key is required: set `keys` under `[api]`, or listen on 127.0.0.1"
)]
pub struct UnprotectedBind {
    /// Address to listen on.
    pub addr: SocketAddr,
}

/// Checks that the API may listen on `addr` with this number of keys. Addresses beyond loopback require at least one.
///
/// # Errors
///
/// [`UnprotectedBind`] if there is no key and `addr` is not a loopback address.
pub fn check_bind(addr: SocketAddr, keys: usize) -> Result<(), UnprotectedBind> {
    // An IPv4 address may be written as an IPv6 address.
    let is_local = addr.ip().to_canonical().is_loopback();
    if is_local || 0 < keys { Ok(()) } else { Err(UnprotectedBind { addr }) }
}
