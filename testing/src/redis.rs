//! A private Redis.

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
    // The first with XAUTOCLAIM.
    at_least: (6, 2),
};

/// How long any one answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A Redis server that only this test knows; it ends when this is dropped, or with the process.
///
/// As [`Redis::start`] makes it, it writes nothing to disk, so that a restart is also a `FLUSHALL`: the worst that can
/// happen to a queue.
#[derive(Debug)]
pub struct Redis {
    server: Server,
    binary: PathBuf,
    keeps: Keeps,
    /// What else it is told when it starts.
    told: Vec<String>,
    /// Its other port: for the nodes of its cluster, or for TLS.
    second: Option<u16>,
}

/// What is left after a restart.
#[derive(Clone, Copy, Debug)]
enum Keeps {
    Nothing,
    /// What its append-only file holds.
    File,
}

impl Redis {
    /// Starts an empty server; installs Redis when there is none.
    ///
    /// # Panics
    ///
    /// When it cannot be installed or does not start; the words say what is missing or end with the server's
    /// log.
    #[must_use]
    pub fn start() -> Self {
        Self::launched(Keeps::Nothing, |_| (Vec::new(), None))
    }

    /// As [`Self::start`], with an append-only file: a restart finds what was written before the last second.
    ///
    /// # Panics
    ///
    /// As that one.
    #[must_use]
    pub fn durable() -> Self {
        Self::launched(Keeps::File, |_| (Vec::new(), None))
    }

    /// As [`Self::start`]; it also answers over TLS at [`Self::tls_url`], with a certificate for `localhost` that
    /// [`Self::authority`] vouches for.
    ///
    /// # Panics
    ///
    /// As that one.
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

    /// A node that knows of no other yet; restarted, it knows again whom it knew.
    pub(crate) fn node() -> Self {
        Self::launched(Keeps::Nothing, |_| {
            let bus = free_port();
            // A node that is gone takes its own slots with it, and no others.
            let told = format!(
                "--cluster-enabled yes --cluster-config-file nodes.conf --cluster-port {bus} --cluster-node-timeout 1000 \
                 --cluster-require-full-coverage no"
            );
            (told.split_whitespace().map(str::to_owned).collect(), Some(bus))
        })
    }

    /// Where other nodes find it: its port, and that of its bus.
    pub(crate) fn ports(&self) -> (u16, Option<u16>) {
        (self.server.port(), self.second)
    }

    /// Where an encrypted one answers over TLS: `rediss://localhost:PORT`.
    ///
    /// # Panics
    ///
    /// When it is not encrypted.
    #[must_use]
    pub fn tls_url(&self) -> String {
        format!("rediss://localhost:{}", self.second.expect("an encrypted Redis"))
    }

    /// The file with the certificate that an encrypted one shows.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.server.folder().join("certificate.pem")
    }

    fn launched(keeps: Keeps, more: impl FnOnce(&Path) -> (Vec<String>, Option<u16>)) -> Self {
        let (binary, server) = (install::find(&REDIS), Server::new("redis"));
        let (told, second) = more(server.folder());
        let mut this = Self { binary, server, keeps, told, second };
        this.launch();
        this
    }

    /// Where it is: `redis://127.0.0.1:PORT`. The same before and after a restart.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.server.port())
    }

    /// Forgets every key.
    ///
    /// # Panics
    ///
    /// When the server does not answer.
    pub fn flush_all(&self) {
        self.ask("FLUSHALL");
    }

    /// Sends one command, its words parted by blanks, for a look from outside of what is tested; a single
    /// answer as text (a string, a number, empty for nil).
    ///
    /// # Panics
    ///
    /// With the server's words when it refuses, and when the answer is a list.
    pub fn ask(&self, command: &str) -> String {
        ask(self.server.port(), command)
            .unwrap_or_else(|error| panic!("failed to ask Redis `{command}`: {error}"))
    }

    /// SIGKILL: connections break. Does nothing when it is dead already.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts it again on the same port, empty unless it is durable, after a `kill` if it still runs.
    ///
    /// # Panics
    ///
    /// When it does not come back.
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
        // It has nothing to put in order.
        self.server.kill();
    }
}

/// Asks in the protocol's inline form, which is words and a line's end.
fn ask(port: u16, command: &str) -> Result<String, String> {
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
