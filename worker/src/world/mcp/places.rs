//! How many calls a server, and a tool of it, is given at once.
//!
//! Whoever finds no place waits: that is no error, and none of the call's own time.

use std::collections::BTreeMap;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::Server;

/// The places of one server. They are this process's own.
pub(super) struct Places {
    server: Option<Semaphore>,
    tools: BTreeMap<String, Semaphore>,
}

impl Places {
    /// As many as the operator says; any number, where they say nothing.
    pub(super) fn of(server: &Server) -> Self {
        let tools = server.tools.iter();
        let tools = tools
            .filter_map(|(name, rule)| Some((name.clone(), Semaphore::new(rule.concurrency?))))
            .collect();
        Self { server: server.concurrency.map(Semaphore::new), tools }
    }

    /// Waits for a place; it is free again when what is returned is dropped.
    pub(super) async fn take(&self, tool: &str) -> [Option<SemaphorePermit<'_>>; 2] {
        // The tool's first: whoever waits for a busy tool keeps no other tool from the server.
        let tool = free(self.tools.get(tool)).await;
        [tool, free(self.server.as_ref()).await]
    }
}

async fn free(places: Option<&Semaphore>) -> Option<SemaphorePermit<'_>> {
    // It is an error only once the places are closed, and nobody closes them.
    places?.acquire().await.ok()
}
