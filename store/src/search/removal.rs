//! Removal of rows of the index: of deleted threads, and of all.

use sea_orm::{ConnectionTrait as _, DbBackend};

use crate::{
    Error, ThreadId,
    log::{Transaction, statement},
    retention::{list, listed},
};

/// Tables of the index but the one of words in SQLite.
const TABLES: [&str; 5] =
    ["search_threads", "search_entries", "search_terms", "search_usage", "search_ratings"];

/// Deletes the rows of these threads.
pub(crate) async fn delete(tx: &Transaction, threads: &[ThreadId]) -> Result<(), Error> {
    let words = "DELETE FROM search_words WHERE rowid IN (SELECT id FROM search_entries WHERE thread_id IN";
    if tx.get_database_backend() == DbBackend::Sqlite {
        let sql = format!("{words} ({}))", list(tx, 1));
        tx.execute_raw(statement(tx, &sql, [listed(tx, threads)])).await?;
    }
    for table in TABLES {
        let sql = format!("DELETE FROM {table} WHERE thread_id IN ({})", list(tx, 1));
        tx.execute_raw(statement(tx, &sql, [listed(tx, threads)])).await?;
    }
    Ok(())
}

/// Deletes all rows.
pub(super) async fn clear(tx: &Transaction) -> Result<(), Error> {
    let is_postgres = tx.get_database_backend() == DbBackend::Postgres;
    for table in TABLES {
        let sql = if is_postgres { format!("TRUNCATE {table}") } else { format!("DELETE FROM {table}") };
        tx.execute_unprepared(&sql).await?;
    }
    if !is_postgres {
        tx.execute_unprepared("INSERT INTO search_words (search_words) VALUES ('delete-all')").await?;
    }
    Ok(())
}
