//! The index: what each MCP server offers, kept so that the servers that fit a question can be found.
//!
//! It only keeps. How texts become vectors and how entries are ranked is the hands' to know.

mod database;
mod memory;
mod table;

use async_trait::async_trait;

use crate::Error;

pub use memory::MemoryIndex;

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
}
