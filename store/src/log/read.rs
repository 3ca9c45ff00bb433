//! Reading a log: its head, its events, the stored bytes, and the hash chain.

use std::{collections::BTreeMap, sync::Arc};

use queue::{Batcher, WhenAlone};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Statement,
    sqlx::{self, Row as _, postgres::PgRow},
};
use serde_json::json;
use shared::Event;

use crate::{
    Error,
    error::share_outcome,
    integrity::{Finding, Wrong, chain_walk::Walk},
    log::{
        Store,
        append::Head,
        database::Database,
        ids::{ThreadId, at_most, corrupt, signed, unsigned},
        pool::Pool,
        tables::events,
        thread_ranges::{Pages, Range},
    },
};

/// Encoding of the payloads that this build writes.
pub(crate) const CODEC: &str = "json";

/// An event with its number and time.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Number in the log.
    pub seq: u64,
    /// Time of the append, in microseconds since the Unix epoch.
    pub at: i64,
    /// The decoded payload.
    pub event: Event,
}

/// The stored columns of an event, byte for byte, for audits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Number in the log.
    pub seq: u64,
    /// Time of the append, in microseconds since the Unix epoch.
    pub at: i64,
    /// Type of the payload.
    pub kind: String,
    /// Encoding of the payload.
    pub codec: String,
    /// Payload in this encoding.
    pub payload: String,
    /// Hash that chains the event to all earlier ones.
    pub hash: [u8; 32],
}

/// Result of verifying the hash chain of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chain {
    /// All events up to the last are as appended. Compare `head` with a hash kept elsewhere to detect that later
    /// events were deleted.
    Intact {
        /// Number of events.
        events: u64,
        /// Hash of the last event.
        head: [u8; 32],
    },
    /// The chain is broken.
    Broken {
        /// Number of the first bad event.
        seq: u64,
        /// Description of the fault.
        what: String,
    },
}

impl Store {
    /// Returns the head of a log. Reads only its last row.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the log has no event.
    pub async fn head(&self, thread: ThreadId) -> Result<Head, Error> {
        head(&self.database.hot, thread).await
    }

    /// Returns all events of a log, and its head.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the log has no event, [`Error::Unreadable`] if this build cannot read an event.
    #[tracing::instrument(level = "debug", skip_all, fields(%thread))]
    pub async fn load(&self, thread: ThreadId) -> Result<(Head, Vec<Recorded>), Error> {
        let start = Head::start(thread);
        match self.load_since(&start).await? {
            (head, _) if head == start => Err(Error::UnknownThread(thread)),
            loaded => Ok(loaded),
        }
    }

    /// Returns the events after `head`, and the new head. Concurrent calls are batched into one query.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] if this build cannot read an event.
    pub async fn load_since(&self, head: &Head) -> Result<(Head, Vec<Recorded>), Error> {
        let wanted = Wanted { thread: head.thread, from: signed(head.seq), until: i64::MAX };
        let logs = self.loader.submit(wanted).await.ok_or_else(Error::gone)??;
        let rows = wanted.of(&logs);
        let head = match rows.last() {
            Some(last) => Head { seq: unsigned(last.seq)? + 1, hash: digest(last)?, ..*head },
            None => *head,
        };
        let log = rows.iter().map(recorded).collect::<Result<_, _>>()?;
        Ok((head, log))
    }

    /// Returns the events from number `from` up to `until`. Concurrent calls are batched into one query.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] if this build cannot read an event.
    pub(crate) async fn between(
        &self,
        thread: ThreadId,
        from: u64,
        until: u64,
    ) -> Result<Vec<Recorded>, Error> {
        let wanted = Wanted { thread, from: signed(from), until: signed(until) };
        let logs = self.loader.submit(wanted).await.ok_or_else(Error::gone)??;
        wanted.of(&logs).iter().map(recorded).collect()
    }

