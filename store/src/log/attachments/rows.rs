//! Rows of attachments.

use std::sync::Arc;

use sea_orm::{ConnectionTrait, FromQueryResult};
use sha2::{Digest, Sha256};

use crate::{
    Error,
    log::{database::statement, ids::ThreadId, pool::Transaction, two_phases::commit_in_two_phases},
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

/// Reads a content.
pub(crate) async fn read(
    db: &impl ConnectionTrait,
    thread: ThreadId,
    sha256: &str,
) -> Result<Option<Vec<u8>>, Error> {
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
    if !attachments.is_empty() {
        commit_in_two_phases(tx).await?;
    }
    let sql =
        "INSERT INTO attachments (thread_id, sha256, content) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
    for AttachmentContent { sha256, content } in attachments {
        let values = [thread.into(), sha256.as_str().into(), content.to_vec().into()];
        tx.execute_raw(statement(tx, sql, values)).await?;
    }
    Ok(())
}

/// Copies the contents of a thread to another.
pub(crate) async fn copy(tx: &Transaction, from: ThreadId, to: ThreadId) -> Result<(), Error> {
    let sql = "INSERT INTO attachments (thread_id, sha256, content) \
               SELECT $2, sha256, content FROM attachments WHERE thread_id = $1";
    tx.execute_raw(statement(tx, sql, [from.into(), to.into()])).await?;
    Ok(())
}

/// Returns the hash of a content, in hexadecimal.
pub(crate) fn hash(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}
