//! Ports that nobody else will be given.
//!
//! ## Why not port 0
//!
//! The kernel gives port 0 a number that it also gives to outgoing connections. A client that keeps calling a
//! server we have killed can be given the server's own port to call from, and is then connected to itself. So
//! ports are taken from below that range, and a name in the kernel keeps two tests from the same one: it is
//! freed when the process ends, however it ends.

use std::net::{Ipv4Addr, TcpListener};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// Below `ip_local_port_range`, whose default starts at 32768.
const FIRST: u16 = 20_000;
/// How many ports there are to choose from.
const COUNT: u16 = 12_000;

/// What this process has reserved, held until it ends.
static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A TCP port of 127.0.0.1 that nothing listens on, reserved for this process among all that ask here.
///
/// # Panics
///
/// When none of the 12,000 is free.
#[must_use]
pub fn free_port() -> u16 {
    // Spread by process, so that tests that run side by side do not all try the same ports first.
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

/// The name, unless a living process holds it: dropping the listener, or dying, gives it back.
pub(crate) fn reserve(name: &str) -> Option<UnixListener> {
    let address = SocketAddr::from_abstract_name(name).expect("short enough for a socket address");
    UnixListener::bind_addr(&address).ok()
}
