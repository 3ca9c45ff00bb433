//! Appending to a log: all events of a step or none, numbered from the head that the writer last saw.
//!
//! ## Why one statement
//!
//! A single statement is atomic, so a step that changes no status needs no transaction and only one round trip. The
//! text for PostgreSQL does not depend on the number of events, so each connection prepares it once.
//!
//! ## Why a deleted thread stays deleted
//!
//! Deleting a thread's events also deletes the fence ([`Store::prune`]): a writer that was suspended meanwhile would
//! find every number free. But only an idle thread is deleted, and the first step of a turn updates the thread's row.
//! Without the row, the step is rejected. Reading the row at every step as well would add a seventh to the insert.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter, QuerySelect, SqlErr,
    Statement, Value,
};
use shared::{Event, Outcome, is_readable_event};

use crate::{
    Error,
    integrity::hash_chain,
    log::{
        Store, cancel_requests,
        error_fingerprint::error_fingerprint,
        group_commit::Step,
        ids::{ThreadId, TurnId, corrupt, plain, signed},
        pool::Transaction,
        postgres,
        status::{ThreadStatus, TurnStatus},
        tables::{threads, turns},
    },
};

/// The head of a log: the number of its next event, and the hash that this event is chained to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Number of the next event.
    pub seq: u64,
    /// Hash of the last event; zeros if there is none.
    pub hash: [u8; 32],
}

impl Head {
    /// Returns the head of an empty log.
    pub fn start(thread: ThreadId) -> Self {
        Self { thread, seq: 0, hash: hash_chain::START }
    }
}

/// A change of the read model, written in the same transaction as the events that cause it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadModelUpdate {
    /// New status of the thread.
    pub status: ThreadStatus,
    /// New status of a turn, if it changed.
    pub turn: Option<TurnUpdate>,
}

/// A change of a turn's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnUpdate {
    /// Id of the turn.
    pub turn: TurnId,
    /// New status of the turn.
    pub status: TurnStatus,
    /// Error of a failed turn.
    pub error: Option<String>,
    /// Outcome of a completed turn.
    pub outcome: Option<Outcome>,
}

impl TurnUpdate {
    /// Returns the cause by which turns are counted.
    pub(crate) fn cause(&self) -> Option<String> {
        cause(self.error.as_deref(), self.outcome.as_ref())
    }

    /// Returns the name of the outcome.
    pub fn outcome(&self) -> Option<&'static str> {
        self.outcome.as_ref().map(|outcome| outcome.kind.name())
    }
}

/// Returns the error of a failed turn without the parts that differ between occurrences, or the causes of an outcome.
pub(crate) fn cause(error: Option<&str>, outcome: Option<&Outcome>) -> Option<String> {
    let outcome = || outcome.filter(|outcome| !outcome.is_answered());
    error.map(error_fingerprint).or_else(|| outcome().map(|outcome| plain(&outcome.cause())))
}

impl Store {
    /// Appends all `events` or none, and returns the new head. The read model changes in the same transaction.
    ///
    /// An append that has begun completes even if the caller stops waiting.
    ///
    /// **Invariant:** a turn starts once. If `events` contain the event that starts the turn of `update`, the turn
    /// must still be queued, or nothing is kept.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if `head` is no longer the head of the log, or the turn was started or cancelled before;
    /// [`Error::CancelRequested`] if the running turn of the thread is to be cancelled and no event does so;
    /// [`Error::UnknownThread`] if there is an `update` and the thread was deleted; [`Error::Unavailable`] if the
    /// database was unreachable for 20 s.
    #[tracing::instrument(level = "debug", skip_all, fields(thread = %head.thread, seq = head.seq))]
    pub async fn append(
        &self,
        head: &Head,
        events: &[Event],
        update: Option<&ReadModelUpdate>,
    ) -> Result<Head, Error> {
        let batch = Batch::new(head, events, clock::now())?;
        let end = batch.end;
        if batch.is_empty() {
            return Ok(end);
        }
        let step = Step::new(batch, events, update);
        if events.iter().any(|event| matches!(event, Event::Cancelled(_))) {
            self.database.transact(move |tx| write_cancelled(tx, step).boxed()).await?;
        } else {
            self.committer.submit(step).await.ok_or_else(Error::gone)??;
        }
        Ok(end)
    }

