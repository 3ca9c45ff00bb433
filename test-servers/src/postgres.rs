//! PostgreSQL for tests: a private server, or a database on the server that a test run shares.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::account::Account;
use crate::install::{self, Program};
use crate::postgres_wire::query;
use crate::server::Server;
use crate::{process, shared};

const POSTGRES: Program = Program {
    name: "postgres",
    package: "postgresql",
    // Debian keeps the versions apart and out of PATH.
    versions: Some("/usr/lib/postgresql"),
    at_least: (15, 0),
};

/// Name of a private server's first database.
const DATABASE: &str = "turnfold";

/// Maximum time until a standby has become the primary.
const HANDED_OVER_WITHIN: Duration = Duration::from_mins(1);

/// Maximum size of a file once the disk is full, in bytes: one block, so that very small files are still written.
const FULL: u64 = 8192;

/// Settings of every server. Durability against a failing machine costs time and proves nothing in a test; durability against
/// a failing process is untouched (`synchronous_commit` keeps its default).
const SETTINGS: [&str; 4] = [
    "listen_addresses=127.0.0.1",
    "fsync=off",
    "full_page_writes=off",
    // In the folder rather than in /dev/shm, where a killed server would leave it.
    "dynamic_shared_memory_type=mmap",
];

/// Settings of a private server. Its socket is in its folder, which is the directory above the data.
const PRIVATE: [&str; 3] = ["max_connections=200", "shared_buffers=32MB", "unix_socket_directories=.."];

/// Part of the name of the shared server's folder.
const SHARED_NAME: &str = "postgres";

/// Settings of the shared server.
const SHARED: [&str; 4] =
    ["max_connections=800", "shared_buffers=128MB", "autovacuum_naptime=10min", "unix_socket_directories="];

/// A PostgreSQL database for one test, on a private server ([`Postgres::start`]) or on the server that all tests of the run
/// share ([`Postgres::shared`]). The database ends when this is dropped, a private server also with the process.
#[derive(Debug)]
pub struct Postgres {
    server: Kind,
    /// The first database.
    name: String,
    /// Further databases on the shared server, dropped with the first.
    others: Mutex<Vec<String>>,
}

#[derive(Debug)]
enum Kind {
    Private { server: Server, programs: Programs },
    Shared { port: u16 },
}

/// PostgreSQL's programs, and the account that runs them.
#[derive(Clone, Debug)]
struct Programs {
    folder: PathBuf,
    account: Account,
}

impl Postgres {
    /// Starts a private server with one empty database; installs PostgreSQL if it is missing. Meant for tests that kill or
    /// reconfigure the server, or read views of the whole server.
    ///
    /// # Panics
    ///
    /// If it cannot be installed or does not start. The message says what is missing or ends with the server's log.
    #[must_use]
    pub fn start() -> Self {
        let (programs, server) = (Programs::find(), Server::new("postgres"));
        programs.account.own(server.folder());
        server.prepare(programs.initdb(server.folder(), &server.folder().join("data")));
        let kind = Kind::Private { server, programs };
        let mut this = Self { server: kind, name: DATABASE.to_owned(), others: Mutex::default() };
        this.launch();
        this.create(DATABASE, "template1");
        this
    }

    /// Starts a standby of this private server, which follows every change.
    ///
    /// # Panics
    ///
    /// As [`Postgres::start`].
    #[must_use]
    pub fn standby(&self) -> Self {
        let (programs, server) = (Programs::find(), Server::new("standby"));
        programs.account.own(server.folder());
        let copy = programs.folder.join("pg_basebackup");
        let mut copy = process::mortal(&copy, programs.account, server.folder());
        copy.args([
            "--host=127.0.0.1",
            "--username=postgres",
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
        ]);
        copy.arg(format!("--port={}", self.port())).arg("--pgdata").arg(server.folder().join("data"));
        server.prepare(copy);
        let kind = Kind::Private { server, programs };
        let mut this = Self { server: kind, name: self.name.clone(), others: Mutex::default() };
        this.launch();
        this
    }

    /// Makes `standby` the primary without losing a write. This server refuses writes from then on, answers reads, and
    /// keeps its connections, as a demoted primary can.
    ///
    /// # Panics
    ///
    /// If it does not happen within a minute.
    pub fn hand_over_to(&self, standby: &Self) {
        let value = |server: &Self, sql: &str| server.query(sql)[0][0].clone();
        let wait_until = |what: &str, condition: &dyn Fn() -> bool| {
            let began = Instant::now();
            while !condition() {
                assert!(began.elapsed() < HANDED_OVER_WITHIN, "it did not happen that {what}");
                thread::sleep(Duration::from_millis(10));
            }
        };
        self.query("ALTER SYSTEM SET default_transaction_read_only = on");
        self.query("SELECT pg_reload_conf()");
        wait_until("the primary refuses writes", &|| {
            value(self, "SELECT current_setting('default_transaction_read_only')") == "on"
        });
        wait_until("the standby has every write", &|| {
            let written = value(self, "SELECT pg_current_wal_lsn()");
            value(standby, "SELECT pg_last_wal_replay_lsn()") == written
                && value(self, "SELECT pg_current_wal_lsn()") == written
        });
        standby.query("SELECT pg_promote()");
        wait_until("the standby is the primary", &|| value(standby, "SELECT pg_is_in_recovery()") == "f");
    }

