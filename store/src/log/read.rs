//! What reads a log: its end, its events, the bytes as they stand, and whether the chain holds.

use std::{collections::BTreeMap, sync::Arc};

use futures::StreamExt as _;
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Statement,
    sqlx::{self, PgPool, Row as _, postgres::PgRow},
};
use serde_json::json;
use shared::Event;

use super::{
    Finding, Head, Store, ThreadId, Wrong, at_most, corrupt,
    database::Database,
    round::{Pages, Range},
    signed,
    tables::events,
    unsigned,
    walk::Walk,
};
use crate::{
    Error,
    gather::{Gather, Lone, told_of_all},
};

/// How events are stored now.
pub(super) const CODEC: &str = "json";

/// An event, with its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Its number.
    pub seq: u64,
    /// When it was appended, in microseconds since the Unix epoch.
    pub at: i64,
    /// What happened.
    pub event: Event,
}

/// An event as the database holds it, byte for byte: what is audited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its number.
    pub seq: u64,
    /// When it was appended, in microseconds since the Unix epoch.
    pub at: i64,
    /// Which kind.
    pub kind: String,
    /// How the payload is stored.
    pub codec: String,
    /// The payload.
    pub payload: String,
    /// What chains it to all before it.
    pub hash: [u8; 32],
}

/// Whether the stored bytes of a log are those that were appended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chain {
    /// They are, as far as the log goes; compare the last hash with one kept elsewhere to know that it goes
    /// far enough.
    Intact {
        /// How many events.
        events: u64,
        /// The hash of the last.
        head: [u8; 32],
    },
    /// They are not.
    Broken {
        /// The first number at which they are not.
        seq: u64,
        /// What is wrong there.
        what: String,
    },
}

impl Store {
    /// The end of a log. Reads its last row only.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if it has no event.
    pub async fn head(&self, thread: ThreadId) -> Result<Head, Error> {
        head(&self.database.hot, thread).await
    }

    /// A whole log and its end.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if it has no event, [`Error::Unreadable`] if this build cannot read one.
    #[tracing::instrument(level = "debug", skip_all, fields(%thread))]
    pub async fn load(&self, thread: ThreadId) -> Result<(Head, Vec<Recorded>), Error> {
        let start = Head::start(thread);
        match self.load_since(&start).await? {
            (head, _) if head == start => Err(Error::UnknownThread(thread)),
            loaded => Ok(loaded),
        }
    }

    /// What a log says after `head`, and its end. Logs that are asked for at the same time are read together.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] if this build cannot read an event.
    pub async fn load_since(&self, head: &Head) -> Result<(Head, Vec<Recorded>), Error> {
        let from = signed(head.seq);
        let logs = self.loader.bring((head.thread, from)).await.ok_or_else(Error::gone)??;
        let rows = logs.get(&head.thread).map_or(&[][..], Vec::as_slice);
        // Another may have wanted more of it.
        let rows = &rows[rows.partition_point(|it| it.seq < from)..];
        let head = match rows.last() {
            Some(last) => Head { seq: unsigned(last.seq)? + 1, hash: digest(last)?, ..*head },
            None => *head,
        };
        let log = rows.iter().map(recorded).collect::<Result<_, _>>()?;
        Ok((head, log))
    }

    /// Events after number `after`, or from the first, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`Error::Unreadable`] if this build cannot read one.
    pub async fn events(
        &self,
        thread: ThreadId,
        after: Option<u64>,
        limit: u64,
    ) -> Result<Vec<Recorded>, Error> {
        let from = after.map_or(0, |it| it.saturating_add(1));
        self.page(thread, from, limit).await?.iter().map(recorded).collect()
    }

    /// Events from number `from`, at most `limit`, as the database holds them.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a row is none that turnfold wrote.
    pub async fn stored(&self, thread: ThreadId, from: u64, limit: u64) -> Result<Vec<Stored>, Error> {
        let rows = self.page(thread, from, limit).await?;
        let stored = |row: events::Model| {
            let (seq, hash) = (unsigned(row.seq)?, digest(&row)?);
            Ok(Stored { seq, at: row.at, kind: row.kind, codec: row.codec, payload: row.payload, hash })
        };
        rows.into_iter().map(stored).collect()
    }