    /// Returns at most `limit` events after number `after`, or from the first.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] if this build cannot read an event.
    pub async fn events(
        &self,
        thread: ThreadId,
        after: Option<u64>,
        limit: u64,
    ) -> Result<Vec<Recorded>, Error> {
        let from = after.map_or(0, |seq| seq.saturating_add(1));
        self.page(thread, from, limit).await?.iter().map(recorded).collect()
    }

    /// Returns the stored columns of at most `limit` events from number `from`.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if turnfold cannot have written a row.
    pub async fn stored(&self, thread: ThreadId, from: u64, limit: u64) -> Result<Vec<Stored>, Error> {
        let rows = self.page(thread, from, limit).await?;
        let stored = |row: events::Model| {
            let (seq, hash) = (unsigned(row.seq)?, digest(&row)?);
            Ok(Stored { seq, at: row.at, kind: row.kind, codec: row.codec, payload: row.payload, hash })
        };
        rows.into_iter().map(stored).collect()
    }

    /// Verifies the hash chain of a log.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the log has no event.
    #[tracing::instrument(level = "debug", skip_all, fields(%thread))]
    pub async fn verify_chain(&self, thread: ThreadId) -> Result<Chain, Error> {
        let mut walk = Walk::new(thread, Vec::new());
        let mut pages = Pages::of(Range::of(thread, 0));
        loop {
            let page = pages.next(&self.database.pool).await?;
            if page.is_empty() {
                break;
            }
            page.iter().for_each(|row| walk.step(row));
        }
        let (events, head) = walk.end();
        if events == 0 {
            return Err(Error::UnknownThread(thread));
        }
        let broken = walk.finish().into_iter().find(|finding| finding.wrong != Wrong::Unreadable);
        Ok(match broken {
            Some(Finding { seq, what, .. }) => Chain::Broken { seq, what },
            None => Chain::Intact { events, head },
        })
    }

    async fn page(&self, thread: ThreadId, from: u64, limit: u64) -> Result<Vec<events::Model>, Error> {
        let rows = of(thread).filter(events::Column::Seq.gte(signed(from))).limit(at_most(limit));
        Ok(rows.all(&self.database.pool).await?)
    }
}

/// Batches reads of logs.
pub(crate) type Loader = Batcher<Wanted, Result<Arc<Logs>, Error>>;

/// Part of a log to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    thread: ThreadId,
    from: i64,
    until: i64,
}

impl Wanted {
    /// Returns the wanted rows. A concurrent call may have asked for a larger part of the same log.
    fn of(self, logs: &Logs) -> &[events::Model] {
        let rows = logs.get(&self.thread).map_or(&[][..], Vec::as_slice);
        let begin = rows.partition_point(|row| row.seq < self.from);
        let end = rows.partition_point(|row| row.seq <= self.until);
        rows.get(begin..end).unwrap_or_default()
    }
}

/// Rows by thread, ordered by number.
type Logs = BTreeMap<ThreadId, Vec<events::Model>>;

/// Maximum logs per query.
const LOGS: usize = 64;

/// Maximum queries in flight.
const QUERIES: usize = 2;

pub(crate) fn loader(database: &Database) -> Loader {
    let database = database.clone();
    Batcher::new(QUERIES, LOGS, WhenAlone::SendNow, move |wanted: Vec<Wanted>| {
        let database = database.clone();
        async move { share_outcome(load(&database, &wanted).await, wanted.len()) }
    })
}

