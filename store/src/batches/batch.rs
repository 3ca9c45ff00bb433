//! Creation and lookup of batches.

use std::time::Duration;

use futures::FutureExt as _;
use queue::{Priority, clock};
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, QueryTrait as _, TryInsertResult,
};
use serde_json::Value;
use shared::CallerId;

use super::{
    BatchId, BatchStatus, Counts, FileId, ItemState, StopReason,
    common_model::CommonModel,
    files::is_readable,
    tables::{batches, batches::Column},
};
use crate::{
    Error, Idempotency, Order, Store,
    log::{
        Transaction, at_most,
        caller_column::{caller_of, caller_text},
        key_of, plain,
        replanned::Replanned,
        signed, unsigned,
    },
};

/// Parameters of a new batch.
#[derive(Clone, Debug, PartialEq)]
pub struct NewBatch {
    /// Tenant that owns the batch.
    pub tenant: String,
    /// Author of the request.
    pub author: String,
    /// Authenticated author; `None` if no key was required.
    pub caller: Option<CallerId>,
    /// Span of the client, of which the turns of the batch are children in traces.
    pub trace_parent: Option<String>,
    /// True if an operator who acts for no tenant creates the batch. Its lines may exceed the bounds of tenants.
    pub by_operator: bool,
    /// Endpoint that every line is sent to.
    pub endpoint: String,
    /// Id of the input file.
    pub input_file: FileId,
    /// Time limit for the batch, as the client wrote it.
    pub completion_window: String,
    /// Time limit for the batch, in seconds.
    pub seconds: u64,
    /// Metadata from the client: a JSON object.
    pub metadata: Value,
    /// Lifetime of the result files, in seconds; without it they are kept until they are deleted.
    pub output_seconds: Option<u64>,
    /// True if an earlier result of an identical line is reused.
    pub reuse: bool,
    /// Budget of the batch, in millionths of a US dollar.
    pub max_micro_usd: Option<u64>,
    /// Maximum number of lines in progress at once.
    pub window: u64,
    /// Time limit for one line, in seconds.
    pub item_seconds: Option<u64>,
    /// Priority of the batch's turns.
    pub priority: Priority,
    /// Hash of the request that creates the batch.
    pub request_hash: String,
    /// Identification of a repeated request.
    pub known_by: KnownBy,
}

/// Identification of a repeated request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownBy {
    /// None: every request creates a batch.
    Nothing,
    /// Idempotency key from the client.
    Key(String),
    /// Content of the request: the client marks it as a retry but sent no key, and it received no answer before.
    Content,
}

/// Period during which clients retry an unanswered request. OpenAI's clients wait ten minutes for an answer and retry
/// twice.
const SENT_AGAIN_WITHIN: Duration = Duration::from_mins(30);

/// One batch, as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Id of the batch.
    pub id: BatchId,
    /// Tenant that owns the batch.
    pub tenant: String,
    /// Author of the batch.
    pub author: String,
    /// Authenticated author; `None` if no key was required.
    pub caller: Option<CallerId>,
    /// Span of the client, of which the turns of the batch are children in traces.
    pub trace_parent: Option<String>,
    /// True if an operator who acts for no tenant created the batch.
    pub by_operator: bool,
    /// Endpoint that every line is sent to.
    pub endpoint: String,
    /// Id of the input file.
    pub input_file: FileId,
    /// Time limit for the batch, as the client wrote it.
    pub completion_window: String,
    /// Metadata from the client.
    pub metadata: Value,
    /// Lifetime of the result files, in seconds.
    pub output_seconds: Option<u64>,
    /// True if an earlier result of an identical line is reused.
    pub reuse: bool,
    /// Budget of the batch, in millionths of a US dollar.
    pub max_micro_usd: Option<u64>,
    /// Maximum number of lines in progress at once.
    pub window: u64,
    /// Time limit for one line, in seconds.
    pub item_seconds: Option<u64>,
    /// Priority of the batch's turns.
    pub priority: Priority,
    /// Current status of the batch.
    pub status: BatchStatus,
    /// Reason why an open batch starts no further items.
    pub stopped: Option<StopReason>,
    /// Error that failed the batch as a whole.
    pub fault: Option<String>,
    /// Index of the next chunk of the input file to validate.
    pub validated: u32,
    /// Number of lines in the chunks validated so far.
    pub lines: u64,
    /// Number of items in the batch.
    pub total: u64,
    /// Number of items in each state.
    pub counts: Counts,
    /// Number of the latest result.
    pub done: u64,
    /// Input tokens used by the batch's turns, as far as known.
    pub input_tokens: u64,
    /// Output tokens used by the batch's turns, as far as known.
    pub output_tokens: u64,
    /// Cost of the batch's turns, in millionths of a US dollar, as far as known.
    pub micro_usd: u64,
    /// Model that answered all lines so far; `None` if none did, or several.
    pub model: Option<String>,
    /// File of the successful results.
    pub output_file: Option<FileId>,
    /// File of the errors.
    pub error_file: Option<FileId>,
    /// Times of the status changes, in microseconds since the Unix epoch.
    pub at: BatchTimes,
    /// Expiry of the coordinator's lease, in microseconds since the Unix epoch.
    pub lease_expires_at: i64,
}

/// Times of a batch's status changes, in microseconds since the Unix epoch.
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
    /// Returns the number of items that failed. Cancelled items count, unless the whole batch was cancelled.
    pub fn failed(&self) -> u64 {
        let one_by_one = if self.at.cancelling.is_none() { self.counts.of(ItemState::Cancelled) } else { 0 };
        self.counts.failed() + one_by_one
    }
}

