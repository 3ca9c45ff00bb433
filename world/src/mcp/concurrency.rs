//! Concurrency limits of a server and of its tools, in this process.
//!
//! ## Why writes take turns
//!
//! Public servers answer several writes at once with "ok" and keep one of them: they read a file, change it and write it back.
//! Writes of one server are therefore made one after another, unless the operator sets its `concurrency`. Reads go side by side.
//!
//! A call without a free permit waits; the wait is no error and does not count towards its timeout.

use std::collections::BTreeMap;

use shared::Safety;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::Server;

/// Permits of one server.
pub(super) struct ConcurrencyLimits {
    server: Option<Semaphore>,
    /// The permit of the only write; `None` if the operator limits the server.
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
        let writes = server.concurrency.is_none().then(|| Semaphore::new(1));
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

async fn acquire_one(semaphore: Option<&Semaphore>) -> Option<SemaphorePermit<'_>> {
    // Fails only if the semaphore is closed, which never happens.
    semaphore?.acquire().await.ok()
}
