//! Concurrency limits of a server and of its tools, in this process.
//!
//! A call without a free permit waits; the wait is no error and does not count towards its timeout.

use std::collections::BTreeMap;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::Server;

/// Permits of one server.
pub(super) struct ConcurrencyLimits {
    server: Option<Semaphore>,
    tools: BTreeMap<String, Semaphore>,
}

impl ConcurrencyLimits {
    /// Creates the configured permits; unlimited where nothing is configured.
    pub(super) fn of(server: &Server) -> Self {
        let tools = server.tools.iter();
        let tools = tools
            .filter_map(|(name, rule)| Some((name.clone(), Semaphore::new(rule.concurrency?))))
            .collect();
        Self { server: server.concurrency.map(Semaphore::new), tools }
    }

    /// Waits for the permits of a call; dropping them releases them.
    pub(super) async fn acquire(&self, tool: &str) -> [Option<SemaphorePermit<'_>>; 2] {
        // The tool's permit comes first, so that a call waiting for a busy tool does not occupy the server.
        let tool = acquire_one(self.tools.get(tool)).await;
        [tool, acquire_one(self.server.as_ref()).await]
    }
}

async fn acquire_one(semaphore: Option<&Semaphore>) -> Option<SemaphorePermit<'_>> {
    // Fails only if the semaphore is closed, which never happens.
    semaphore?.acquire().await.ok()
}
