//! The one write there is to a log: all of a step's events or none, numbered from where the writer believes
//! the log to end.
//!
//! ## Why one statement of constant text
//!
//! One statement is all or nothing by itself, so a step that changes no status needs no transaction around
//! it, and one round trip. A text that does not depend on how many events there are is prepared once a
//! connection.

use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbBackend, EntityTrait, QueryFilter,
    QuerySelect, SqlErr, Statement,
};
use shared::Event;
use tracing::Instrument as _;

use super::{
    Store, ThreadId, ThreadStatus, TurnId, TurnStatus, chain, corrupt, plain, settle, signed,
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

impl Store {
    /// Appends all of `events` or none, and returns the new end. With a mark, the read model changes in the
    /// same transaction; a mark without events mends a read model, if `head` is still the end.
    ///
    /// **Invariant:** a turn is heard once. If `events` hold the `heard` or the `supplied` of the marked turn, the turn must
    /// still be queued, or nothing is kept.
    ///
    /// # Errors
    ///
    /// [`Error::Stale`] if `head` is not the end of the log any more, or the turn was heard or withdrawn
    /// before.
    #[tracing::instrument(level = "debug", skip_all, fields(thread = %head.thread, seq = head.seq))]
    pub async fn append(&self, head: &Head, events: &[Event], mark: Option<&Mark>) -> Result<Head, Error> {
        let batch = Batch::new(head, events, time::now())?;
        let end = batch.end;
        if batch.is_empty() && mark.is_none() {
            return Ok(end);
        }
        // **Invariant:** a write that has begun is carried through in a task of its own, whatever becomes of whoever
        // waits for it. Dropped half way, it would leave a transaction open on a connection that others use next.
        let (store, events, mark) = (self.clone(), events.to_vec(), mark.cloned());
        let written = tokio::spawn(
            async move { store.carry_through(batch, &events, mark.as_ref()).await }.in_current_span(),
        );
        written.await.map_err(|error| Error::Unavailable(format!("the write was broken off: {error}")))??;
        Ok(end)
    }

    async fn carry_through(&self, batch: Batch, events: &[Event], mark: Option<&Mark>) -> Result<(), Error> {
        let _alone = self.writing().await;
        let Some(mark) = mark else {
            return batch.insert(&self.db).await;
        };
        let tx = self.begin().await?;
        let outcome = marked(&tx, batch, events, mark).await;
        settle(tx, outcome).await
    }
}

async fn marked(tx: &DatabaseTransaction, batch: Batch, events: &[Event], mark: &Mark) -> Result<(), Error> {
    let (from, end) = (batch.from, batch.end);
    if batch.is_empty() {
        hold(tx, &from).await?;
    } else {
        batch.insert(tx).await?;
    }
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
        Some(turn) => mark_turn(tx, &from, &end, events, turn).await,
        None => Ok(()),
    }
}

/// Makes sure that `head` is the end of the log, and stays so for whoever marks next: they wait for the row.
async fn hold(tx: &DatabaseTransaction, head: &Head) -> Result<(), Error> {
    threads::Entity::find_by_id(head.thread).lock_exclusive().one(tx).await?;
    let end = super::read::head(tx, head.thread).await?;
    if end == *head { Ok(()) } else { Err(Error::Stale { thread: head.thread, seq: head.seq }) }
}

