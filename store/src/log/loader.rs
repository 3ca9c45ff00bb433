//! Reads of logs, batched.

use std::{collections::BTreeMap, sync::Arc};

use queue::{Batcher, WhenAlone};
use sea_orm::{
    ConnectionTrait, FromQueryResult as _, Statement,
    sqlx::{self, Row as _, postgres::PgRow},
};
use serde_json::json;

use crate::{
    Error,
    error::share_outcome,
    log::{
        connection_settings::HOT_CONNECTIONS,
        database::Database,
        ids::{ThreadId, corrupt},
        pool::Pool,
        tables::events,
        types::is_of_another_type,
    },
};

/// Batches reads of logs.
pub(crate) type Loader = Batcher<Wanted, Result<Arc<Logs>, Error>>;

/// Part of a log to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) thread: ThreadId,
    pub(crate) from: i64,
    pub(crate) until: i64,
}

impl Wanted {
    /// Returns the wanted rows. A concurrent call may have asked for a larger part of the same log.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a row of the log has a value of another type.
    pub(crate) fn of(self, logs: &Logs) -> Result<&[events::Model], Error> {
        if let Some(what) = logs.damaged.get(&self.thread) {
            return Err(corrupt(self.thread, what));
        }
        let rows = logs.rows.get(&self.thread).map_or(&[][..], Vec::as_slice);
        let begin = rows.partition_point(|row| row.seq < self.from);
        let end = rows.partition_point(|row| row.seq <= self.until);
        Ok(rows.get(begin..end).unwrap_or_default())
    }
}

/// Logs that were read together.
#[derive(Debug, Default)]
pub(crate) struct Logs {
    /// Rows by thread, ordered by number.
    rows: BTreeMap<ThreadId, Vec<events::Model>>,
    /// Threads with a row that cannot be read, and why. The logs beside them are complete.
    damaged: BTreeMap<ThreadId, String>,
}

/// Maximum logs per query.
const LOGS: usize = 64;

/// Maximum queries in flight.
const QUERIES: usize = 2;

/// Creates the loader.
///
/// ## Why each query of a distributed database reads one log
///
/// Citus sends a query of one thread to the one shard that has it. It would send a query of many threads, with all their ids, to
/// each shard that has one of them.
pub(crate) fn loader(database: &Database) -> Loader {
    let database = database.clone();
    let (queries, logs) = match database.is_distributed {
        true => (usize::try_from(HOT_CONNECTIONS).unwrap_or(1), 1),
        false => (QUERIES, LOGS),
    };
    Batcher::new(queries, logs, WhenAlone::SendNow, move |wanted: Vec<Wanted>| {
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
    let mut logs = Logs::default();
    for row in db.query_all_raw(statement).await? {
        match events::Model::from_query_result(&row, "") {
            Ok(row) => logs.rows.entry(row.thread_id).or_default().push(row),
            Err(error) if is_of_another_type(&error) => {
                let damaged = logs.damaged.entry(row.try_get("", "thread_id")?);
                damaged.or_insert_with(|| format!("an event cannot be read: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
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
    // Not a plain join: without statistics, the planner would scan all events.
    const MANY: &str = "SELECT log.* FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS it (id, from_seq, until_seq) \
                        CROSS JOIN LATERAL \
                        (SELECT thread_id, seq, at, kind, payload, codec, hash FROM events \
                        WHERE events.thread_id = it.id AND events.seq BETWEEN it.from_seq AND it.until_seq \
                        ORDER BY events.seq) AS log";
    const ONE: &str = "SELECT thread_id, seq, at, kind, payload, codec, hash FROM events \
                       WHERE thread_id = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq";
    let (threads, parts): (Vec<ThreadId>, Vec<(i64, i64)>) = parts.into_iter().unzip();
    let (from, until): (Vec<i64>, Vec<i64>) = parts.into_iter().unzip();
    let query = match (&*threads, &*from, &*until) {
        ([thread], [from], [until]) => sqlx::query(ONE).bind(*thread).bind(*from).bind(*until),
        _ => sqlx::query(MANY).bind(threads).bind(from).bind(until),
    };
    let mut logs = Logs::default();
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
        logs.rows.entry(row.thread_id).or_default().push(row);
        Ok(())
    };
    pool.for_each_row(query, add).await.map_err(|error| Error::from(&error))?;
    Ok(logs)
}
