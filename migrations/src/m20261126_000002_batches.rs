//! Files, batches of their lines, and the results of the lines.
//!
//! ## Why results have a table of their own
//!
//! A line may be run again after a client has read its first result. Results are therefore only added, numbered without gaps
//! in the order in which they arrive; an item points at the result that counts.
//!
//! ## Why a batch's row has the counts of its items
//!
//! A client that watches a batch of a million lines asks once a second. Every change of items locks the batch's row anyway,
//! so the counts cost nothing more.
//!
//! ## Why the indexes of items are partial
//!
//! An item changes its state twice. In PostgreSQL each change is a new row version that enters every index it matches, so
//! one index over all states would contain each item three times. Queries repeat the conditions word for word, because
//! SQLite recognizes an index by them.
//!
//! ## Why only the primary key covers all items of a batch
//!
//! To a planner without statistics, all indexes that begin with the batch look alike, and one without the line number would
//! be scanned over the whole batch for each line. It cannot choose a partial index for a query that names no state, and the
//! unique custom ids are indexed as one text together with the batch.

use sea_orm_migration::prelude::*;

use super::{apply, apply_to_postgres, apply_to_sqlite, compress};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const FILES: &str = "
    CREATE TABLE files (
        id UUID NOT NULL PRIMARY KEY,
        tenant TEXT NOT NULL,
        filename TEXT NOT NULL,
        purpose TEXT NOT NULL,        -- batch or batch_output
        bytes BIGINT NOT NULL,
        status TEXT NOT NULL,         -- uploading (not visible) or processed
        created_at BIGINT NOT NULL,
        expires_at BIGINT             -- null: kept until deleted
    );
    CREATE INDEX files_tenant_id ON files (tenant, id);

    CREATE TABLE file_chunks (
        file_id UUID NOT NULL,
        nth INTEGER NOT NULL,         -- from 0
        starts_line BOOLEAN NOT NULL, -- whether the chunk begins at the start of a line
        ends_line BOOLEAN NOT NULL,   -- whether it ends at the end of a line
        data BYTEA NOT NULL,          -- about 256 KiB
        PRIMARY KEY (file_id, nth)
    )";

const BATCHES: &str = "
    CREATE TABLE batches (
        id UUID NOT NULL PRIMARY KEY,
        tenant TEXT NOT NULL,
        author TEXT NOT NULL,
        endpoint TEXT NOT NULL,           -- to which every line is sent
        input_file UUID NOT NULL,
        completion_window TEXT NOT NULL,  -- as the client wrote it
        metadata TEXT NOT NULL,           -- JSON object of the client
        output_seconds BIGINT,            -- lifetime of the result files; null: kept until deleted
        reuse BOOLEAN NOT NULL,           -- whether an earlier result of the same line is used
        max_micro_usd BIGINT,             -- budget in millionths of a US dollar
        \"window\" BIGINT NOT NULL,       -- maximum lines in progress
        item_seconds BIGINT,              -- maximum time of a line in progress
        priority INTEGER NOT NULL,
        status TEXT NOT NULL,
        stopped TEXT,                     -- why no new line starts: paused or max_usd
        fault TEXT,                       -- why the whole batch failed
        validated INTEGER NOT NULL,       -- next chunk to validate
        lines BIGINT NOT NULL,            -- lines in the validated chunks
        total BIGINT NOT NULL,            -- lines that are not blank
        counts TEXT NOT NULL DEFAULT '{}',  -- JSON object: items by state
        done BIGINT NOT NULL,             -- number of the last result
        input_tokens BIGINT NOT NULL,
        output_tokens BIGINT NOT NULL,
        micro_usd BIGINT NOT NULL,
        output_file UUID,
        error_file UUID,
        idempotency_key TEXT UNIQUE,
        request_hash TEXT,
        lease_owner TEXT,                 -- api process that works on the batch
        lease_expires_at BIGINT NOT NULL,
        created_at BIGINT NOT NULL,
        in_progress_at BIGINT,
        expires_at BIGINT NOT NULL,
        finalizing_at BIGINT,
        completed_at BIGINT,
        failed_at BIGINT,
        expired_at BIGINT,
        cancelling_at BIGINT,
        cancelled_at BIGINT
    );
    CREATE INDEX batches_tenant_id ON batches (tenant, id);
    CREATE INDEX batches_status ON batches (status)";

const ITEMS: &str = "
    CREATE TABLE batch_items (
        batch_id UUID NOT NULL,
        nth BIGINT NOT NULL,           -- line number in the file, from 1
        tenant TEXT NOT NULL,
        custom_id TEXT,                -- null if the line has none, or one that an earlier line has
        chunk INTEGER NOT NULL,        -- place of the line: chunk of the file,
        start INTEGER NOT NULL,        -- first byte in the chunk,
        length INTEGER NOT NULL,       -- bytes
        state TEXT NOT NULL,
        attempt INTEGER NOT NULL,      -- from 1; counts reruns
        cache_key TEXT,                -- hash of the request; results are reused by it
        strategy TEXT,
        priority INTEGER NOT NULL DEFAULT 2,
        thread_id UUID,
        turn_id UUID,
        submitted_at BIGINT,
        input_tokens BIGINT NOT NULL,
        output_tokens BIGINT NOT NULL,
        micro_usd BIGINT NOT NULL,
        code TEXT,                     -- why the item has no answer: an error code, or its outcome
        message TEXT,                  -- the error, or the causes of the outcome
        result_no BIGINT,              -- the result that counts
        PRIMARY KEY (batch_id, nth)
    );
    CREATE INDEX batch_items_waiting ON batch_items (batch_id, priority, nth) WHERE state = 'waiting';
    CREATE INDEX batch_items_submitted ON batch_items (batch_id, submitted_at) WHERE state = 'submitted';
    -- May be all items of a batch, whereas the submitted ones are read at every step.
    CREATE INDEX batch_items_awaiting_input ON batch_items (batch_id, submitted_at) WHERE state = 'awaiting_input';
    CREATE INDEX batch_items_without_answer ON batch_items (batch_id, state, nth)
    WHERE state = 'failed' OR state = 'invalid' OR state = 'expired' OR state = 'partial' OR state = 'declined';
    CREATE INDEX batch_items_reusable ON batch_items (tenant, custom_id, cache_key)
    WHERE state = 'completed' OR state = 'reused';

    CREATE TABLE batch_results (
        batch_id UUID NOT NULL,
        n BIGINT NOT NULL,             -- from 1 without gaps, in order of arrival
        nth BIGINT NOT NULL,           -- line number of the item
        at BIGINT NOT NULL,
        line TEXT NOT NULL,            -- line of output, without its number
        PRIMARY KEY (batch_id, n)
    )";

/// A custom id is unique within its batch.
fn unique_custom_ids(key: &str) -> String {
    format!("CREATE UNIQUE INDEX batch_items_custom_id ON batch_items (({key}))")
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, FILES).await?;
        apply(manager, BATCHES).await?;
        apply(manager, ITEMS).await?;
        let key = "(batch_id::text || custom_id) COLLATE \"C\"";
        apply_to_postgres(manager, &unique_custom_ids(key)).await?;
        apply_to_sqlite(manager, &unique_custom_ids("hex(batch_id) || custom_id")).await?;
        compress(manager, &[("batch_results", "line"), ("file_chunks", "data")]).await
    }
}