async fn mark_turn(
    tx: &DatabaseTransaction,
    from: &Head,
    end: &Head,
    events: &[Event],
    mark: &TurnMark,
) -> Result<(), Error> {
    let hears = |event: &Event| match event {
        Event::Heard(it) => it.turn == mark.turn,
        Event::Supplied(it) => it.turn == mark.turn,
        Event::Opened(_)
        | Event::Asked(_)
        | Event::Attempted(_)
        | Event::Answered(_)
        | Event::Faltered(_)
        | Event::GaveUp(_)
        | Event::Doubted(_)
        | Event::Reconciled(_)
        | Event::Wanted(_)
        | Event::Decided(_)
        | Event::Failed(_)
        | Event::Retried(_)
        | Event::Cancelled(_) => false,
    };
    let heard = (from.seq..).zip(events).find(|(_, event)| hears(event)).map(|(seq, _)| signed(seq));
    let last = end.seq.checked_sub(1).map(signed);
    let mut row = turns::ActiveModel {
        status: Set(mark.status.to_string()),
        error: Set(mark.error.as_deref().map(plain)),
        ended_seq: Set(last.filter(|_| mark.status.is_over())),
        updated_at: Set(time::now()),
        ..Default::default()
    };
    let mut which = turns::Entity::update_many()
        .filter(turns::Column::Id.eq(mark.turn))
        .filter(turns::Column::ThreadId.eq(from.thread));
    if heard.is_some() {
        row.heard_seq = Set(heard);
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

/// Events on their way into the log, a vector a column.
pub(super) struct Batch {
    from: Head,
    pub(super) end: Head,
    at: i64,
    kinds: Vec<String>,
    payloads: Vec<String>,
    hashes: Vec<[u8; 32]>,
}

impl Batch {
    /// Numbers, stamps and chains the events.
    pub(super) fn new(head: &Head, events: &[Event], at: i64) -> Result<Self, Error> {
        let mut this = Self { from: *head, end: *head, at, kinds: vec![], payloads: vec![], hashes: vec![] };
        for event in events {
            let kind = event.kind();
            let payload = event.payload().map_err(|error| {
                corrupt(head.thread, format_args!("its next {kind:?} has no JSON: {error}"))
            })?;
            this.end.hash = chain::link(&this.end.hash, this.end.seq, at, kind, &payload);
            this.end.seq += 1;
            this.kinds.push(kind.to_owned());
            this.payloads.push(payload);
            this.hashes.push(this.end.hash);
        }
        Ok(this)
    }

    fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Inserts all of them or none.
    pub(super) async fn insert(self, db: &impl ConnectionTrait) -> Result<(), Error> {
        let Head { thread, seq, .. } = self.from;
        let postgres = db.get_database_backend() == DbBackend::Postgres;
        let statement = if postgres { self.for_postgres() } else { self.for_sqlite() };
        match db.execute_raw(statement).await {
            Ok(_) => Ok(()),
            Err(error) if matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_))) => {
                Err(Error::Stale { thread, seq })
            }
            Err(error) => Err(error.into()),
        }
    }

    fn for_postgres(self) -> Statement {
        let seqs: Vec<i64> = (self.from.seq..self.end.seq).map(signed).collect();
        let hashes: Vec<Vec<u8>> = self.hashes.iter().map(|it| it.to_vec()).collect();
        let values = [
            self.from.thread.into(),
            self.at.into(),
            seqs.into(),
            self.kinds.into(),
            self.payloads.into(),
            hashes.into(),
        ];
        let sql = "INSERT INTO events (thread_id, at, codec, seq, kind, payload, hash) \
                   SELECT $1, $2, 'json', seq, kind, payload, hash \
                   FROM unnest($3::bigint[], $4::text[], $5::text[], $6::bytea[]) AS it (seq, kind, payload, hash)";
        Statement::from_sql_and_values(DbBackend::Postgres, sql, values)
    }

    fn for_sqlite(self) -> Statement {
        let rows = (self.from.seq..).zip(self.kinds.iter().zip(&self.payloads).zip(&self.hashes));
        let rows: serde_json::Value = rows
            .map(|(seq, ((kind, payload), hash))| serde_json::json!([seq, kind, payload, hex::encode(hash)]))
            .collect();
        let sql = "INSERT INTO events (thread_id, at, codec, seq, kind, payload, hash) \
                   SELECT ?1, ?2, 'json', value ->> 0, value ->> 1, value ->> 2, unhex(value ->> 3) FROM json_each(?3)";
        let values = [self.from.thread.into(), self.at.into(), rows.to_string().into()];
        Statement::from_sql_and_values(DbBackend::Sqlite, sql, values)
    }
}
