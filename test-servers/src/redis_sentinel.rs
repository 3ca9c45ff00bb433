//! A private Redis Sentinel with a primary and a replica.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::account::Account;
use crate::process;
use crate::redis::{Redis, ask, binary};
use crate::server::Server;

/// Name of the primary.
const NAME: &str = "turnfold";

/// Maximum time for a change of the primary.
const CHANGED_WITHIN: Duration = Duration::from_secs(60);

const POLL: Duration = Duration::from_millis(20);

/// A sentinel, a primary and a replica. They end when this is dropped, or with the process.
#[derive(Debug)]
pub struct RedisSentinel {
    nodes: [Redis; 2],
    sentinel: Server,
}

impl RedisSentinel {
    /// Starts the servers; installs Redis if it is missing. Returns when the sentinel knows the replica.
    ///
    /// # Panics
    ///
    /// If it cannot be installed or does not start.
    #[must_use]
    pub fn start() -> Self {
        let primary = Redis::start();
        let port = primary.ports().0;
        let replica = Redis::replica_of(port);
        let mut sentinel = Server::new("sentinel");
        let file = sentinel.folder().join("sentinel.conf");
        let settings = format!(
            "bind 127.0.0.1\nport {}\nsentinel monitor {NAME} 127.0.0.1 {port} 1\n\
             sentinel down-after-milliseconds {NAME} 1000\nsentinel failover-timeout {NAME} 3000\n",
            sentinel.port()
        );
        fs::write(&file, settings).expect("failed to write the settings");
        let mut command = process::mortal(&binary(), Account::Own, sentinel.folder());
        command.arg(&file).arg("--sentinel");
        sentinel.start(command, |port| ask(port, "PING").map(drop));
        let this = Self { nodes: [primary, replica], sentinel };
        wait_until("the sentinel knows the replica", || this.ask("INFO sentinel").contains("slaves=1"));
        wait_until("the replica follows", || {
            this.nodes[1].ask("INFO replication").contains("link_status:up")
        });
        this
    }

    /// URL of the primary: `redis+sentinel://127.0.0.1:PORT/NAME`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis+sentinel://127.0.0.1:{}/{NAME}", self.sentinel.port())
    }

    /// Sends the sentinel one command, as [`Redis::ask`] does.
    ///
    /// # Panics
    ///
    /// As [`Redis::ask`].
    #[must_use]
    pub fn ask(&self, command: &str) -> String {
        ask(self.sentinel.port(), command)
            .unwrap_or_else(|error| panic!("failed to ask the sentinel `{command}`: {error}"))
    }

    /// The server that is the primary now.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn primary(&mut self) -> &mut Redis {
        self.nodes.iter_mut().find(|node| is_primary(node)).expect("a primary")
    }

    /// Makes the replica the primary; the old one lives on as a replica.
    ///
    /// # Panics
    ///
    /// If it does not happen.
    pub fn switch(&self) {
        let old = self.nodes.iter().position(is_primary).expect("a primary");
        wait_until("the sentinel agrees to change the primary", || {
            ask(self.sentinel.port(), &format!("SENTINEL FAILOVER {NAME}")).is_ok()
        });
        wait_until("the replica is the primary", || is_primary(&self.nodes[1 - old]));
        wait_until("the old primary is a replica", || !is_primary(&self.nodes[old]));
    }

    /// Kills the primary, and waits until the replica has taken over.
    ///
    /// # Panics
    ///
    /// If it does not happen.
    pub fn kill_primary(&mut self) {
        let old = self.nodes.iter().position(is_primary).expect("a primary");
        self.nodes[old].kill();
        wait_until("the replica is the primary", || is_primary(&self.nodes[1 - old]));
    }
}

impl Drop for RedisSentinel {
    fn drop(&mut self) {
        self.sentinel.kill();
    }
}

fn is_primary(node: &Redis) -> bool {
    ask(node.ports().0, "INFO replication").is_ok_and(|info| info.contains("role:master"))
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < CHANGED_WITHIN, "it did not happen that {what}");
        thread::sleep(POLL);
    }
}