impl Store {
    /// Creates a batch, and returns it with `true` if it is new. A repeated request returns the existing batch, even if
    /// its input file has been deleted. Returns `None` if the input file of a new batch cannot be read.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another request.
    pub async fn make_batch(&self, new: NewBatch) -> Result<Option<(Batch, bool)>, Error> {
        self.database.transact(move |tx| make(tx, new).boxed()).await
    }

    /// Returns the batch that was created from this file with this key, for one tenant or any, even if the file has
    /// been deleted.
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
            .apply_if(tenant, |rows, tenant| rows.filter(Column::Tenant.eq(tenant)));
        let mut rows = rows.all(&self.database.pool).await?.into_iter();
        let row = rows.find(|row| row.idempotency_key == Some(key_of(&row.tenant, &idempotency.key)));
        row.map(|row| same(row, &plain(&idempotency.request_hash))).transpose()
    }

    /// Returns a batch, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn batch(&self, id: BatchId) -> Result<Option<Batch>, Error> {
        batches::Entity::find_by_id(id).one(&self.database.pool).await?.map(Batch::try_from).transpose()
    }

    /// Returns at most `limit` batches that follow batch `after` in this order, for one tenant or for all.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn batches(
        &self,
        tenant: Option<&str>,
        order: Order,
        after: Option<BatchId>,
        limit: u64,
    ) -> Result<Vec<Batch>, Error> {
        let rows =
            batches::Entity::find().apply_if(tenant, |rows, tenant| rows.filter(Column::Tenant.eq(tenant)));
        let rows = order.page(rows, Column::Id, after).limit(at_most(limit));
        rows.all(&Replanned(&self.database.pool)).await?.into_iter().map(Batch::try_from).collect()
    }
}

async fn make(tx: &Transaction, new: NewBatch) -> Result<Option<(Batch, bool)>, Error> {
    let hash = plain(&new.request_hash);
    let key = match &new.known_by {
        KnownBy::Nothing => None,
        KnownBy::Key(key) => Some(key_of(&new.tenant, key)),
        KnownBy::Content => {
            let known = batches::Entity::find()
                .filter(Column::InputFile.eq(new.input_file))
                .filter(Column::Tenant.eq(plain(&new.tenant)))
                .filter(Column::RequestHash.eq(&hash))
                .filter(
                    Column::CreatedAt
                        .gte(clock::now().saturating_sub(clock::duration_micros(SENT_AGAIN_WITHIN))),
                )
                .order_by_desc(Column::Id);
            if let Some(known) = known.one(tx).await? {
                return Ok(Some((known.try_into()?, false)));
            }
            None
        }
    };
    if is_readable(tx, new.input_file).await? {
        let id = clock::new_id();
        let row = batches::ActiveModel { id: Set(id), ..row(new, key.clone()) };
        let insert = batches::Entity::insert(row).on_conflict_do_nothing_on([Column::IdempotencyKey]);
        if let TryInsertResult::Inserted(1..) = insert.exec_without_returning(tx).await? {
            let made = batches::Entity::find_by_id(id).one(tx).await?.ok_or_else(vanished)?;
            return Ok(Some((made.try_into()?, true)));
        }
    }
    let Some(key) = key else { return Ok(None) };
    let known = batches::Entity::find().filter(Column::IdempotencyKey.eq(key)).one(tx).await?;
    known.map(|batch| Ok((same(batch, &hash)?, false))).transpose()
}

/// Returns the batch of a key if it was created by the same request.
fn same(row: batches::Model, request_hash: &str) -> Result<Batch, Error> {
    if row.request_hash.as_deref() != Some(request_hash) {
        return Err(Error::KeyReused);
    }
    row.try_into()
}

pub(crate) fn is_open() -> sea_orm::sea_query::SimpleExpr {
    Column::Status.is_in(BatchStatus::OPEN.map(BatchStatus::as_str))
}

fn vanished() -> Error {
    Error::Database("a created batch cannot be found".to_owned())
}

fn row(new: NewBatch, key: Option<String>) -> batches::ActiveModel {
    let now = clock::now();
    batches::ActiveModel {
        tenant: Set(plain(&new.tenant)),
        author: Set(plain(&new.author)),
        caller: Set(new.caller.as_ref().map(caller_text)),
        trace_parent: Set(new.trace_parent),
        by_operator: Set(new.by_operator),
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
        lease_expires_at: Set(0),
        created_at: Set(now),
        expires_at: Set(now.saturating_add(clock::duration_micros(Duration::from_secs(new.seconds)))),
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
        let stopped: Option<StopReason> = row
            .stopped
            .map(|text| text.parse())
            .transpose()
            .map_err(|error| unread("its reason for stopping is unknown", &error))?;
        let status: BatchStatus = row.status.parse().map_err(|error| unread("its status", &error))?;
        Ok(Self {
            id,
            tenant: row.tenant,
            author: row.author,
            caller: caller_of(row.caller.as_deref()).map_err(|error| unread("its caller", &error))?,
            trace_parent: row.trace_parent,
            by_operator: row.by_operator,
            endpoint: row.endpoint,
            input_file: row.input_file,
            completion_window: row.completion_window,
            metadata: serde_json::from_str(&row.metadata).map_err(|error| unread("its metadata", &error))?,
            output_seconds: row.output_seconds.map(unsigned).transpose()?,
            reuse: row.reuse,
            max_micro_usd: row.max_micro_usd.map(unsigned).transpose()?,
            window: unsigned(row.window)?,
            item_seconds: row.item_seconds.map(unsigned).transpose()?,
            priority: Priority::from_rank(row.priority.into())
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
            model: CommonModel::of_column(row.model).one(),
            output_file: row.output_file,
            error_file: row.error_file,
            at,
            lease_expires_at: row.lease_expires_at,
        })
    }
}
