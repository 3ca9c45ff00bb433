//! A private Milvus: the single-process version from PyPI.

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;

use crate::account::Account;
use crate::parts::pip;
use crate::process;
use crate::server::Server;

/// Versions that work together. The server does not declare that it needs its client's package.
const PACKAGES: [(&str, &str); 2] = [("milvus-lite", "3.2.2"), ("pymilvus", "3.0.2")];

/// A Milvus server for one test. It ends when this is dropped, or with the process. Its rows survive a kill.
#[derive(Debug)]
pub struct Milvus {
    server: Server,
    binary: PathBuf,
}

impl Milvus {
    /// Starts an empty server; installs Milvus if it is missing.
    ///
    /// # Panics
    ///
    /// If it cannot be installed or does not start. The message says what is missing or ends with the server's log.
    #[must_use]
    pub fn start() -> Self {
        let mut this = Self { binary: pip(&PACKAGES).join("bin/milvus-lite"), server: Server::new("milvus") };
        this.launch();
        this
    }

    /// URL: `http://127.0.0.1:PORT`. A restart does not change it.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port())
    }

    /// Sends SIGKILL: connections break. Does nothing if the server is dead.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts the server again on the same port with the same rows; kills it first if it still runs.
    ///
    /// # Panics
    ///
    /// If the server does not come back.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    fn launch(&mut self) {
        let mut milvus = process::mortal(&self.binary, Account::Own, self.server.folder());
        // By default it listens on all interfaces.
        milvus.args(["server", "--host", "127.0.0.1", "--data-dir", "data"]);
        milvus.args(["--port", &self.server.port().to_string()]);
        // The port is open once the server is ready.
        let ready = |port| {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop).map_err(|error| error.to_string())
        };
        self.server.start(milvus, ready);
    }
}

impl Drop for Milvus {
    fn drop(&mut self) {
        // No data needs to be saved.
        self.server.kill();
    }
}
