//! Batches as rows: how they are made and looked for.

use std::time::Duration;

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, DatabaseTransaction, EntityTrait as _, QueryFilter as _,
    QueryOrder as _, QuerySelect as _, QueryTrait as _, TryInsertResult,
};
use serde_json::Value;
use uuid::Uuid;

use super::{
    BatchId, BatchStatus, Counts, FileId, ItemState, Stopped,
    files::is_readable,
    tables::{batches, batches::Column},
};
use crate::{
    Error, Idempotency, Priority, Store,
    log::{at_most, key_of, plain, signed, unsigned},
    time,
};

/// A batch that somebody makes.
#[derive(Clone, Debug, PartialEq)]
pub struct NewBatch {
    /// Whose it is.
    pub tenant: String,
    /// Who makes it.
    pub author: String,
    /// What every line is sent to.
    pub endpoint: String,
    /// The file of lines.
    pub input_file: FileId,
    /// For how long it may run, as its owner wrote it.
    pub completion_window: String,
    /// The same in seconds.
    pub seconds: u64,
    /// What the client wants to find again: a JSON object.
    pub metadata: Value,
    /// For how many seconds the files of its results are kept; until somebody deletes them, if nobody says.
    pub output_seconds: Option<u64>,
    /// Whether an earlier result of the same line is taken.
    pub reuse: bool,
    /// What it may cost, in millionths of a US dollar.
    pub max_micro_usd: Option<u64>,
    /// How many lines are under way at once.
    pub window: u64,
    /// For how many seconds a line may be under way.
    pub item_seconds: Option<u64>,
    /// How urgent its turns are.
    pub priority: Priority,
    /// A hash of the request to make it.
    pub request_hash: String,
    /// By what it is known if it was made before.
    pub known_by: KnownBy,
}

/// By what a request is known that was sent before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// By nothing: every one makes a batch.
    Nothing,
    /// By the key that the client gave it.
    Key(String),
    /// By what it says, as the client tells that it sent it before, without a key, and heard nothing.
    Content,
}

/// For how long a client sends a request again that it had no answer to: OpenAI's wait ten minutes for an answer,
/// twice again.
const SENT_AGAIN_WITHIN: Duration = Duration::from_mins(30);

/// A batch, as its row has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Which.
    pub id: BatchId,
    /// Whose it is.
    pub tenant: String,
    /// Who made it.
    pub author: String,
    /// What every line is sent to.
    pub endpoint: String,
    /// The file of lines.
    pub input_file: FileId,
    /// For how long it may run, as its owner wrote it.
    pub completion_window: String,
    /// What the client wants to find again.
    pub metadata: Value,
    /// For how many seconds the files of its results are kept.
    pub output_seconds: Option<u64>,
    /// Whether an earlier result of the same line is taken.
    pub reuse: bool,
    /// What it may cost, in millionths of a US dollar.
    pub max_micro_usd: Option<u64>,
    /// How many lines are under way at once.
    pub window: u64,
    /// For how many seconds a line may be under way.
    pub item_seconds: Option<u64>,
    /// How urgent its turns are.
    pub priority: Priority,
    /// How far it has come.
    pub status: BatchStatus,
    /// Why nothing more of it is begun, while it is open.
    pub stopped: Option<Stopped>,
    /// Why it failed as a whole.
    pub fault: Option<String>,
    /// The next chunk of its file to validate.
    pub validated: u32,
    /// How many lines were found before that.
    pub lines: u64,
    /// How many lines are of it.
    pub total: u64,
    /// How many of them stand where.
    pub counts: Counts,
    /// The number of its last result.
    pub done: u64,
    /// What its turns took, as far as is known.
    pub input_tokens: u64,
    /// What its turns took, as far as is known.
    pub output_tokens: u64,
    /// What its turns took, as far as is known.
    pub micro_usd: u64,
    /// The file of what came out well.
    pub output_file: Option<FileId>,
    /// The file of what did not.
    pub error_file: Option<FileId>,
    /// When what happened to it, in microseconds since the Unix epoch.
    pub at: BatchTimes,
    /// Until when nobody but its keeper looks after it.
    pub kept_until: i64,
}

