//! The vector index: descriptions of MCP servers, stored for similarity search.
//!
//! The index stores entries and compares vectors; specialised engines do that next to the data. Workers compute the
//! embeddings and do the lexical ranking.

mod database;
mod memory;
#[cfg(feature = "milvus")]
mod milvus;
mod nearest;
mod table;

use std::collections::BTreeSet;

use async_trait::async_trait;
use shared::Metric;

use crate::Error;

pub use memory::MemoryIndex;
#[cfg(feature = "milvus")]
pub use milvus::MilvusIndex;

/// Index entry of one MCP server.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Name of the server.
    pub server: String,
    /// Hash of the text.
    pub hash: String,
    /// Description of the server.
    pub text: String,
    /// Embedding of the text, if a model computed one.
    pub embedded: Option<Embedded>,
    /// Time of the last write, in microseconds since the Unix epoch.
    pub updated_at: i64,
}

/// A text's embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// Model that computed the vector, as `provider/model`. Vectors of different models are not comparable.
    pub model: String,
    /// Components of the vector.
    pub vector: Vec<f32>,
}

/// A search result.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    /// Name of the server.
    pub server: String,
    /// Description of the server.
    pub text: String,
    /// Similarity of the entry's vector and the query.
    pub score: f64,
}

/// A store with one entry per MCP server. [`Store`](crate::Store) implements it.
#[async_trait]
pub trait VectorIndex: Send + Sync {
    /// Writes these entries in one step, replacing existing entries of the same servers.
    ///
    /// # Errors
    ///
    /// [`Error`] if the index cannot be written.
    async fn upsert(&self, entries: Vec<Entry>) -> Result<(), Error>;

    /// Removes the entries of these servers. Returns the servers that had one, in order.
    ///
    /// # Errors
    ///
    /// [`Error`] if the index cannot be written.
    async fn remove(&self, servers: &[String]) -> Result<Vec<String>, Error>;

    /// Returns all entries, ordered by server.
    ///
    /// # Errors
    ///
    /// [`Error`] if the index cannot be read.
    async fn all(&self) -> Result<Vec<Entry>, Error>;

    /// Returns the models of the stored vectors, with `None` if an entry has no vector.
    ///
    /// # Errors
    ///
    /// [`Error`] if the index cannot be read.
    async fn models(&self) -> Result<BTreeSet<Option<String>>, Error> {
        Ok(self.all().await?.into_iter().map(|entry| entry.embedded.map(|embedded| embedded.model)).collect())
    }

    /// Returns at most `limit` entries with the highest similarity by `metric`, highest first and ties by server name.
    /// Only vectors of the same model and length are compared.
    ///
    /// # Errors
    ///
    /// [`Error`] if the index cannot be read.
    async fn nearest(&self, to: &Embedded, metric: Metric, limit: usize) -> Result<Vec<Near>, Error> {
        Ok(nearest::nearest(self.all().await?, to, metric, limit))
    }
}
