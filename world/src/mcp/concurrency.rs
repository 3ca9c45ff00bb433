//! Concurrency limits of a server and of its tools.
//!
//! ## Why writes take turns
//!
//! Public servers answer several writes at once with "ok" and keep one of them: they read a file, change it and write it back.
//! Writes of one server are therefore made one after another, unless the operator sets its `concurrency`. Reads go side by side.
//! The [turn](Servers::turn_of_writes) of a write is reserved before the write is attempted, and is the same for all workers: they may
//! share a server over HTTP, or a file behind their child processes. The permits here are of this process alone. They hold
//! also when the reservations are lost.
//!
//! A call without a free permit waits; the wait is no error and does not count towards its timeout.

use std::collections::BTreeMap;

use shared::Safety;
use tokio::sync::{Semaphore, SemaphorePermit};

use uuid::Uuid;

use super::{Server, Servers, Session};

/// Permits of one server.
pub(super) struct ConcurrencyLimits {
    server: Option<Semaphore>,
    /// The permit of the only write; `None` if the operator limits the server, or each thread has its own.
    writes: Option<Semaphore>,
    tools: BTreeMap<String, Semaphore>,
}

impl ConcurrencyLimits {
    /// Creates the configured permits. Where nothing is configured, reads are unlimited and writes go one after another.
    pub(super) fn of(server: &Server) -> Self {
        let tools = server.tools.iter();
        let tools = tools
            .filter_map(|(name, rule)| Some((name.clone(), Semaphore::new(rule.concurrency?))))
            .collect();
        let is_shared = server.session == Session::Shared;
        let writes = (server.concurrency.is_none() && is_shared).then(|| Semaphore::new(1));
        Self { server: server.concurrency.map(Semaphore::new), writes, tools }
    }

    /// Waits for the permits of a call; dropping them releases them.
    pub(super) async fn acquire(&self, tool: &str, safety: Safety) -> [Option<SemaphorePermit<'_>>; 3] {
        // The tool's permit comes first, so that a call waiting for a busy tool does not occupy the server.
        let tool = acquire_one(self.tools.get(tool)).await;
        let is_write = safety != Safety::Read;
        let write = acquire_one(self.writes.as_ref().filter(|_| is_write)).await;
        [tool, write, acquire_one(self.server.as_ref()).await]
    }
}

impl Servers {
    /// Returns the name of that of which one write is made at a time: the server, or a thread's own session with it. `None` if the
    /// operator limits the server.
    pub(crate) fn turn_of_writes(&self, name: &str, thread: Uuid) -> Option<String> {
        let server = &self.pools.get(name)?.server;
        if server.concurrency.is_some() {
            return None;
        }
        Some(match server.session {
            Session::Shared => name.to_owned(),
            Session::Thread { .. } => format!("{name}/{thread}"),
        })
    }
}

async fn acquire_one(semaphore: Option<&Semaphore>) -> Option<SemaphorePermit<'_>> {
    // Fails only if the semaphore is closed, which never happens.
    semaphore?.acquire().await.ok()
}
