//! Events as plain rows, and inserts of them without the engine: the lower bound of every append.

use anyhow::Result;
use sea_orm::sqlx::{
    PgPool, QueryBuilder, Row as _, Sqlite,
    pool::Pool,
    postgres::{PgPoolOptions, PgRow},
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous},
};
use shared::Event;
use store::{ThreadId, integrity::hash_chain};

/// Columns of an event, in the order of every statement in this file.
const COLUMNS: &str = "thread_id, seq, at, kind, payload, codec, hash";

/// Rows, one vector per column.
#[derive(Default)]
pub(crate) struct Rows {
    threads: Vec<ThreadId>,
    seqs: Vec<i64>,
    ats: Vec<i64>,
    pub(crate) kinds: Vec<String>,
    pub(crate) payloads: Vec<String>,
    hashes: Vec<Vec<u8>>,
}

impl Rows {
    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.seqs.len()
    }

    /// Total bytes of the payloads.
    pub(crate) fn bytes(&self) -> usize {
        self.payloads.iter().map(String::len).sum()
    }

    /// Adds a whole log.
    pub(crate) fn add_log(&mut self, thread: ThreadId, log: &[Event]) -> Result<()> {
        let mut hash = hash_chain::START;
        for (seq, event) in (0_u32..).zip(log) {
            let payload = event.payload()?;
            hash = hash_chain::link(&hash, u64::from(seq), 0, event.kind(), &payload);
            self.push(thread, i64::from(seq), 0, event.kind().to_owned(), payload, hash.to_vec());
        }
        Ok(())
    }

    fn push(&mut self, thread: ThreadId, seq: i64, at: i64, kind: String, payload: String, hash: Vec<u8>) {
        self.threads.push(thread);
        self.seqs.push(seq);
        self.ats.push(at);
        self.kinds.push(kind);
        self.payloads.push(payload);
        self.hashes.push(hash);
    }

    /// Reads the events after number `after` of these threads, in the order in which an engine that alternates
    /// between threads appends them.
    pub(crate) async fn of_postgres(pool: &PgPool, threads: &[ThreadId], after: i64) -> Result<Self> {
        let sql = "SELECT thread_id, seq, at, kind, payload, codec, hash FROM events \
                   WHERE thread_id = ANY($1) AND seq > $2 ORDER BY seq, thread_id";
        let rows = sea_orm::sqlx::query(sql).bind(threads).bind(after).fetch_all(pool).await?;
        let mut this = Self::default();
        for row in rows {
            let row: PgRow = row;
            let (kind, payload, hash) = (row.try_get(3)?, row.try_get(4)?, row.try_get(6)?);
            this.push(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, kind, payload, hash);
        }
        Ok(this)
    }

    /// Reads the same from SQLite, of the thread `first` and all threads after it. This process wrote them last.
    pub(crate) async fn of_sqlite(pool: &Pool<Sqlite>, first: ThreadId, after: i64) -> Result<Self> {
        let sql = "SELECT thread_id, seq, at, kind, payload, codec, hash FROM events \
                   WHERE thread_id >= ?1 AND seq > ?2 ORDER BY seq, thread_id";
        let rows = sea_orm::sqlx::query(sql).bind(first).bind(after).fetch_all(pool).await?;
        let mut this = Self::default();
        for row in rows {
            let row: SqliteRow = row;
            let (kind, payload, hash) = (row.try_get(3)?, row.try_get(4)?, row.try_get(6)?);
            this.push(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, kind, payload, hash);
        }
        Ok(this)
    }

    /// Splits the rows into batches of this size.
    pub(crate) fn batches(self, size: usize) -> Vec<Rows> {
        let mut batches = Vec::new();
        let size = size.max(1);
        for nth in 0..self.len() {
            if nth % size == 0 {
                batches.push(Rows::default());
            }
            if let Some(last) = batches.last_mut() {
                let (kind, payload) = (self.kinds[nth].clone(), self.payloads[nth].clone());
                let hash = self.hashes[nth].clone();
                last.push(self.threads[nth], self.seqs[nth], self.ats[nth], kind, payload, hash);
            }
        }
        batches
    }

    /// Inserts all rows into a PostgreSQL table with one statement.
    pub(crate) async fn insert_postgres(&self, pool: &PgPool, table: Table) -> Result<()> {
        let insert = sea_orm::sqlx::query(table.insert());
        insert
            .bind(&self.threads)
            .bind(&self.seqs)
            .bind(&self.ats)
            .bind(&self.kinds)
            .bind(&self.payloads)
            .bind(&self.hashes)
            .execute(pool)
            .await?;
        Ok(())
    }

    /// Inserts all rows into SQLite's events with one statement.
    pub(crate) async fn insert_sqlite(&self, pool: &Pool<Sqlite>) -> Result<()> {
        let mut insert = QueryBuilder::<Sqlite>::new(format!("INSERT INTO events ({COLUMNS}) "));
        insert.push_values(0..self.len(), |mut row, nth| {
            row.push_bind(self.threads[nth]).push_bind(self.seqs[nth]).push_bind(self.ats[nth]);
            row.push_bind(&self.kinds[nth]).push_bind(&self.payloads[nth]);
            row.push_bind("json").push_bind(&self.hashes[nth]);
        });
        insert.build().execute(pool).await?;
        Ok(())
    }
}