async fn load(database: &Database, wanted: &[Wanted]) -> Result<Logs, Error> {
    // If two calls want parts of one log, the part that contains both is read.
    let mut parts = BTreeMap::<ThreadId, (i64, i64)>::new();
    for &Wanted { thread, from, until } in wanted {
        let part = parts.entry(thread).or_insert((from, until));
        *part = (part.0.min(from), part.1.max(until));
    }
    if let Some(pool) = database.postgres() {
        return load_postgres(pool, parts).await;
    }
    let rows: serde_json::Value =
        parts.iter().map(|(thread, part)| json!([thread.simple().to_string(), part.0, part.1])).collect();
    let sql = "SELECT events.* FROM json_each(?1) AS it CROSS JOIN events \
               ON events.thread_id = unhex(it.value ->> 0) \
               AND events.seq BETWEEN it.value ->> 1 AND it.value ->> 2 \
               ORDER BY events.thread_id, events.seq";
    let db = &database.hot;
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, [rows.to_string().into()]);
    let mut logs = Logs::new();
    for row in events::Entity::find().from_raw_sql(statement).all(db).await? {
        logs.entry(row.thread_id).or_default().push(row);
    }
    Ok(logs)
}

/// Reads logs from PostgreSQL.
///
/// ## Why the rows bypass sea-orm
///
/// The connection is sea-orm's. But sea-orm waits for the last row before it decodes the first, and looks up every
/// column by name, which takes longer than decoding and folding the events.
async fn load_postgres(pool: &Pool, parts: BTreeMap<ThreadId, (i64, i64)>) -> Result<Logs, Error> {
    let (threads, parts): (Vec<ThreadId>, Vec<(i64, i64)>) = parts.into_iter().unzip();
    let (from, until): (Vec<i64>, Vec<i64>) = parts.into_iter().unzip();
    // Not a plain join: without statistics, the planner would scan all events.
    let sql = "SELECT log.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS it (id, from_seq, until_seq) \
               CROSS JOIN LATERAL \
               (SELECT thread_id, seq, at, kind, payload, codec, hash FROM events \
               WHERE events.thread_id = it.id AND events.seq BETWEEN it.from_seq AND it.until_seq ORDER BY events.seq) AS log";
    let mut logs = Logs::new();
    let add = |row: &PgRow| {
        let row = events::Model {
            thread_id: row.try_get(0)?,
            seq: row.try_get(1)?,
            at: row.try_get(2)?,
            kind: row.try_get(3)?,
            payload: row.try_get(4)?,
            codec: row.try_get(5)?,
            hash: row.try_get(6)?,
        };
        logs.entry(row.thread_id).or_default().push(row);
        Ok(())
    };
    let query = sqlx::query(sql).bind(threads).bind(from).bind(until);
    pool.for_each_row(query, add).await.map_err(|error| Error::from(&error))?;
    Ok(logs)
}

/// Returns the head of a log as the transaction sees it.
pub(crate) async fn head(db: &impl ConnectionTrait, thread: ThreadId) -> Result<Head, Error> {
    let rows = events::Entity::find().filter(events::Column::ThreadId.eq(thread));
    let last = rows.order_by_desc(events::Column::Seq).one(db).await?.ok_or(Error::UnknownThread(thread))?;
    Ok(Head { thread, seq: unsigned(last.seq)? + 1, hash: digest(&last)? })
}

fn of(thread: ThreadId) -> sea_orm::Select<events::Entity> {
    events::Entity::find().filter(events::Column::ThreadId.eq(thread)).order_by_asc(events::Column::Seq)
}

pub(crate) fn recorded(row: &events::Model) -> Result<Recorded, Error> {
    let seq = unsigned(row.seq)?;
    if row.codec != CODEC {
        let what =
            format!("event {seq} of thread {} has the unknown encoding {:?}", row.thread_id, row.codec);
        return Err(Error::TooNew { what });
    }
    let event = Event::decode(&row.kind, &row.payload);
    let event = event.map_err(|error| Error::Unreadable { thread: row.thread_id, seq, error })?;
    Ok(Recorded { seq, at: row.at, event })
}

fn digest(row: &events::Model) -> Result<[u8; 32], Error> {
    let wrong = |_| {
        let (seq, bytes) = (row.seq, row.hash.len());
        corrupt(row.thread_id, format_args!("the hash of event {seq} has {bytes} bytes instead of 32"))
    };
    row.hash.as_slice().try_into().map_err(wrong)
}
