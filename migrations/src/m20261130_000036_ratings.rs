//! Ratings of turns in the search index.
//!
//! ## Why they are no terms
//!
//! A term stays once it is written. Of the ratings of a turn the last one counts, and it may stand in the log after later turns.
//!
//! ## Why the index is filled again
//!
//! It has passed the ratings that are in the logs already.

use sea_orm_migration::prelude::*;

use super::{apply, apply_to_postgres, apply_to_sqlite};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

const STATEMENTS: &str = "
    CREATE TABLE search_ratings (
        thread_id UUID NOT NULL,
        turn_id UUID NOT NULL,
        rating INTEGER NOT NULL,        -- 0 bad, 1 good
        PRIMARY KEY (thread_id, turn_id)
    );
    CREATE INDEX search_ratings_rating ON search_ratings (rating)";

/// Empties the index, and orders a scan of all threads if the index was begun. Any process begins the scan. One of an older version
/// writes no ratings, so an upgrade ends with another rebuild of the index: docs/upgrading.md, step 5.
const POSTGRES_REFILL: &str = "
    TRUNCATE search_threads, search_entries, search_terms, search_usage;
    INSERT INTO search_writers (id, seen_at, indexed_until)
    SELECT '00000000-0000-7000-8000-000000000036'::uuid, 0, 0 FROM search_writers LIMIT 1";

const SQLITE_REFILL: &str = "
    DELETE FROM search_threads;
    DELETE FROM search_entries;
    DELETE FROM search_terms;
    DELETE FROM search_usage;
    INSERT INTO search_words (search_words) VALUES ('delete-all');
    INSERT INTO search_writers (id, seen_at, indexed_until)
    SELECT X'00000000000070008000000000000036', 0, 0 FROM search_writers LIMIT 1";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        apply(manager, STATEMENTS).await?;
        apply_to_postgres(manager, POSTGRES_REFILL).await?;
        apply_to_sqlite(manager, SQLITE_REFILL).await
    }
}