/// When what happened to a batch, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the statuses")]
pub struct BatchTimes {
    pub created: i64,
    pub in_progress: Option<i64>,
    pub expires: i64,
    pub finalizing: Option<i64>,
    pub completed: Option<i64>,
    pub failed: Option<i64>,
    pub expired: Option<i64>,
    pub cancelling: Option<i64>,
    pub cancelled: Option<i64>,
}

impl Batch {
    /// How many of its lines ended badly: those that were called off too, unless that was done to all of it.
    pub fn failed(&self) -> u64 {
        let one_by_one = if self.at.cancelling.is_none() { self.counts.of(ItemState::Cancelled) } else { 0 };
        self.counts.failed() + one_by_one
    }
}

impl Store {
    /// Makes a batch, and says whether it is new: one that repeats another is that one, also once its file is gone. None,
    /// if a new one would have no file to read.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another request.
    pub async fn make_batch(&self, new: NewBatch) -> Result<Option<(Batch, bool)>, Error> {
        self.database.transact(move |tx| make(tx, new).boxed()).await
    }

    /// The batch of this file that was made with this key before, by this tenant or by any: also once the file is gone.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another request.
    pub async fn made_batch(
        &self,
        tenant: Option<&str>,
        file: FileId,
        idempotency: &Idempotency,
    ) -> Result<Option<Batch>, Error> {
        let rows = batches::Entity::find()
            .filter(Column::InputFile.eq(file))
            .apply_if(tenant, |rows, it| rows.filter(Column::Tenant.eq(it)));
        let mut rows = rows.all(&self.database.pool).await?.into_iter();
        let row = rows.find(|it| it.idempotency_key == Some(key_of(&it.tenant, &idempotency.key)));
        row.map(|it| same(it, &plain(&idempotency.request_hash))).transpose()
    }

    /// A batch, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn batch(&self, id: BatchId) -> Result<Option<Batch>, Error> {
        batches::Entity::find_by_id(id).one(&self.database.pool).await?.map(Batch::try_from).transpose()
    }

    /// Batches, newest first, at most `limit`; those made before `after`, of this tenant or of all.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn batches(
        &self,
        tenant: Option<&str>,
        after: Option<BatchId>,
        limit: u64,
    ) -> Result<Vec<Batch>, Error> {
        let rows = batches::Entity::find()
            .apply_if(tenant, |rows, it| rows.filter(Column::Tenant.eq(it)))
            .apply_if(after, |rows, it| rows.filter(Column::Id.lt(it)))
            .order_by_desc(Column::Id)
            .limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Batch::try_from).collect()
    }
}

async fn make(tx: &DatabaseTransaction, new: NewBatch) -> Result<Option<(Batch, bool)>, Error> {
    let hash = plain(&new.request_hash);
    let key = match &new.known_by {
        KnownBy::Nothing => None,
        KnownBy::Key(key) => Some(key_of(&new.tenant, key)),
        KnownBy::Content => {
            let known = batches::Entity::find()
                .filter(Column::InputFile.eq(new.input_file))
                .filter(Column::Tenant.eq(plain(&new.tenant)))
                .filter(Column::RequestHash.eq(&hash))
                .filter(Column::CreatedAt.gte(time::now().saturating_sub(time::span(SENT_AGAIN_WITHIN))))
                .order_by_desc(Column::Id);
            if let Some(known) = known.one(tx).await? {
                return Ok(Some((known.try_into()?, false)));
            }
            None
        }
    };
    if is_readable(tx, new.input_file).await? {
        let id = Uuid::now_v7();
        let row = batches::ActiveModel { id: Set(id), ..row(new, key.clone()) };
        let insert = batches::Entity::insert(row).on_conflict_do_nothing_on([Column::IdempotencyKey]);
        if let TryInsertResult::Inserted(1..) = insert.exec_without_returning(tx).await? {
            let made = batches::Entity::find_by_id(id).one(tx).await?.ok_or_else(vanished)?;
            return Ok(Some((made.try_into()?, true)));
        }
    }
    let Some(key) = key else { return Ok(None) };
    let known = batches::Entity::find().filter(Column::IdempotencyKey.eq(key)).one(tx).await?;
    known.map(|it| Ok((same(it, &hash)?, false))).transpose()
}