    /// Changes the read model without appending.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if `head` is not the head of the log.
    pub async fn update_read_model(&self, head: &Head, update: &ReadModelUpdate) -> Result<(), Error> {
        let (head, update) = (*head, update.clone());
        self.database.transact(move |tx| write_update(tx, head, update).boxed()).await
    }
}

/// Writes a step that cancels the running turn, and deletes the request to do so.
async fn write_cancelled(tx: &Transaction, step: Step) -> Result<(), Error> {
    cancel_requests::delete(tx, step.batch.from.thread).await?;
    match &step.update {
        Some(update) => write_one(tx, &step.batch, step.started, update).await,
        None => Batch::insert(tx, &[&step.batch]).await,
    }
}

async fn write_update(tx: &Transaction, head: Head, update: ReadModelUpdate) -> Result<(), Error> {
    lock_thread(tx, &head).await?;
    write_read_model(tx, &head, &head, None, &update).await
}

/// Writes one step and returns the exact reason if it is rejected.
pub(crate) async fn write_one(
    tx: &Transaction,
    batch: &Batch,
    started: Option<u64>,
    update: &ReadModelUpdate,
) -> Result<(), Error> {
    Batch::insert(tx, &[batch]).await?;
    write_read_model(tx, &batch.from, &batch.end, started, update).await
}

async fn write_read_model(
    tx: &Transaction,
    from: &Head,
    end: &Head,
    started: Option<u64>,
    update: &ReadModelUpdate,
) -> Result<(), Error> {
    let row = threads::ActiveModel {
        status: Set(update.status.to_string()),
        updated_at: Set(clock::now()),
        ..Default::default()
    };
    let of_thread = threads::Entity::update_many().set(row).filter(threads::Column::Id.eq(from.thread));
    if of_thread.exec(tx).await?.rows_affected == 0 {
        return Err(Error::UnknownThread(from.thread));
    }
    match &update.turn {
        Some(turn) => write_turn(tx, from, end, started, turn).await,
        None => Ok(()),
    }
}

/// Verifies that `head` is the head of the log, and locks the thread's row until the transaction ends.
pub(crate) async fn lock_thread(tx: &Transaction, head: &Head) -> Result<(), Error> {
    threads::Entity::find_by_id(head.thread).lock_exclusive().one(tx).await?;
    let end = crate::log::read::head(tx, head.thread).await?;
    if end == *head { Ok(()) } else { Err(Error::Stale { thread: head.thread, seq: head.seq }) }
}

async fn write_turn(
    tx: &Transaction,
    from: &Head,
    end: &Head,
    started: Option<u64>,
    update: &TurnUpdate,
) -> Result<(), Error> {
    let last = end.seq.checked_sub(1).map(signed);
    let mut row = turns::ActiveModel {
        status: Set(update.status.to_string()),
        error: Set(update.error.as_deref().map(plain)),
        outcome: Set(update.outcome().map(str::to_owned)),
        cause: Set(update.cause()),
        ended_seq: Set(last.filter(|_| update.status.is_over())),
        updated_at: Set(clock::now()),
        ..Default::default()
    };
    let mut row_filter = turns::Entity::update_many()
        .filter(turns::Column::Id.eq(update.turn))
        .filter(turns::Column::ThreadId.eq(from.thread));
    if let Some(started) = started {
        row.started_seq = Set(Some(signed(started)));
        row_filter = row_filter.filter(turns::Column::Status.eq(TurnStatus::Queued.as_str()));
    }
    if row_filter.set(row).exec(tx).await?.rows_affected == 1 {
        return Ok(());
    }
    let known = turns::Entity::find().filter(turns::Column::Id.eq(update.turn)).one(tx).await?;
    match known {
        Some(_) => Err(Error::Stale { thread: from.thread, seq: from.seq }),
        None => Err(Error::UnknownTurn(update.turn)),
    }
}

/// The events of one append, numbered and chained.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) from: Head,
    pub(crate) end: Head,
    pub(crate) at: i64,
    pub(crate) rows: Vec<Row>,
}

