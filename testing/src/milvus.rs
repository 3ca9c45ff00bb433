//! A private Milvus: the one that is a single process and is installed from PyPI.

use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;

use crate::account::Account;
use crate::parts::pip;
use crate::process;
use crate::server::Server;

/// Known to work together; the server does not say that it needs its client's package.
const PACKAGES: [(&str, &str); 2] = [("milvus-lite", "3.2.2"), ("pymilvus", "3.0.2")];

/// A Milvus server that only this test knows; it ends when this is dropped, or with the process. Its rows survive a kill.
#[derive(Debug)]
pub struct Milvus {
    server: Server,
    binary: PathBuf,
}

impl Milvus {
    /// Starts an empty server; installs Milvus when there is none.
    ///
    /// # Panics
    ///
    /// When it cannot be installed or does not start; the words say what is missing or end with the server's log.
    #[must_use]
    pub fn start() -> Self {
        let mut this = Self { binary: pip(&PACKAGES).join("bin/milvus-lite"), server: Server::new("milvus") };
        this.launch();
        this
    }

    /// Where it is: `http://127.0.0.1:PORT`. The same before and after a restart.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.server.port())
    }

    /// SIGKILL: connections break. Does nothing when it is dead already.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Starts it again on the same port with the same rows, after a `kill` if it still runs.
    ///
    /// # Panics
    ///
    /// When it does not come back.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    fn launch(&mut self) {
        let mut milvus = process::mortal(&self.binary, Account::Own, self.server.folder());
        // It would listen to everybody.
        milvus.args(["server", "--host", "127.0.0.1", "--data-dir", "data"]);
        milvus.args(["--port", &self.server.port().to_string()]);
        // It listens when it is ready to answer.
        let ready =
            |port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop).map_err(|it| it.to_string());
        self.server.start(milvus, ready);
    }
}

impl Drop for Milvus {
    fn drop(&mut self) {
        // Nothing of it is wanted any more.
        self.server.kill();
    }
}
