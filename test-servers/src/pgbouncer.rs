//! PgBouncer for tests: a pooler in transaction mode.

use std::fs;
use std::path::Path;

use crate::account::Account;
use crate::install::{self, Program};
use crate::postgres_wire::query;
use crate::process;
use crate::server::Server;

const PGBOUNCER: Program =
    Program { name: "pgbouncer", package: "pgbouncer", versions: None, at_least: (1, 12) };

/// Database that is asked whether the pooler is ready: its own console.
const CONSOLE: &str = "pgbouncer";

/// A pooler in transaction mode before one PostgreSQL server. It ends when this is dropped, or with the process.
#[derive(Debug)]
pub struct PgBouncer {
    server: Server,
    database: String,
}

impl PgBouncer {
    /// Starts a pooler that shares `connections` connections to the server of `url` among all clients; installs PgBouncer
    /// if it is missing. Prepared statements are not tracked, as in every version before 1.21.
    ///
    /// # Panics
    ///
    /// If it cannot be installed or does not start. The message says what is missing or ends with the pooler's log.
    #[must_use]
    pub fn before(url: &str, connections: u32) -> Self {
        let binary = install::find(&PGBOUNCER);
        let account = Account::for_postgres();
        let mut server = Server::new("pgbouncer");
        account.own(server.folder());
        let (rest, database) = url.rsplit_once('/').expect("a URL with a database");
        let port = rest.rsplit(':').next().expect("a URL with a port");
        let (users, file) = (server.folder().join("users.txt"), server.folder().join("pgbouncer.ini"));
        fs::write(&users, "\"postgres\" \"\"\n").expect("failed to write the users");
        let tracked = if version_tracks_statements(&binary) { "max_prepared_statements = 0\n" } else { "" };
        let settings = format!(
            "[databases]\n* = host=127.0.0.1 port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {}\nunix_socket_dir =\nauth_type = trust\nauth_file = {}\nadmin_users = postgres\n\
             pool_mode = transaction\ndefault_pool_size = {connections}\nmax_client_conn = 500\n{tracked}",
            server.port(),
            users.display()
        );
        fs::write(&file, settings).expect("failed to write the settings");
        let mut command = process::mortal(&binary, account, server.folder());
        command.arg(&file);
        server.start(command, |port| query(port, CONSOLE, "SHOW VERSION").map(drop));
        Self { server, database: database.to_owned() }
    }

    /// URL of the same database through the pooler.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{}", self.server.port(), self.database)
    }
}

/// True if this version would make named statements work.
fn version_tracks_statements(binary: &Path) -> bool {
    install::version(binary) >= (1, 21)
}

impl Drop for PgBouncer {
    fn drop(&mut self) {
        self.server.kill();
    }
}
