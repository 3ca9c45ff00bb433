//! The one write there is to a log: all of a step's events or none, numbered from where the writer believes
//! the log to end.
//!
//! ## Why one statement
//!
//! It is all or nothing by itself, so steps that change no status need no transaction around them, and one round trip.
//! PostgreSQL's text does not depend on how many events there are, and is prepared once a connection.
//!
//! ## Why a deleted thread stays deleted
//!
//! With a thread's events goes the fence ([`Store::prune`]): a writer that slept through it would find every number free.
//! But only a thread at rest is deleted, and the first step of a turn marks the thread's row: no row, no step. To look
//! for the row at every step as well would cost a seventh of the insert.

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, EntityTrait, QueryFilter,
    QuerySelect, SqlErr, Statement, Value,
};
use shared::Event;

use super::{
    Store, ThreadId, ThreadStatus, TurnId, TurnStatus,
    cause::cause,
    chain,
    commit::Step,
    corrupt, plain, postgres, signed,
    tables::{threads, turns},
};
use crate::{Error, time};

/// The end of a log: the number of the next event, and the hash that it will be chained to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Whose log.
    pub thread: ThreadId,
    /// The number of the next event.
    pub seq: u64,
    /// The hash of the last event, or zeros.
    pub hash: [u8; 32],
}

impl Head {
    /// The end of a log that has no event yet.
    pub fn start(thread: ThreadId) -> Self {
        Self { thread, seq: 0, hash: chain::START }
    }
}

/// What the read model says once the events are appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Where the thread stands.
    pub status: ThreadStatus,
    /// How far its turn has come, if that changed.
    pub turn: Option<TurnMark>,
}

/// How far a turn has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnMark {
    /// Which turn.
    pub turn: TurnId,
    /// How far.
    pub status: TurnStatus,
    /// Why it failed.
    pub error: Option<String>,
}

impl TurnMark {
    /// Why it failed, in words by which failures can be counted.
    pub(super) fn cause(&self) -> Option<String> {
        self.error.as_deref().map(cause)
    }
}

impl Store {
    /// Appends all of `events` or none, and returns the new end. With a mark, the read model changes in the
    /// same transaction.
    ///
    /// What has begun is carried through, even if the caller does not wait for it.
    ///
    /// **Invariant:** a turn is heard once. If `events` hold the `heard` or the `supplied` of the marked turn, the turn must
    /// still be queued, or nothing is kept.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if `head` is not the end of the log any more, or the turn was heard or withdrawn
    /// before; [`Error::UnknownThread`] if there is a mark and the thread was deleted; [`Error::Unavailable`] if the
    /// database stayed away for long.
    #[tracing::instrument(level = "debug", skip_all, fields(thread = %head.thread, seq = head.seq))]
    pub async fn append(&self, head: &Head, events: &[Event], mark: Option<&Mark>) -> Result<Head, Error> {
        let batch = Batch::new(head, events, time::now())?;
        let end = batch.end;
        if batch.is_empty() {
            return Ok(end);
        }
        self.committer.bring(Step::new(batch, events, mark)).await.ok_or_else(Error::gone)??;
        Ok(end)
    }

    /// Changes the read model alone, if `head` is the end of the log.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if it is not.
    pub async fn mend(&self, head: &Head, mark: &Mark) -> Result<(), Error> {
        let (head, mark) = (*head, mark.clone());
        self.database.transact(move |tx| mend(tx, head, mark).boxed()).await
    }
}

async fn mend(tx: &DatabaseTransaction, head: Head, mark: Mark) -> Result<(), Error> {
    hold(tx, &head).await?;
    mark_alone(tx, &head, &head, None, &mark).await
}

/// Writes one step, and says exactly why it cannot be written.
pub(super) async fn alone(
    tx: &DatabaseTransaction,
    batch: &Batch,
    heard: Option<u64>,
    mark: &Mark,
) -> Result<(), Error> {
    Batch::insert(tx, &[batch]).await?;
    mark_alone(tx, &batch.from, &batch.end, heard, mark).await
}