/// The batch of a key, if that stands for the same request.
fn same(row: batches::Model, request_hash: &str) -> Result<Batch, Error> {
    if row.request_hash.as_deref() != Some(request_hash) {
        return Err(Error::KeyReused);
    }
    row.try_into()
}

pub(super) fn is_open() -> sea_orm::sea_query::SimpleExpr {
    Column::Status.is_in(BatchStatus::OPEN.map(BatchStatus::as_str))
}

fn vanished() -> Error {
    Error::Database("a batch was made and is not there".to_owned())
}

fn row(new: NewBatch, key: Option<String>) -> batches::ActiveModel {
    let now = time::now();
    batches::ActiveModel {
        tenant: Set(plain(&new.tenant)),
        author: Set(plain(&new.author)),
        endpoint: Set(plain(&new.endpoint)),
        input_file: Set(new.input_file),
        completion_window: Set(plain(&new.completion_window)),
        metadata: Set(new.metadata.to_string()),
        output_seconds: Set(new.output_seconds.map(signed)),
        reuse: Set(new.reuse),
        max_micro_usd: Set(new.max_micro_usd.map(signed)),
        window: Set(signed(new.window)),
        item_seconds: Set(new.item_seconds.map(signed)),
        priority: Set(new.priority.rank().into()),
        status: Set(BatchStatus::Validating.to_string()),
        validated: Set(0),
        lines: Set(0),
        total: Set(0),
        counts: Set(Counts::default().to_string()),
        done: Set(0),
        input_tokens: Set(0),
        output_tokens: Set(0),
        micro_usd: Set(0),
        idempotency_key: Set(key),
        request_hash: Set(Some(plain(&new.request_hash))),
        kept_until: Set(0),
        created_at: Set(now),
        expires_at: Set(now.saturating_add(time::span(Duration::from_secs(new.seconds)))),
        ..Default::default()
    }
}

impl TryFrom<batches::Model> for Batch {
    type Error = Error;

    fn try_from(row: batches::Model) -> Result<Self, Error> {
        let id = row.id;
        let unread = |what: &str, error: &dyn std::fmt::Display| {
            Error::Database(format!("batch {id}: {what}: {error}"))
        };
        let at = BatchTimes {
            created: row.created_at,
            in_progress: row.in_progress_at,
            expires: row.expires_at,
            finalizing: row.finalizing_at,
            completed: row.completed_at,
            failed: row.failed_at,
            expired: row.expired_at,
            cancelling: row.cancelling_at,
            cancelled: row.cancelled_at,
        };
        let stopped: Option<Stopped> =
            row.stopped.map(|it| it.parse()).transpose().map_err(|error| unread("why it stopped", &error))?;
        let status: BatchStatus = row.status.parse().map_err(|error| unread("its status", &error))?;
        Ok(Self {
            id,
            tenant: row.tenant,
            author: row.author,
            endpoint: row.endpoint,
            input_file: row.input_file,
            completion_window: row.completion_window,
            metadata: serde_json::from_str(&row.metadata).map_err(|error| unread("its metadata", &error))?,
            output_seconds: row.output_seconds.map(unsigned).transpose()?,
            reuse: row.reuse,
            max_micro_usd: row.max_micro_usd.map(unsigned).transpose()?,
            window: unsigned(row.window)?,
            item_seconds: row.item_seconds.map(unsigned).transpose()?,
            priority: Priority::ranked(row.priority.into())
                .ok_or_else(|| unread("its priority is unknown", &row.priority))?,
            status,
            stopped: stopped.filter(|_| status.is_open()),
            fault: row.fault,
            validated: u32::try_from(row.validated).map_err(|error| unread("its place", &error))?,
            lines: unsigned(row.lines)?,
            total: unsigned(row.total)?,
            counts: row.counts.parse().map_err(|error| unread("its counts", &error))?,
            done: unsigned(row.done)?,
            input_tokens: unsigned(row.input_tokens)?,
            output_tokens: unsigned(row.output_tokens)?,
            micro_usd: unsigned(row.micro_usd)?,
            output_file: row.output_file,
            error_file: row.error_file,
            at,
            kept_until: row.kept_until,
        })
    }
}