/// The columns of one event.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) kind: &'static str,
    pub(crate) payload: String,
    pub(crate) hash: [u8; 32],
}

impl Batch {
    /// Numbers the events, sets their time and computes their hashes.
    pub(crate) fn new(head: &Head, events: &[Event], at: i64) -> Result<Self, Error> {
        let mut this = Self { from: *head, end: *head, at, rows: Vec::with_capacity(events.len()) };
        for event in events {
            let kind = event.kind();
            let payload = event.payload().map_err(|error| {
                corrupt(
                    head.thread,
                    format_args!("its next event, {kind:?}, cannot be encoded as JSON: {error}"),
                )
            })?;
            if !is_readable_event(&payload) {
                return Err(Error::ContentRejected(format!(
                    "the next event, {kind:?}, is nested so deep that it could not be read again"
                )));
            }
            this.end.hash = hash_chain::link(&this.end.hash, this.end.seq, at, kind, &payload);
            this.end.seq += 1;
            this.rows.push(Row { kind, payload, hash: this.end.hash });
        }
        Ok(this)
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Inserts the events of several threads, at most one batch per thread. More than one statement needs a
    /// transaction.
    pub(crate) async fn insert(db: &impl ConnectionTrait, batches: &[&Batch]) -> Result<(), Error> {
        // The database does not say which of several threads caused the rejection.
        let Some(Head { thread, seq, .. }) = batches.first().map(|batch| batch.from) else { return Ok(()) };
        let rows: Vec<_> = batches.iter().flat_map(|batch| batch.numbered()).collect();
        let statements: Vec<_> = if db.get_database_backend() == DbBackend::Postgres {
            rows.chunks(ROWS_MAX).map(for_postgres).collect()
        } else {
            rows.chunks(SQLITE_ROWS_MAX).map(for_sqlite).collect()
        };
        for statement in statements {
            db.execute_raw(statement).await.map_err(|error| match error.sql_err() {
                Some(SqlErr::UniqueConstraintViolation(_)) => Error::Stale { thread, seq },
                _ => error.into(),
            })?;
        }
        Ok(())
    }

    /// Returns the rows with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (&Batch, u64, &Row)> {
        (self.from.seq..).zip(&self.rows).map(move |(seq, row)| (self, seq, row))
    }
}

/// Maximum events per insert statement in PostgreSQL.
pub(crate) const ROWS_MAX: usize = 5_000;

/// Maximum events per insert statement in SQLite, where the SQL text depends on the number of rows. Most statements
/// have this size and are prepared once per connection; none exceeds SQLite's limit of bound values.
const SQLITE_ROWS_MAX: usize = 250;

fn for_postgres(rows: &[(&Batch, u64, &Row)]) -> Statement {
    let (mut threads, mut ats, mut seqs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut kinds, mut payloads, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
    for (batch, seq, row) in rows {
        threads.push(batch.from.thread);
        ats.push(batch.at);
        seqs.push(signed(*seq));
        kinds.push(row.kind.to_owned());
        payloads.push(row.payload.clone());
        hashes.push(row.hash.to_vec());
    }
    let values = [threads.into(), ats.into(), seqs.into(), kinds.into(), payloads.into(), hashes.into()];
    Statement::from_sql_and_values(DbBackend::Postgres, postgres::INSERT, values)
}

/// SQLite has no arrays. Passing rows as JSON, whose payloads are JSON already, costs more than preparing a new text.
fn for_sqlite(rows: &[(&Batch, u64, &Row)]) -> Statement {
    const ROW: &str = ", (?, ?, 'json', ?, ?, ?, ?)";
    let mut values: Vec<Value> = Vec::with_capacity(rows.len() * 6);
    for (batch, seq, row) in rows {
        values.extend([batch.from.thread.into(), batch.at.into(), signed(*seq).into(), row.kind.into()]);
        values.extend([row.payload.as_str().into(), row.hash.to_vec().into()]);
    }
    let rows = ROW.repeat(rows.len());
    let rows = rows.trim_start_matches(", ");
    let sql = format!("INSERT INTO events (thread_id, at, codec, seq, kind, payload, hash) VALUES {rows}");
    Statement::from_sql_and_values(DbBackend::Sqlite, sql, values)
}
