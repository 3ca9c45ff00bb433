//! Threads, their turns, their event logs, and the forks that have an idempotency key.
//!
//! ## Why SQLite's `events` has no primary key
//!
//! A SQLite table that is clustered by `(thread_id, seq)` (WITHOUT ROWID) writes one page per thread at each commit:
//! measured, appends take 2.5 times longer than into a table that grows at its end with a unique index beside it. Tables of
//! PostgreSQL grow at their end anyway.
//!
//! ## Why payloads are text
//!
//! The hash covers the bytes of the payload, so they are kept byte for byte. `jsonb` would also cost twice as much to write
//! and four times as much to read.
//!
//! ## Why no index contains a status
//!
//! In PostgreSQL, updating an indexed column creates a new row version that enters every index of the table: some 90 µs for
//! the two rows of one change, where the events of a node take 7 µs. The generated column `stuck` is null while a turn is
//! queued or running and while a thread is idle or busy, so these changes touch no index. Pages keep room (`fillfactor`) for
//! the next version of a row.
//!
//! ## Why open turns have a table of their own in PostgreSQL
//!
//! With a partial index of the open turns, a turn that ended was a new row version in all indexes: 13.7 µs per turn, where
//! the table with its triggers takes 6.1 µs. Triggers keep the table right whatever writes to `turns`; they fire once per
//! statement. In SQLite an index costs only the rows that it contains, so a view over a partial index is enough.
//!
//! ## Why a row of `open_turns` is deleted by its `ctid`
//!
//! Statistics of a table with rows this short-lived are never right. A planner that expects few rows would read all of them
//! for each turn that ends. `LIMIT` leaves it only the primary key, and that leads to a `ctid`.

use sea_orm_migration::prelude::*;

use super::{apply, apply_to_postgres, apply_to_sqlite, compress};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

/// The partitions of `events` in PostgreSQL, by a hash of the thread id. The index of each fits into memory better, and each
/// is vacuumed separately. Eight partitions add a tenth to the time of inserting 512 rows. Changing the number would copy
/// every row.
const PARTITIONS: u32 = 8;

const TABLES: &str = "
    -- A read model: one row per thread.
    CREATE TABLE threads (
        id UUID NOT NULL PRIMARY KEY,   -- UUIDv7: ordered by creation
        tenant TEXT NOT NULL DEFAULT 'default',
        strategy TEXT NOT NULL,
        status TEXT NOT NULL,           -- idle, busy, interrupted or error
        created_at BIGINT NOT NULL,     -- microseconds since the Unix epoch, as all times
        updated_at BIGINT NOT NULL      -- when the status was last written
    );
    CREATE INDEX threads_tenant_id ON threads (tenant, id);

    -- Forks that were requested with an idempotency key.
    CREATE TABLE forks (
        idempotency_key TEXT NOT NULL PRIMARY KEY,  -- prefixed with the tenant
        request_hash TEXT NOT NULL,                 -- detects the key in another request
        thread_id UUID NOT NULL                     -- the thread that was created
    );
    CREATE INDEX forks_thread_id ON forks (thread_id);

    -- Contents of the images and files of messages. The log holds their hashes.
    CREATE TABLE attachments (
        thread_id UUID NOT NULL,
        sha256 TEXT NOT NULL,   -- hash of the content, in hexadecimal
        content BYTEA NOT NULL,
        PRIMARY KEY (thread_id, sha256)
    )";

/// A turn's row is the only record of it while it is queued.
fn turns(position: &str) -> String {
    format!(
        "CREATE TABLE turns (
            position {position},             -- order within a priority; assigned by the database, not by a clock
            id UUID NOT NULL UNIQUE,
            thread_id UUID NOT NULL,
            tenant TEXT NOT NULL DEFAULT 'default',  -- that of the thread: lists by tenant need no join
            priority INTEGER NOT NULL DEFAULT 1,     -- 0 high, 1 normal, 2 low
            status TEXT NOT NULL,            -- queued, running, completed, interrupted, failed or cancelled
            policy TEXT NOT NULL,            -- auto, answer or replan
            input TEXT NOT NULL,             -- JSON array of messages, as submitted
            metadata TEXT NOT NULL,          -- JSON object of the client
            author TEXT NOT NULL,
            idempotency_key TEXT UNIQUE,     -- prefixed with the tenant
            request_hash TEXT,               -- detects the key in another request
            due_at BIGINT,                   -- earliest start
            answers_seq BIGINT,              -- length of the log that ends with the question which this turn answers
            started_seq BIGINT,              -- event that started the turn
            ended_seq BIGINT,                -- event that ended the turn or left it waiting for a person
            error TEXT,
            outcome TEXT,                    -- answered, partial or declined; null unless the turn completed
            cause TEXT,                      -- why the turn failed or was not answered: the error without what differs between
                                             -- occurrences, or the causes of the outcome; turns are counted by it
            created_at BIGINT NOT NULL,
            updated_at BIGINT NOT NULL
        );
        CREATE INDEX turns_tenant_position ON turns (tenant, position);
        CREATE INDEX turns_thread_position ON turns (thread_id, position)"
    )
}

