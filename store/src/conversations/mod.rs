//! Conversations of OpenAI's API: threads that clients create before their first turn, with metadata.
//!
//! A conversation and its thread have one id. Items wait here until a turn takes them to the thread.

pub(crate) mod table;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QuerySelect as _, sea_query::Expr,
};
use serde_json::{Map, Value};
use shared::Message;

use self::table::Column;
use crate::{
    Error, Store,
    log::{
        AttachmentContent, ThreadId, Transaction, attachments,
        ids::{corrupt, plain},
        statement,
        two_phases::commit_in_two_phases,
        unsigned,
    },
};

/// A conversation with its metadata and the items that wait for a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// Id of the conversation, and of its thread once a turn has begun it.
    pub id: ThreadId,
    /// Tenant that owns it.
    pub tenant: String,
    /// Data of the client.
    pub metadata: Map<String, Value>,
    /// Messages that the next turn begins with.
    pub items: Vec<Message>,
    /// Time of creation, in microseconds since the Unix epoch.
    pub created_at: i64,
}

impl Conversation {
    /// Creates a conversation that begins now.
    pub fn new(tenant: &str, metadata: Map<String, Value>, items: Vec<Message>) -> Self {
        Self { id: clock::new_id(), tenant: plain(tenant), metadata, items, created_at: clock::now() }
    }

    fn from_row(row: table::Model) -> Result<Self, Error> {
        let table::Model { thread_id: id, tenant, metadata, items, created_at, begun: _ } = row;
        let metadata = serde_json::from_str(&metadata).map_err(|error| corrupt(id, error))?;
        Ok(Self { id, tenant, metadata, items: read_items(id, &items)?, created_at })
    }
}

/// Reads the items of a row.
fn read_items(id: ThreadId, items: &str) -> Result<Vec<Message>, Error> {
    serde_json::from_str(items).map_err(|error| corrupt(id, error))
}

fn items_text(id: ThreadId, items: &[Message]) -> Result<String, Error> {
    serde_json::to_string(items).map_err(|error| corrupt(id, error))
}

impl Store {
    /// Keeps a new conversation, with the contents of its items' images and files. Returns false, and keeps nothing, if its tenant has
    /// `most` conversations that no turn has begun.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn keep_conversation(
        &self,
        new: &Conversation,
        contents: Vec<AttachmentContent>,
        most: u64,
    ) -> Result<bool, Error> {
        const COUNT: &str = "SELECT count(*) AS n FROM conversations WHERE tenant = $1 AND NOT begun \
            AND NOT EXISTS (SELECT 1 FROM threads WHERE threads.id = conversations.thread_id)";
        let pool = &self.database.pool;
        let counted = pool.query_one_raw(statement(pool, COUNT, [new.tenant.clone().into()])).await?;
        let begun = counted.map_or(Ok(0), |row| row.try_get("", "n"))?;
        if most <= unsigned(begun)? {
            return Ok(false);
        }
        let row = table::Model {
            thread_id: new.id,
            tenant: new.tenant.clone(),
            metadata: Value::Object(new.metadata.clone()).to_string(),
            items: items_text(new.id, &new.items)?,
            created_at: new.created_at,
            begun: false,
        };
        self.database.transact(move |tx| insert(tx, row, contents).boxed()).await?;
        Ok(true)
    }

    /// Returns a conversation.
    ///
    /// # Errors
    ///
    /// [`Error`] if the row cannot be read.
    pub async fn conversation(&self, id: ThreadId) -> Result<Option<Conversation>, Error> {
        let row = table::Entity::find_by_id(id).one(&self.database.pool).await?;
        row.map(Conversation::from_row).transpose()
    }

    /// Replaces the metadata of a conversation. Returns false if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn set_conversation_metadata(
        &self,
        id: ThreadId,
        metadata: &Map<String, Value>,
    ) -> Result<bool, Error> {
        let text = Value::Object(metadata.clone()).to_string();
        let updated = table::Entity::update_many()
            .col_expr(Column::Metadata, Expr::value(text))
            .filter(Column::ThreadId.eq(id))
            .exec(&self.database.writer)
            .await?;
        Ok(0 < updated.rows_affected)
    }

    /// Adds messages that the next turn begins with, and the contents of their images and files. Returns false, and adds nothing, if
    /// the messages would have more than `most` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the conversation does not exist.
    pub async fn add_conversation_items(
        &self,
        id: ThreadId,
        items: Vec<Message>,
        contents: Vec<AttachmentContent>,
        most: usize,
    ) -> Result<bool, Error> {
        self.database.transact(move |tx| add_items(tx, id, items, contents, most).boxed()).await
    }

    /// Deletes a conversation, and not its thread. Returns false if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error`] if the write fails.
    pub async fn delete_conversation(&self, id: ThreadId) -> Result<bool, Error> {
        self.database.transact(move |tx| delete(tx, id).boxed()).await
    }
}

async fn insert(tx: &Transaction, row: table::Model, contents: Vec<AttachmentContent>) -> Result<(), Error> {
    let id = row.thread_id;
    table::Entity::insert_many([row.into_active_model()]).exec_without_returning(tx).await?;
    attachments::rows::insert(tx, id, &contents).await
}

/// Deletes a conversation, with the contents of its items unless its thread has them.
async fn delete(tx: &Transaction, id: ThreadId) -> Result<bool, Error> {
    let deleted = table::Entity::delete_by_id(id).exec(tx).await?;
    commit_in_two_phases(tx).await?;
    let sql =
        "DELETE FROM attachments WHERE thread_id = $1 AND NOT EXISTS (SELECT 1 FROM threads WHERE id = $1)";
    tx.execute_raw(statement(tx, sql, [id.into()])).await?;
    Ok(0 < deleted.rows_affected)
}

async fn add_items(
    tx: &Transaction,
    id: ThreadId,
    items: Vec<Message>,
    contents: Vec<AttachmentContent>,
    most: usize,
) -> Result<bool, Error> {
    let mut all = locked_items(tx, id).await?.ok_or(Error::UnknownThread(id))?;
    all.extend(items);
    let text = items_text(id, &all)?;
    if most < text.len() {
        return Ok(false);
    }
    attachments::rows::insert(tx, id, &contents).await?;
    write_items(tx, id, text).await?;
    Ok(true)
}

/// Returns the items of a conversation, whose row stays locked; none if it does not exist.
pub(crate) async fn locked_items(tx: &Transaction, id: ThreadId) -> Result<Option<Vec<Message>>, Error> {
    let row = table::Entity::find_by_id(id).lock_exclusive().one(tx).await?;
    row.map(|row| read_items(id, &row.items)).transpose()
}

/// Records that a turn has begun the thread and has taken the items to it.
pub(crate) async fn begin(tx: &Transaction, id: ThreadId) -> Result<(), Error> {
    let sql = "UPDATE conversations SET items = '[]', begun = TRUE WHERE thread_id = $1";
    tx.execute_raw(statement(tx, sql, [id.into()])).await?;
    Ok(())
}

async fn write_items(tx: &Transaction, id: ThreadId, items: String) -> Result<(), Error> {
    table::Entity::update_many()
        .col_expr(Column::Items, Expr::value(items))
        .filter(Column::ThreadId.eq(id))
        .exec(tx)
        .await?;
    Ok(())
}