async fn mark_alone(
    tx: &DatabaseTransaction,
    from: &Head,
    end: &Head,
    heard: Option<u64>,
    mark: &Mark,
) -> Result<(), Error> {
    let row = threads::ActiveModel {
        status: Set(mark.status.to_string()),
        updated_at: Set(time::now()),
        ..Default::default()
    };
    let of_thread = threads::Entity::update_many().set(row).filter(threads::Column::Id.eq(from.thread));
    if of_thread.exec(tx).await?.rows_affected == 0 {
        return Err(Error::UnknownThread(from.thread));
    }
    match &mark.turn {
        Some(turn) => mark_turn(tx, from, end, heard, turn).await,
        None => Ok(()),
    }
}

/// Makes sure that `head` is the end of the log, and stays so for whoever marks next: they wait for the row.
pub(super) async fn hold(tx: &DatabaseTransaction, head: &Head) -> Result<(), Error> {
    threads::Entity::find_by_id(head.thread).lock_exclusive().one(tx).await?;
    let end = super::read::head(tx, head.thread).await?;
    if end == *head { Ok(()) } else { Err(Error::Stale { thread: head.thread, seq: head.seq }) }
}

async fn mark_turn(
    tx: &DatabaseTransaction,
    from: &Head,
    end: &Head,
    heard: Option<u64>,
    mark: &TurnMark,
) -> Result<(), Error> {
    let last = end.seq.checked_sub(1).map(signed);
    let mut row = turns::ActiveModel {
        status: Set(mark.status.to_string()),
        error: Set(mark.error.as_deref().map(plain)),
        cause: Set(mark.cause()),
        ended_seq: Set(last.filter(|_| mark.status.is_over())),
        updated_at: Set(time::now()),
        ..Default::default()
    };
    let mut which = turns::Entity::update_many()
        .filter(turns::Column::Id.eq(mark.turn))
        .filter(turns::Column::ThreadId.eq(from.thread));
    if let Some(heard) = heard {
        row.heard_seq = Set(Some(signed(heard)));
        which = which.filter(turns::Column::Status.eq(TurnStatus::Queued.as_str()));
    }
    if which.set(row).exec(tx).await?.rows_affected == 1 {
        return Ok(());
    }
    let known = turns::Entity::find().filter(turns::Column::Id.eq(mark.turn)).one(tx).await?;
    match known {
        Some(_) => Err(Error::Stale { thread: from.thread, seq: from.seq }),
        None => Err(Error::UnknownTurn(mark.turn)),
    }
}

/// One thread's events on their way into the log.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) from: Head,
    pub(super) end: Head,
    pub(super) at: i64,
    pub(super) rows: Vec<Row>,
}

/// An event as the table has it.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) kind: &'static str,
    pub(super) payload: String,
    pub(super) hash: [u8; 32],
}

impl Batch {
    /// Numbers, stamps and chains the events.
    pub(super) fn new(head: &Head, events: &[Event], at: i64) -> Result<Self, Error> {
        let mut this = Self { from: *head, end: *head, at, rows: Vec::with_capacity(events.len()) };
        for event in events {
            let kind = event.kind();
            let payload = event.payload().map_err(|error| {
                corrupt(head.thread, format_args!("its next {kind:?} has no JSON: {error}"))
            })?;
            this.end.hash = chain::link(&this.end.hash, this.end.seq, at, kind, &payload);
            this.end.seq += 1;
            this.rows.push(Row { kind, payload, hash: this.end.hash });
        }
        Ok(this)
    }

    fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Inserts all events of all of them, within a transaction if that takes more than one statement. No two are of one
    /// thread.
    pub(super) async fn insert(db: &impl ConnectionTrait, batches: &[&Batch]) -> Result<(), Error> {
        // Of several nobody knows which was refused.
        let Some(Head { thread, seq, .. }) = batches.first().map(|it| it.from) else { return Ok(()) };
        let rows: Vec<_> = batches.iter().flat_map(|it| it.numbered()).collect();
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

    /// Its rows with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (&Batch, u64, &Row)> {
        (self.from.seq..).zip(&self.rows).map(move |(seq, row)| (self, seq, row))
    }
}

/// How many events one statement inserts at most.
pub(crate) const ROWS_MAX: usize = 5_000;

/// How many of them in SQLite, whose text depends on how many there are: so most statements are this one, which a
/// connection prepares once, and none takes more values than SQLite allows.
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

/// SQLite has no arrays. To pass rows as JSON, whose payloads are JSON already, costs more than to prepare a text anew.
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
