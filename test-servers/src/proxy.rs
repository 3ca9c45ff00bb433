//! A connection between a client and a server that a test can cut, block and silence.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use crate::port::free_port;

/// Maximum bytes forwarded at a time.
const PIECE: usize = 16 << 10;

/// A TCP proxy: bytes sent to [`Self::url`] reach the server while the test allows it.
///
/// Its threads end with the connections, and the last of them with the process.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    wire: Arc<Wire>,
}

#[derive(Debug, Default)]
struct Wire {
    /// Port of the server.
    server: AtomicU16,
    line: Mutex<Line>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Line {
    state: State,
    /// Both ends of every connection, so that they can be cut.
    ends: Vec<TcpStream>,
}

/// Handling of sent bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    /// Bytes are forwarded.
    #[default]
    Open,
    /// Connections are refused.
    Closed,
    /// Bytes are held back, and connections stay open.
    Silent,
}

impl Proxy {
    /// Starts a proxy for the server at `url`, which must name a port of 127.0.0.1.
    ///
    /// # Panics
    ///
    /// If the URL names no such port.
    #[must_use]
    pub fn before(url: &str) -> Self {
        let (head, port, path) = parts(url);
        let ours = free_port();
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, ours)).expect("failed to listen at a free port");
        let wire = Arc::<Wire>::default();
        wire.server.store(port, Ordering::Relaxed);
        let accepting = wire.clone();
        thread::spawn(move || {
            for client in door.incoming().flatten() {
                accepting.connect(client);
            }
        });
        Self { url: format!("{head}{PLACE}{ours}{path}"), wire }
    }

    /// URL of the server through the proxy.
    #[must_use]
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Leads new connections to another server, and leaves the open ones, as a name does that follows the primary.
    ///
    /// # Panics
    ///
    /// As [`Self::before`].
    pub fn lead_to(&self, url: &str) {
        self.wire.server.store(parts(url).1, Ordering::Relaxed);
    }

    /// Breaks every connection, and refuses new ones until [`Self::mend`].
    pub fn cut(&self) {
        self.wire.turn(State::Closed);
        for end in self.wire.line().ends.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }

    /// Holds back all bytes until [`Self::mend`] and keeps connections open, as a pulled cable does.
    pub fn silence(&self) {
        self.wire.turn(State::Silent);
    }

    /// Forwards bytes again, first those that were held back.
    pub fn mend(&self) {
        self.wire.turn(State::Open);
    }
}

/// Address of every server of a test.
const PLACE: &str = "127.0.0.1:";

/// Splits a URL into the part before the address, the port, and the rest.
fn parts(url: &str) -> (&str, u16, &str) {
    let (head, tail) = url.split_once(PLACE).expect("a URL with a port of 127.0.0.1");
    let digits = tail.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(tail.len());
    let (port, path) = tail.split_at(digits);
    (head, port.parse().expect("a port"), path)
}

impl Wire {
    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("no panic while held")
    }

    fn turn(&self, state: State) {
        self.line().state = state;
        self.changed.notify_all();
    }

    fn connect(self: &Arc<Self>, client: TcpStream) {
        if self.line().state == State::Closed {
            return;
        }
        let server = self.server.load(Ordering::Relaxed);
        // If the server is down, the client's connection is closed.
        let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { return };
        let copies = || Some((client.try_clone().ok()?, server.try_clone().ok()?));
        let (Some(there), Some(back), Some(ends)) = (copies(), copies(), copies()) else { return };
        for end in [&client, &server] {
            let _ = end.set_nodelay(true);
        }
        {
            let mut line = self.line();
            // The connection may have been cut meanwhile.
            if line.state == State::Closed {
                return;
            }
            line.ends.retain(|end| end.peer_addr().is_ok());
            line.ends.extend([ends.0, ends.1]);
        }
        for (from, to) in [(there.0, there.1), (back.1, back.0)] {
            let wire = self.clone();
            thread::spawn(move || wire.pass_on(from, to));
        }
    }

    /// Forwards bytes from one end to the other until either closes, then closes both.
    fn pass_on(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut piece = [0; PIECE];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            let open = self.changed.wait_while(self.line(), |line| line.state == State::Silent);
            drop(open.expect("no panic while held"));
            if to.write_all(&piece[..length]).is_err() {
                break;
            }
        }
        for end in [from, to] {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}