/// The logs of all threads: the source of truth.
const EVENTS: &str = "CREATE TABLE events (
        thread_id UUID NOT NULL,
        seq BIGINT NOT NULL,      -- from 0, without gaps
        at BIGINT NOT NULL,
        kind TEXT NOT NULL,       -- type of the payload; outside of it, decoding is 1.6 times faster
        payload TEXT NOT NULL,
        codec TEXT NOT NULL,      -- encoding of the payload: json
        hash BYTEA NOT NULL       -- SHA-256 of the previous hash and of this row's seq, time, kind and payload
    )";

const OPEN_TURNS_POSTGRES: &str = "
    ALTER TABLE threads SET (fillfactor = 50);
    ALTER TABLE turns SET (fillfactor = 50);

    -- Turns that are queued or running.
    CREATE TABLE open_turns (
        thread_id UUID NOT NULL, priority INTEGER NOT NULL, position BIGINT NOT NULL, tenant TEXT NOT NULL,
        PRIMARY KEY (thread_id, priority, position)
    );
    CREATE INDEX open_turns_tenant ON open_turns (tenant);

    CREATE FUNCTION update_open_turns() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
    BEGIN
        IF TG_OP <> 'INSERT' THEN
            DELETE FROM open_turns WHERE ctid = ANY (ARRAY(SELECT open.ctid FROM changed CROSS JOIN LATERAL
                (SELECT ctid FROM open_turns AS open WHERE open.thread_id = changed.thread_id
                AND open.priority = changed.priority AND open.position = changed.position LIMIT 1) AS open
                WHERE TG_OP = 'DELETE' OR changed.status NOT IN ('queued', 'running')));
        END IF;
        IF TG_OP <> 'DELETE' THEN
            INSERT INTO open_turns SELECT thread_id, priority, position, tenant FROM changed
            WHERE status IN ('queued', 'running') ON CONFLICT DO NOTHING;
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER open_turns_insert AFTER INSERT ON turns REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION update_open_turns();
    CREATE TRIGGER open_turns_update AFTER UPDATE ON turns REFERENCING NEW TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION update_open_turns();
    CREATE TRIGGER open_turns_delete AFTER DELETE ON turns REFERENCING OLD TABLE AS changed
    FOR EACH STATEMENT EXECUTE FUNCTION update_open_turns()";

/// A partial index is used only for a query that repeats its condition word for word, as the view does.
const OPEN_TURNS_SQLITE: &str = "
    CREATE INDEX turns_open_thread ON turns (thread_id, priority, position) WHERE status IN ('queued', 'running');
    CREATE INDEX turns_open_tenant ON turns (tenant) WHERE status IN ('queued', 'running');
    CREATE VIEW open_turns AS
    SELECT thread_id, priority, position, tenant FROM turns WHERE status IN ('queued', 'running')";

/// The status of a turn that failed, waits for a person or was cancelled, the outcome of one that completed without an answer,
/// and the status of a thread that is neither idle nor busy.
fn stuck(stored: &str) -> String {
    format!(
        "ALTER TABLE threads ADD COLUMN stuck TEXT GENERATED ALWAYS AS
         (CASE WHEN status IN ('idle', 'busy') THEN NULL ELSE status END) {stored};
         CREATE INDEX threads_stuck_id ON threads (stuck, id) WHERE stuck IS NOT NULL;
         ALTER TABLE turns ADD COLUMN stuck TEXT GENERATED ALWAYS AS
         (CASE WHEN status NOT IN ('queued', 'running', 'completed') THEN status WHEN outcome <> 'answered' THEN outcome END) \
         {stored};
         CREATE INDEX turns_stuck_position ON turns (stuck, position) WHERE stuck IS NOT NULL"
    )
}

fn partition(number: u32) -> String {
    format!("events_{number:02}")
}

/// `events` in PostgreSQL.
fn partitioned_events() -> String {
    let mut sql = format!("{EVENTS} PARTITION BY HASH (thread_id);");
    for remainder in 0..PARTITIONS {
        let name = partition(remainder);
        sql += &format!(
            "CREATE TABLE {name} PARTITION OF events FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {remainder});"
        );
    }
    sql + "ALTER TABLE events ADD CONSTRAINT events_thread_seq PRIMARY KEY (thread_id, seq)"
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await?;

        apply_to_postgres(manager, &turns("BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")).await?;
        apply_to_postgres(manager, &partitioned_events()).await?;
        apply_to_postgres(manager, &stuck("STORED")).await?;
        apply_to_postgres(manager, OPEN_TURNS_POSTGRES).await?;
        // A setting of the parent table does not reach its partitions.
        let partitions: Vec<String> = (0..PARTITIONS).map(partition).collect();
        let mut columns = vec![("events", "payload"), ("turns", "input")];
        columns.extend(partitions.iter().map(|name| (name.as_str(), "payload")));
        compress(manager, &columns).await?;

        apply_to_sqlite(manager, &turns("INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT")).await?;
        apply_to_sqlite(manager, EVENTS).await?;
        apply_to_sqlite(manager, "CREATE UNIQUE INDEX events_thread_seq ON events (thread_id, seq)").await?;
        apply_to_sqlite(manager, &stuck("VIRTUAL")).await?;
        apply_to_sqlite(manager, OPEN_TURNS_SQLITE).await
    }
}
