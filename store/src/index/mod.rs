//! The index: what each MCP server offers, kept so that the servers that fit a question can be found.
//!
//! It keeps, and it compares vectors, because engines that are made for that do it where the vectors are. How texts become
//! vectors, and how they are ranked by their words, is the hands' to know.

mod database;
mod memory;
#[cfg(feature = "milvus")]
mod milvus;
mod nearest;
mod table;

use std::collections::BTreeSet;

use async_trait::async_trait;

use crate::Error;

pub use memory::MemoryIndex;
#[cfg(feature = "milvus")]
pub use milvus::MilvusIndex;

/// What the index has of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The server.
    pub server: String,
    /// Names the text by its content.
    pub hash: String,
    /// What the server offers.
    pub text: String,
    /// The text as a vector, if a model made one.
    pub embedded: Option<Embedded>,
    /// When it was last written, in microseconds since the Unix epoch.
    pub updated_at: i64,
}

/// A text as a vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedded {
    /// The model that made it, as `provider/model`: vectors of two models cannot be compared.
    pub model: String,
    /// The vector.
    pub vector: Vec<f32>,
}

/// An entry that was found by its vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    /// The server.
    pub server: String,
    /// What it offers.
    pub text: String,
    /// The cosine of the angle between its vector and the one that was asked for.
    pub score: f64,
}

/// Keeps one entry a server. [`Store`](crate::Store) is one.
#[async_trait]
pub trait VectorIndex: Send + Sync {
    /// Writes these entries, each over what there was of its server: all of them or none.
    ///
    /// # Errors
    ///
    /// [`Error`] if the index cannot be written.
    async fn upsert(&self, entries: Vec<Entry>) -> Result<(), Error>;

    /// Removes what there is of these servers, and says of which there was anything, in order.
    ///
    /// # Errors
    ///
    /// [`Error`] if the index cannot be written.
    async fn remove(&self, servers: &[String]) -> Result<Vec<String>, Error>;

    /// All there is, by server.
    ///
    /// # Errors
    ///
    /// [`Error`] if the index cannot be read.
    async fn all(&self) -> Result<Vec<Entry>, Error>;

    /// Which models made the vectors there are; `None` is among them if an entry has no vector.
    ///
    /// # Errors
    ///
    /// [`Error`] if the index cannot be read.
    async fn models(&self) -> Result<BTreeSet<Option<String>>, Error> {
        Ok(self.all().await?.into_iter().map(|it| it.embedded.map(|it| it.model)).collect())
    }

    /// The entries whose vectors, of the same model and length, point most nearly where this one does: `limit` at most, the
    /// nearest first, equals by name.
    ///
    /// # Errors
    ///
    /// [`Error`] if the index cannot be read.
    async fn nearest(&self, to: &Embedded, limit: usize) -> Result<Vec<Near>, Error> {
        Ok(nearest::nearest(self.all().await?, to, limit))
    }
}
