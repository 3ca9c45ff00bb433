//! Contents of the images and files of messages, and of the images of tool results, by their hash. The log holds the hashes.
//!
//! A content belongs to one thread: it is copied with a fork and deleted with its thread. Two threads never share one, so
//! no tenant can learn whether another has the same file.

pub(crate) mod rows;

use futures::FutureExt as _;

use crate::{
    Error,
    log::{Store, ids::ThreadId, pool::Transaction},
};

pub use rows::AttachmentContent;
use rows::{hash, read};

impl Store {
    /// Returns the content of an attachment of this thread, if there is one with this hash.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if the stored bytes have another hash, [`Error::Unavailable`] if the database does not answer.
    pub async fn attachment(&self, thread: ThreadId, sha256: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(content) = read(&self.database.pool, thread, sha256).await? else { return Ok(None) };
        if hash(&content) == sha256 {
            return Ok(Some(content));
        }
        Err(Error::Corrupt { thread, what: format!("the content of attachment {sha256} has another hash") })
    }

    /// Stores the content of an attachment of this thread, unless it has it already. Returns the hash.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer, and an error if the thread does not exist.
    pub async fn keep_attachment(&self, thread: ThreadId, content: Vec<u8>) -> Result<String, Error> {
        let content = AttachmentContent::new(content);
        let sha256 = content.sha256.clone();
        self.database.transact(move |tx| insert_one(tx, thread, content).boxed()).await?;
        Ok(sha256)
    }

    /// Compares a stored attachment with its hash. Returns the difference, if there is one.
    pub(crate) async fn attachment_finding(
        &self,
        thread: ThreadId,
        sha256: &str,
    ) -> Result<Option<&'static str>, Error> {
        Ok(match read(&self.database.pool, thread, sha256).await? {
            None => Some("is missing"),
            Some(content) if hash(&content) != sha256 => Some("was changed"),
            Some(_) => None,
        })
    }
}

async fn insert_one(tx: &Transaction, thread: ThreadId, content: AttachmentContent) -> Result<(), Error> {
    rows::insert(tx, thread, &[content]).await
}