/// A PostgreSQL table with events.
#[derive(Clone, Copy)]
pub(crate) enum Table {
    /// The engine's own table.
    Events,
    /// A table of the same shape beside it.
    Floor,
    /// The table `Floor`, with arrays unpacked as in the engine's statement: without a copy of all rows.
    Streamed,
}

impl Table {
    fn insert(self) -> &'static str {
        match self {
            Self::Events => {
                "INSERT INTO events (thread_id, seq, at, kind, payload, codec, hash) \
                 SELECT thread_id, seq, at, kind, payload, 'json', hash FROM unnest($1::uuid[], $2::bigint[], \
                 $3::bigint[], $4::text[], $5::text[], $6::bytea[]) AS it (thread_id, seq, at, kind, payload, hash)"
            }
            Self::Streamed => {
                "INSERT INTO floor (thread_id, seq, at, kind, payload, codec, hash) \
                 SELECT unnest($1::uuid[]), unnest($2::bigint[]), unnest($3::bigint[]), unnest($4::text[]), \
                 unnest($5::text[]), 'json', unnest($6::bytea[])"
            }
            Self::Floor => {
                "INSERT INTO floor (thread_id, seq, at, kind, payload, codec, hash) \
                 SELECT thread_id, seq, at, kind, payload, 'json', hash FROM unnest($1::uuid[], $2::bigint[], \
                 $3::bigint[], $4::text[], $5::text[], $6::bytea[]) AS it (thread_id, seq, at, kind, payload, hash)"
            }
        }
    }
}

/// Connects to PostgreSQL and opens all connections.
pub(crate) async fn postgres(url: &str, connections: u32) -> Result<PgPool> {
    let pool = PgPoolOptions::new().max_connections(connections).min_connections(connections);
    Ok(pool.test_before_acquire(false).connect(url).await?)
}

/// Creates the table of the lower bound with the shape of the events table: as many partitions, each with its index.
pub(crate) async fn make_floor(pool: &PgPool) -> Result<()> {
    let sql = "DROP TABLE IF EXISTS floor; \
               CREATE TABLE floor (LIKE events INCLUDING ALL) PARTITION BY HASH (thread_id)";
    sea_orm::sqlx::raw_sql(sql).execute(pool).await?;
    let sql = "SELECT format('CREATE TABLE %I PARTITION OF floor %s', \
               replace(relname, 'events', 'floor'), pg_get_expr(relpartbound, oid)) \
               FROM pg_class WHERE relispartition AND relkind = 'r' AND relname ~ '^events_[0-9]+$'";
    for row in sea_orm::sqlx::query(sql).fetch_all(pool).await? {
        let sql: String = row.try_get(0)?;
        sea_orm::sqlx::query(sea_orm::sqlx::AssertSqlSafe(sql)).execute(pool).await?;
    }
    Ok(())
}

/// Opens one connection to a SQLite file, with the durability settings of the engine.
pub(crate) async fn sqlite(path: &std::path::Path) -> Result<Pool<Sqlite>> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("cache_size", "-65536")
        .pragma("wal_autocheckpoint", "4000");
    let pool = SqlitePoolOptions::new().max_connections(1).test_before_acquire(false);
    Ok(pool.connect_with(options).await?)
}

/// Creates the events table in another file with the same shape.
pub(crate) async fn make_sqlite_floor(of: &Pool<Sqlite>, floor: &Pool<Sqlite>) -> Result<()> {
    sea_orm::sqlx::query("DROP TABLE IF EXISTS events").execute(floor).await?;
    let sql =
        "SELECT sql FROM sqlite_master WHERE tbl_name = 'events' AND sql IS NOT NULL ORDER BY type DESC";
    for row in sea_orm::sqlx::query(sql).fetch_all(of).await? {
        let sql: String = row.try_get(0)?;
        sea_orm::sqlx::query(sea_orm::sqlx::AssertSqlSafe(sql)).execute(floor).await?;
    }
    Ok(())
}

/// Total bytes of events, threads and turns in PostgreSQL, with their indexes.
pub(crate) async fn stored_bytes(pool: &PgPool) -> Result<f64> {
    // The rows of `events` are in partitions; the table itself has no size.
    let sql = "SELECT sum(pg_total_relation_size(oid))::float8 FROM pg_class \
               WHERE relkind = 'r' AND relname ~ '^(events(_[0-9]+)?|threads|turns)$'";
    Ok(sea_orm::sqlx::query(sql).fetch_one(pool).await?.try_get(0)?)
}
