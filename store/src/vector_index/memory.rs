//! A vector index in memory, lost when the process ends: for tests, and for deployments without a persistent index.

use std::collections::BTreeMap;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::{Entry, VectorIndex};
use crate::Error;

/// Vector index in the memory of this process.
#[derive(Debug, Default)]
pub struct MemoryIndex {
    entries: Mutex<BTreeMap<String, Entry>>,
}

#[async_trait]
impl VectorIndex for MemoryIndex {
    async fn upsert(&self, entries: Vec<Entry>) -> Result<(), Error> {
        self.entries.lock().await.extend(entries.into_iter().map(|entry| (entry.server.clone(), entry)));
        Ok(())
    }

    async fn remove(&self, servers: &[String]) -> Result<Vec<String>, Error> {
        let mut entries = self.entries.lock().await;
        let mut removed: Vec<String> =
            servers.iter().filter(|server| entries.remove(*server).is_some()).cloned().collect();
        removed.sort();
        Ok(removed)
    }

    async fn all(&self) -> Result<Vec<Entry>, Error> {
        Ok(self.entries.lock().await.values().cloned().collect())
    }
}