    /// Creates an empty database on the server that all tests of this run share; the first test that asks starts the server.
    /// A twentieth of the cost of [`Postgres::start`].
    ///
    /// # Panics
    ///
    /// As [`Postgres::start`].
    #[must_use]
    pub fn shared() -> Self {
        Self::on_shared_server("template1")
    }

    /// Creates a database on the shared server as a copy of the database `template`. The first test of the run that asks creates
    /// the template: an empty database, then `prepare` with its URL, in a thread of its own. Afterwards no client can connect
    /// to it.
    ///
    /// # Panics
    ///
    /// As [`Postgres::start`], or if `prepare` panics.
    #[must_use]
    pub fn prepared(template: &str, prepare: impl FnOnce(&str) + Send) -> Self {
        // Started before the lock is taken, because starting it takes the same one.
        let port = *SHARED_PORT;
        let alone = shared::lock(SHARED_NAME);
        let closed = format!("SELECT 1 FROM pg_database WHERE datname = '{template}' AND NOT datallowconn");
        if ask(&closed).is_empty() {
            // Left by a test that was killed while it prepared the template.
            ask(&format!("DROP DATABASE IF EXISTS \"{template}\" WITH (FORCE)"));
            ask(&format!("CREATE DATABASE \"{template}\""));
            let url = url(port, template);
            thread::scope(|scope| scope.spawn(|| prepare(&url)).join())
                .expect("failed to prepare a template");
            ask(&format!("ALTER DATABASE \"{template}\" ALLOW_CONNECTIONS false"));
            // PostgreSQL copies no database that has a client.
            ask(&format!(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{template}'"
            ));
        }
        drop(alone);
        Self::on_shared_server(template)
    }

    fn on_shared_server(template: &str) -> Self {
        static CREATED: AtomicUsize = AtomicUsize::new(0);
        let name = format!("test_{}_{}", std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed));
        let this = Self { server: Kind::Shared { port: *SHARED_PORT }, name, others: Mutex::default() };
        this.create(&this.name, template);
        this
    }

    /// URL of the first database: `postgres://postgres@127.0.0.1:PORT/NAME`. A restart does not change it.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(&self.name)
    }

    /// Folder of a private server's socket, and the port that names it.
    ///
    /// # Panics
    ///
    /// If the server is shared.
    #[must_use]
    pub fn socket(&self) -> (&Path, u16) {
        match &self.server {
            Kind::Private { server, .. } => (server.folder(), server.port()),
            Kind::Shared { .. } => panic!("the shared server has no socket: start a private one"),
        }
    }

    /// Returns the path of one of PostgreSQL's programs, such as `pg_dump`, of the version of the servers.
    ///
    /// # Panics
    ///
    /// As [`Postgres::start`].
    #[must_use]
    pub fn program(name: &str) -> PathBuf {
        Programs::find().folder.join(name)
    }

    /// Creates another database and returns its URL.
    ///
    /// # Panics
    ///
    /// If the name is taken, or contains anything but lower-case letters, digits and `_`.
    #[must_use]
    pub fn database(&self, name: &str) -> String {
        let name = match self.server {
            Kind::Private { .. } => name.to_owned(),
            Kind::Shared { .. } => format!("{}_{name}", self.name),
        };
        self.create(&name, "template1");
        self.others.lock().expect("no panic while held").push(name.clone());
        self.url_of(&name)
    }

    /// Runs SQL in the first database, as an observer outside of the code under test. Each row as text; NULL is an empty text.
    ///
    /// # Panics
    ///
    /// If the server refuses; with its message.
    pub fn query(&self, sql: &str) -> Vec<Vec<String>> {
        query(self.port(), &self.name, sql)
            .unwrap_or_else(|error| panic!("failed to query PostgreSQL: {error}"))
    }

    /// Sends SIGKILL: connections break, nothing is flushed. Does nothing if the server is dead.
    ///
    /// # Panics
    ///
    /// If the server is shared.
    pub fn kill(&mut self) {
        self.private().0.kill();
    }

    /// Simulates a full disk for this server: no file of it grows, and what it has to write fails, its write-ahead log
    /// included. The server ends by that, as on a full disk; [`Postgres::restart`] finds room again.
    ///
    /// # Panics
    ///
    /// If the kernel cannot limit the server, or the server is shared.
    pub fn fill_disk(&mut self) {
        let (server, programs) = self.private();
        server.limit_files(programs.account, FULL);
    }

    /// Starts the server again on the same port with the same data; kills it first if it still runs.
    ///
    /// # Panics
    ///
    /// If the server does not come back, or is shared.
    pub fn restart(&mut self) {
        self.kill();
        self.launch();
    }

    fn launch(&mut self) {
        let (server, programs) = self.private();
        let command = programs.postgres(&server.folder().join("data"), server.port(), &PRIVATE);
        let mut postgres = process::mortal(Path::new(&command[0]), programs.account, server.folder());
        postgres.args(&command[1..]);
        server.start(postgres, is_ready);
    }

    fn private(&mut self) -> (&mut Server, Programs) {
        match &mut self.server {
            Kind::Private { server, programs } => (server, programs.clone()),
            Kind::Shared { .. } => {
                panic!("other tests use this server: start a private one with `Postgres::start`")
            }
        }
    }

    fn port(&self) -> u16 {
        match &self.server {
            Kind::Private { server, .. } => server.port(),
            Kind::Shared { port } => *port,
        }
    }

    fn create(&self, name: &str, template: &str) {
        let plain = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
        assert!(!name.is_empty() && name.bytes().all(plain), "a database needs a plain name, not `{name}`");
        let created =
            query(self.port(), "postgres", &format!("CREATE DATABASE \"{name}\" TEMPLATE \"{template}\""));
        created.unwrap_or_else(|error| panic!("failed to create the database `{name}`: {error}"));
    }

    fn url_of(&self, database: &str) -> String {
        url(self.port(), database)
    }
}

