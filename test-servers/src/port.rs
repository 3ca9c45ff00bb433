//! Ports that are given to one process only.
//!
//! ## Why not port 0
//!
//! The kernel also uses the ports that it gives for port 0 for outgoing connections. A client that keeps calling a
//! killed server can get the server's own port to call from, and is then connected to itself. Ports are therefore
//! taken from below that range. An abstract socket name reserves each for one process and is released when the
//! process ends.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// Below `ip_local_port_range`, which starts at 32768 by default.
const FIRST: u16 = 20_000;
/// Number of ports to choose from.
const COUNT: u16 = 12_000;

/// Ports reserved by this process, held until it ends.
static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// Returns an unused TCP port of 127.0.0.1, reserved for this process.
///
/// # Panics
///
/// If none of the 12,000 ports is free.
#[must_use]
pub fn free_port() -> u16 {
    // Start at a port that depends on the process, so that parallel tests do not try the same ports first.
    let spread = u64::from(std::process::id()) * 37 % u64::from(COUNT);
    let start = u16::try_from(spread).expect("smaller than COUNT");
    for step in 0..COUNT {
        let port = FIRST + (start + step) % COUNT;
        let Some(reserved) = reserve(&format!("turnfold-test-port-{port}")) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            RESERVED.lock().expect("no panic while held").push(reserved);
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

/// Reserves a name, unless a living process holds it. Dropping the listener releases it, as does the end of the
/// process.
pub(crate) fn reserve(name: &str) -> Option<UnixListener> {
    let address = SocketAddr::from_abstract_name(name).expect("short enough for a socket address");
    UnixListener::bind_addr(&address).ok()
}
