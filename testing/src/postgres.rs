//! A private PostgreSQL.

use std::path::PathBuf;
use std::process::Command;

use crate::account::Account;
use crate::install::{self, Program};
use crate::postgres_wire::query;
use crate::process;
use crate::server::Server;

const POSTGRES: Program = Program {
    name: "postgres",
    package: "postgresql",
    // Debian keeps the versions apart and out of PATH.
    versions: Some("/usr/lib/postgresql"),
    at_least: (15, 0),
};

/// The database that `url` names: fresh, because the whole server is.
const DATABASE: &str = "turnfold";

/// How long a file may be once the disk is full, in bytes: a block, so that what is tiny is still written.
const FULL: u64 = 8192;

/// Durability against a failing machine costs time and proves nothing here; against a failing process it is
/// as it comes (`synchronous_commit` keeps its default).
const SETTINGS: [&str; 7] = [
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "fsync=off",
    "full_page_writes=off",
    "max_connections=200",
    "shared_buffers=32MB",
    // In the folder rather than in /dev/shm, where a killed server would leave it.
    "dynamic_shared_memory_type=mmap",
];

/// A PostgreSQL server that only this test knows; it ends when this is dropped, or with the process.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
    binaries: PathBuf,
    account: Account,
}

impl Postgres {
    /// Starts a server with one empty database, `url`; installs PostgreSQL when there is none.
    ///
    /// # Panics
    ///
    /// When it cannot be installed or does not start; the words say what is missing or end with the server's
    /// log.
    #[must_use]
    pub fn start() -> Self {
        // A link's target rather than the link: `initdb` stands beside it.
        let postgres = install::find(&POSTGRES).canonicalize().expect("failed to follow a link");
        let binaries = postgres.parent().expect("a program stands in a folder").to_owned();
        let mut this = Self { server: Server::new("postgres"), binaries, account: Account::for_postgres() };
        this.account.own(this.server.folder());
        this.initialise();
        this.launch();
        this.create(DATABASE);
        this
    }

    /// Where the first database is: `postgres://postgres@127.0.0.1:PORT/turnfold`. The same before and after
    /// a restart.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// Creates another database and says where it is.
    ///
    /// # Panics
    ///
    /// When the name is taken, or holds anything but lower case letters, digits and `_`.
    #[must_use]
    pub fn database(&self, name: &str) -> String {
        self.create(name);
        self.url_of(name)
    }

    /// Runs SQL in the first database, for a look from outside of what is tested; each row as text, NULL as
    /// an empty one.
    ///
    /// # Panics
    ///
    /// With the server's words when it refuses.
    pub fn query(&self, sql: &str) -> Vec<Vec<String>> {
        query(self.server.port(), DATABASE, sql)
            .unwrap_or_else(|error| panic!("failed to query PostgreSQL: {error}"))
    }

    /// SIGKILL: connections break, nothing is flushed. Does nothing when it is dead already.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Has the disk be full, as far as this server can tell: no file of it grows, and what it has to write fails, its log
    /// of what is committed included. It ends by that, as it does on a full disk; a `restart` finds room again.
    ///
    /// # Panics
    ///
    /// When the kernel cannot limit it.
    pub fn fill_disk(&self) {
        self.server.limit_files(self.account, FULL);
    }

    /// Starts it again on the same port with the same data, after a `kill` if it still runs.
    ///
    /// # Panics
    ///
    /// When it does not come back.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    fn initialise(&self) {
        let words = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"];
        let mut initdb = self.command("initdb");
        initdb.args(words).arg("--pgdata").arg(self.data());
        self.server.prepare(initdb);
    }

    fn launch(&mut self) {
        let mut postgres = self.command("postgres");
        postgres.arg("-D").arg(self.data()).args(["-p", &self.server.port().to_string()]);
        postgres.args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        self.server.start(postgres, |port| query(port, "postgres", "SELECT 1").map(drop));
    }

    fn create(&self, name: &str) {
        let plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
        assert!(!name.is_empty() && name.bytes().all(plain), "a database needs a plain name, not `{name}`");
        let created = query(self.server.port(), "postgres", &format!("CREATE DATABASE \"{name}\""));
        created.unwrap_or_else(|error| panic!("failed to create the database `{name}`: {error}"));
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.server.port())
    }

    fn command(&self, program: &str) -> Command {
        process::mortal(&self.binaries.join(program), self.account, self.server.folder())
    }

    fn data(&self) -> PathBuf {
        self.server.folder().join("data")
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // An immediate shutdown: it frees its shared memory, and waits for no client.
        self.server.stop("QUIT");
    }
}
