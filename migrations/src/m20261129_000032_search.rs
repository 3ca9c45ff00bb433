//! The search index: words of events, and what turns asked for and spent. It is filled from the logs, and can be dropped.
//!
//! ## Why an entry has no text
//!
//! The log has it. A hit leads to an event, and the snippet is made from that. `array_to_tsvector` in PostgreSQL and
//! `detail = none` in SQLite keep words without their places.
//!
//! ## Why an id of an entry begins with a time
//!
//! Hits are returned newest first, also those of logs that were indexed late. An index of full text returns ids in order, so the
//! order of ids has to be the one of events.

use sea_orm_migration::prelude::*;

use super::{apply, apply_to_postgres, apply_to_sqlite};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const TABLES: &str = "
    -- Position up to which the log of a thread is indexed.
    CREATE TABLE search_threads (
        thread_id UUID NOT NULL PRIMARY KEY,
        next_seq BIGINT NOT NULL,       -- first event that is not indexed
        turn_seq BIGINT NOT NULL        -- event that started the last turn before it
    );

    -- Events with words.
    CREATE TABLE search_entries (
        id BIGINT NOT NULL PRIMARY KEY, -- time of the event in microseconds, times 1024, and a number that makes it unique
        thread_id UUID NOT NULL,
        seq BIGINT NOT NULL,
        turn_seq BIGINT NOT NULL        -- event that started the turn; `turns.started_seq`
    );
    CREATE INDEX search_entries_thread ON search_entries (thread_id);

    -- Tools, models, prompts and workers of each turn.
    CREATE TABLE search_terms (
        kind INTEGER NOT NULL,          -- 0 tool, 1 model, 2 prompt, 3 worker
        value TEXT NOT NULL,
        thread_id UUID NOT NULL,
        turn_seq BIGINT NOT NULL,
        PRIMARY KEY (kind, value, thread_id, turn_seq)
    );
    CREATE INDEX search_terms_thread ON search_terms (thread_id);

    -- Lines of batches by their custom id, whatever their batch, of one tenant or of all.
    CREATE INDEX batch_items_by_custom_id ON batch_items (custom_id, tenant) WHERE custom_id IS NOT NULL;

    -- Usage of each turn that used something.
    CREATE TABLE search_usage (
        thread_id UUID NOT NULL,
        turn_seq BIGINT NOT NULL,
        tokens BIGINT NOT NULL,
        micro_usd BIGINT NOT NULL,
        PRIMARY KEY (thread_id, turn_seq)
    );

    -- Processes that index what they append, and scans of logs that no such process indexes.
    CREATE TABLE search_writers (
        id UUID NOT NULL PRIMARY KEY,   -- the nil id: any process
        seen_at BIGINT NOT NULL,        -- last sign of life
        indexed_until BIGINT NOT NULL,  -- everything that was appended before is indexed
        after_thread UUID               -- of a scan: the last thread that it has passed
    )";

/// Punctuation inside of words, as `WordReader` keeps it, and the mark of tenants.
const SQLITE_WORDS: &str = "
    CREATE VIRTUAL TABLE search_words USING fts5(
        words, content = '', contentless_delete = 1, detail = none, tokenize = \"ascii tokenchars '-_./:@#+&%$~='\"
    )";

const POSTGRES_WORDS: &str = "
    ALTER TABLE search_entries ADD COLUMN words tsvector NOT NULL;
    CREATE INDEX search_entries_words ON search_entries USING gin (words)";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, TABLES).await?;
        apply_to_postgres(manager, POSTGRES_WORDS).await?;
        apply_to_sqlite(manager, SQLITE_WORDS).await
    }
}