    /// Whether the stored bytes of a log are those that were appended.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if it has no event.
    #[tracing::instrument(level = "debug", skip_all, fields(%thread))]
    pub async fn verify_chain(&self, thread: ThreadId) -> Result<Chain, Error> {
        let mut walk = Walk::new(thread, Vec::new());
        let mut pages = Pages::of(Range::of(thread, 0));
        loop {
            let page = pages.next(&self.database.pool).await?;
            if page.is_empty() {
                break;
            }
            page.into_iter().for_each(|row| walk.step(row));
        }
        let (events, head) = walk.end();
        if events == 0 {
            return Err(Error::UnknownThread(thread));
        }
        let broken = walk.finish().into_iter().find(|it| it.wrong != Wrong::Unreadable);
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

/// Reads logs, many at once: whose, and from which number on.
pub(super) type Loader = Gather<(ThreadId, i64), Result<Arc<Logs>, Error>>;

/// Rows of logs, each in the order of its numbers.
type Logs = BTreeMap<ThreadId, Vec<events::Model>>;

/// How many logs one query reads at most.
const LOGS: usize = 64;

/// How many queries at once.
const QUERIES: usize = 2;

pub(super) fn loader(database: &Database) -> Loader {
    let database = database.clone();
    Gather::new(QUERIES, LOGS, Lone::Leaves, move |wanted: Vec<(ThreadId, i64)>| {
        let database = database.clone();
        async move { told_of_all(load(&database, &wanted).await, wanted.len()) }
    })
}

async fn load(database: &Database, wanted: &[(ThreadId, i64)]) -> Result<Logs, Error> {
    // Of one that two want at once, all is read that either wants.
    let mut from = BTreeMap::<ThreadId, i64>::new();
    for (thread, seq) in wanted {
        from.entry(*thread).and_modify(|it| *it = (*it).min(*seq)).or_insert(*seq);
    }
    if let Some(pool) = database.postgres() {
        return load_postgres(pool, from).await;
    }
    let rows: serde_json::Value =
        from.iter().map(|(thread, seq)| json!([thread.simple().to_string(), seq])).collect();
    let sql = "SELECT events.* FROM json_each(?1) AS it CROSS JOIN events \
               ON events.thread_id = unhex(it.value ->> 0) AND events.seq >= it.value ->> 1 \
               ORDER BY events.thread_id, events.seq";
    let db = &database.hot;
    let statement = Statement::from_sql_and_values(db.get_database_backend(), sql, [rows.to_string().into()]);
    let mut logs = Logs::new();
    for row in events::Entity::find().from_raw_sql(statement).all(db).await? {
        logs.entry(row.thread_id).or_default().push(row);
    }
    Ok(logs)
}

/// Logs from PostgreSQL, each from an event on.
///
/// ## Why its rows do not go through sea-orm
///
/// The connection is sea-orm's. But sea-orm waits for the last row before it looks at the first, and looks for each column
/// of each by its name, which takes longer than to read and fold what it says.
async fn load_postgres(pool: &PgPool, from: BTreeMap<ThreadId, i64>) -> Result<Logs, Error> {
    let (threads, seqs): (Vec<ThreadId>, Vec<i64>) = from.into_iter().unzip();
    // Not a plain join: of one, a planner without statistics makes a walk over all events there are.
    let sql = "SELECT log.* FROM unnest($1::uuid[], $2::bigint[]) AS it (id, seq) CROSS JOIN LATERAL \
               (SELECT thread_id, seq, at, kind, payload, codec, hash FROM events \
               WHERE events.thread_id = it.id AND events.seq >= it.seq ORDER BY events.seq) AS log";
    let row = |row: &PgRow| {
        Ok(events::Model {
            thread_id: row.try_get(0)?,
            seq: row.try_get(1)?,
            at: row.try_get(2)?,
            kind: row.try_get(3)?,
            payload: row.try_get(4)?,
            codec: row.try_get(5)?,
            hash: row.try_get(6)?,
        })
    };
    let mut logs = Logs::new();
    let mut rows = sqlx::query(sql).bind(threads).bind(seqs).fetch(pool);
    while let Some(it) = rows.next().await {
        let it = it.and_then(|it| row(&it)).map_err(|error| Error::from(&error))?;
        logs.entry(it.thread_id).or_default().push(it);
    }
    Ok(logs)
}

/// The end of a log, as a transaction sees it.
pub(super) async fn head(db: &impl ConnectionTrait, thread: ThreadId) -> Result<Head, Error> {
    let rows = events::Entity::find().filter(events::Column::ThreadId.eq(thread));
    let last = rows.order_by_desc(events::Column::Seq).one(db).await?.ok_or(Error::UnknownThread(thread))?;
    Ok(Head { thread, seq: unsigned(last.seq)? + 1, hash: digest(&last)? })
}

fn of(thread: ThreadId) -> sea_orm::Select<events::Entity> {
    events::Entity::find().filter(events::Column::ThreadId.eq(thread)).order_by_asc(events::Column::Seq)
}

pub(super) fn recorded(row: &events::Model) -> Result<Recorded, Error> {
    let seq = unsigned(row.seq)?;
    if row.codec != CODEC {
        let what = format!("event {seq} of thread {} is stored as {:?}", row.thread_id, row.codec);
        return Err(Error::TooNew { what });
    }
    let event = Event::decode(&row.kind, &row.payload);
    let event = event.map_err(|error| Error::Unreadable { thread: row.thread_id, seq, error })?;
    Ok(Recorded { seq, at: row.at, event })
}

fn digest(row: &events::Model) -> Result<[u8; 32], Error> {
    let wrong = |_| {
        let (seq, bytes) = (row.seq, row.hash.len());
        corrupt(row.thread_id, format_args!("the hash of event {seq} has {bytes} bytes and not 32"))
    };
    row.hash.as_slice().try_into().map_err(wrong)
}