impl Programs {
    fn find() -> Self {
        // The target of a link: `initdb` is in the target's folder.
        let postgres = install::find(&POSTGRES).canonicalize().expect("failed to follow a link");
        let folder = postgres.parent().expect("a program is in a folder").to_owned();
        Self { folder, account: Account::for_postgres() }
    }

    fn initdb(&self, folder: &Path, data: &Path) -> Command {
        let mut initdb = process::mortal(&self.folder.join("initdb"), self.account, folder);
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        initdb.arg("--pgdata").arg(data);
        initdb
    }

    /// Command line of a server.
    fn postgres(&self, data: &Path, port: u16, more: &[&str]) -> Vec<String> {
        let settings =
            SETTINGS.iter().chain(more).flat_map(|setting| ["-c".to_owned(), (*setting).to_owned()]);
        let program = self.folder.join("postgres").display().to_string();
        [program, "-D".to_owned(), data.display().to_string(), "-p".to_owned(), port.to_string()]
            .into_iter()
            .chain(settings)
            .collect()
    }
}

/// Port of the server that all tests of this run share.
static SHARED_PORT: LazyLock<u16> = LazyLock::new(|| {
    let programs = Programs::find();
    let command = |data: &Path, port: u16| {
        let mut initdb = programs.initdb(data, data);
        let log = File::create(data.with_file_name("initdb.log")).expect("failed to open a log");
        initdb.stdout(Stdio::null()).stderr(log);
        let status = process::start(initdb).wait().expect("failed to wait for a child");
        assert!(
            status.success(),
            "failed to run initdb: {status}; see {}",
            data.with_file_name("initdb.log").display()
        );
        programs.postgres(data, port, &SHARED)
    };
    shared::port(SHARED_NAME, programs.account, command, is_ready)
});

/// Runs SQL on the shared server.
fn ask(sql: &str) -> Vec<Vec<String>> {
    query(*SHARED_PORT, "postgres", sql).unwrap_or_else(|error| panic!("failed to query PostgreSQL: {error}"))
}

fn url(port: u16, database: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/{database}")
}

fn is_ready(port: u16) -> Result<(), String> {
    query(port, "postgres", "SELECT 1").map(drop)
}

impl Drop for Postgres {
    fn drop(&mut self) {
        match &mut self.server {
            // An immediate shutdown: it frees shared memory and waits for no client.
            Kind::Private { server, .. } => server.stop("QUIT"),
            Kind::Shared { port } => {
                let others = self.others.get_mut().map(std::mem::take).unwrap_or_default();
                for name in others.into_iter().chain([std::mem::take(&mut self.name)]) {
                    // A database that cannot be dropped ends with the server.
                    let _ = query(*port, "postgres", &format!("DROP DATABASE \"{name}\" WITH (FORCE)"));
                }
            }
        }
    }
}
