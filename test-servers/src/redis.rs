//! Redis for tests, private to each.
//!
//! A private server starts within 30 ms, so sharing one would save nothing.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::account::Account;
use crate::install::{self, Program};
use crate::port::free_port;
use crate::process;
use crate::server::Server;

const REDIS: Program = Program {
    name: "redis-server",
    package: "redis-server",
    versions: None,
    // The first version with XAUTOCLAIM.
    at_least: (6, 2),
};

/// Maximum time for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A Redis server for one test. It ends when this is dropped, or with the process.
///
/// By default it writes nothing to disk, so a restart is also a `FLUSHALL`: the worst case for a queue.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    binary: PathBuf,
    keeps: Keeps,
    /// Additional arguments of the server.
    told: Vec<String>,
    /// Second port: of the cluster bus, or for TLS.
    second: Option<u16>,
}

/// Data that survive a restart.
#[derive(Clone, Copy, Debug)]
enum Keeps {
    Nothing,
    /// The contents of the append-only file.
    File,
}

impl Redis {
    /// Starts an empty server; installs Redis if it is missing.
    ///
    /// # Panics
    ///
    /// If it cannot be installed or does not start. The message says what is missing or ends with the server's log.
    #[must_use]
    pub fn start() -> Self {
        Self::launched(Keeps::Nothing, |_| (Vec::new(), None))
    }

    /// As [`Self::start`], with an append-only file: a restart loses at most the last second.
    ///
    /// # Panics
    ///
    /// As [`Self::start`].
    #[must_use]
    pub fn durable() -> Self {
        Self::launched(Keeps::File, |_| (Vec::new(), None))
    }

    /// As [`Self::start`], and also over TLS at [`Self::tls_url`], with a certificate for `localhost` signed by
    /// [`Self::authority`].
    ///
    /// # Panics
    ///
    /// As [`Self::start`].
    #[must_use]
    pub fn encrypted() -> Self {
        Self::launched(Keeps::Nothing, |folder| {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
            let (certificate, key) = (folder.join("certificate.pem"), folder.join("key.pem"));
            fs::write(&certificate, made.cert.pem()).expect("failed to write the certificate");
            fs::write(&key, made.signing_key.serialize_pem()).expect("failed to write the key");
            let port = free_port();
            let told = format!(
                "--tls-port {port} --tls-cert-file {} --tls-key-file {} --tls-ca-cert-file {0} --tls-auth-clients no",
                certificate.display(),
                key.display()
            );
            (told.split(' ').map(str::to_owned).collect(), Some(port))
        })
    }

    /// Starts a cluster node that knows no other node yet. After a restart it knows its former nodes.
    pub(crate) fn node() -> Self {
        Self::launched(Keeps::Nothing, |_| {
            let bus = free_port();
            // A node that is down makes only its own slots unavailable.
            let told = format!(
                "--cluster-enabled yes --cluster-config-file nodes.conf --cluster-port {bus} --cluster-node-timeout 1000 \
                 --cluster-require-full-coverage no"
            );
            (told.split_whitespace().map(str::to_owned).collect(), Some(bus))
        })
    }

    /// Starts a replica of the server at `port`.
    pub(crate) fn replica_of(port: u16) -> Self {
        Self::launched(Keeps::Nothing, |_| {
            (["--replicaof", "127.0.0.1", &port.to_string()].map(str::to_owned).into(), None)
        })
    }

    /// Ports for other nodes: of the server, and of its cluster bus.
    pub(crate) fn ports(&self) -> (u16, Option<u16>) {
        (self.server.port(), self.second)
    }

    /// TLS URL of an encrypted server: `rediss://localhost:PORT`.
    ///
    /// # Panics
    ///
    /// If the server is not encrypted.
    #[must_use]
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}", self.second.expect("an encrypted Redis"))
    }

    /// Path of an encrypted server's certificate.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.server.folder().join("certificate.pem")
    }

    fn launched(keeps: Keeps, more: impl FnOnce(&Path) -> (Vec<String>, Option<u16>)) -> Self {
        let (binary, server) = (binary(), Server::new("redis"));
        let (told, second) = more(server.folder());
        let mut this = Self { binary, server, keeps, told, second };
        this.launch();
        this
    }

    /// URL: `redis://127.0.0.1:PORT`. A restart does not change it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.server.port())
    }

    /// Deletes every key.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    pub fn flush_all(&self) {
        self.ask("FLUSHALL");
    }

    /// Sends one command, its words separated by blanks, as an observer outside of the code under test. Returns a
    /// single value as text (a string, a number, empty for nil).
    ///
    /// # Panics
    ///
    /// If the server refuses, with its message; or if the answer is a list.
    pub fn ask(&self, command: &str) -> String {
        ask(self.server.port(), command)
            .unwrap_or_else(|error| panic!("failed to ask Redis `{command}`: {error}"))
    }

    /// Sends SIGKILL: connections break. Does nothing if the server is dead.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts the server again on the same port, empty unless it is durable; kills it first if it still runs.
    ///
    /// # Panics
    ///
    /// If the server does not come back.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    fn launch(&mut self) {
        let mut redis = process::mortal(&self.binary, Account::Own, self.server.folder());
        redis.args(["--port", &self.server.port().to_string(), "--bind", "127.0.0.1"]);
        let file = match self.keeps {
            Keeps::Nothing => "no",
            Keeps::File => "yes",
        };
        redis.args(["--save", "", "--appendonly", file]);
        redis.args(&self.told);
        self.server.start(redis, |port| ask(port, "PING").map(drop));
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // No data needs to be saved.
        self.server.kill();
    }
}

/// Path of the program.
pub(crate) fn binary() -> PathBuf {
    install::find(&REDIS)
}

/// Sends a command in the protocol's inline form: words and a line end.
pub(crate) fn ask(port: u16, command: &str) -> Result<String, String> {
    let asked = || {
        let mut wire = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        wire.set_read_timeout(Some(PATIENCE))?;
        wire.write_all(format!("{command}\r\n").as_bytes())?;
        let mut wire = BufReader::new(wire);
        let mut head = String::new();
        wire.read_line(&mut head)?;
        let length = head.strip_prefix('$').and_then(|length| length.trim_end().parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        wire.read_exact(&mut body)?;
        Ok((head, String::from_utf8_lossy(&body).into_owned()))
    };
    let (head, body) = asked().map_err(|error: std::io::Error| error.to_string())?;
    let line = head.trim_end().get(1..).unwrap_or_default();
    match head.as_bytes().first() {
        Some(b'+' | b':') => Ok(line.to_owned()),
        Some(b'$') => Ok(body),
        Some(b'-') => Err(line.to_owned()),
        _ => Err(format!("an answer of another kind: {head:?}")),
    }
}
