//! Contents of the images and files of messages, and of the images of tool results, by their hash. The log holds the hashes.
//!
//! A content belongs to one thread: it is copied with a fork and deleted with its thread. Two threads never share one, so
//! no tenant can learn whether another has the same file.

use std::sync::Arc;

use futures::FutureExt as _;
use sea_orm::{ConnectionTrait, FromQueryResult};
use sha2::{Digest, Sha256};

use crate::{
    Error,
    log::{Store, database::statement, ids::ThreadId, pool::Transaction},
};

/// Content of an image or file.
#[derive(Clone, PartialEq, Eq)]
pub struct AttachmentContent {
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// Decoded bytes of the attachment.
    pub content: Arc<[u8]>,
}

impl std::fmt::Debug for AttachmentContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AttachmentContent({}, {} bytes)", self.sha256, self.content.len())
    }
}

impl AttachmentContent {
    /// Computes the hash of a content.
    pub fn new(content: Vec<u8>) -> Self {
        Self { sha256: hash(&content), content: content.into() }
    }
}

#[derive(FromQueryResult)]
struct Row {
    content: Vec<u8>,
}

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

async fn read(db: &impl ConnectionTrait, thread: ThreadId, sha256: &str) -> Result<Option<Vec<u8>>, Error> {
    let sql = "SELECT content FROM attachments WHERE thread_id = $1 AND sha256 = $2";
    let row = Row::find_by_statement(statement(db, sql, [thread.into(), sha256.into()])).one(db).await?;
    Ok(row.map(|row| row.content))
}

/// Stores contents. A content that the thread has already is left as it is.
pub(crate) async fn insert(
    tx: &Transaction,
    thread: ThreadId,
    attachments: &[AttachmentContent],
) -> Result<(), Error> {
    let sql =
        "INSERT INTO attachments (thread_id, sha256, content) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    for AttachmentContent { sha256, content } in attachments {
        let values = [thread.into(), sha256.as_str().into(), content.to_vec().into()];
        tx.execute_raw(statement(tx, sql, values)).await?;
    }
    Ok(())
}

async fn insert_one(tx: &Transaction, thread: ThreadId, content: AttachmentContent) -> Result<(), Error> {
    insert(tx, thread, &[content]).await
}

/// Copies the contents of a thread to another.
pub(crate) async fn copy(tx: &Transaction, from: ThreadId, to: ThreadId) -> Result<(), Error> {
    let sql = "INSERT INTO attachments (thread_id, sha256, content) \
               SELECT $2, sha256, content FROM attachments WHERE thread_id = $1";
    tx.execute_raw(statement(tx, sql, [from.into(), to.into()])).await?;
    Ok(())
}

fn hash(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}
