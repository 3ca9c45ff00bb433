//! Rows of the processes that count, each with the time up to which its counts are written.
//!
//! ## Why a row is written with the counts
//!
//! The row changes in the transaction that adds the counts, so it says exactly what is written. A row that stays behind belongs
//! to a process that was killed, and `lost` counts again from the logs what it did not write.

use queue::clock;
use sea_orm::ConnectionTrait as _;
use uuid::Uuid;

use crate::{
    Error, Store,
    log::{Transaction, statement},
};

/// Longest time between two writes of a running process that has nothing to count, in microseconds.
pub(super) const BEAT: i64 = 10 * 1_000_000;

/// State of a row after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// It says what is written.
    Written,
    /// Another process took this one for killed, and counts its last minutes from the logs.
    TakenOver,
}

/// Moves the row of a process to `now`. `since` is the time of its last write; `None` before the first.
pub(super) async fn move_to(tx: &Transaction, id: Uuid, since: Option<i64>, now: i64) -> Result<Row, Error> {
    let Some(since) = since else {
        insert(tx, id, now).await?;
        return Ok(Row::Written);
    };
    let sql = "UPDATE count_writers SET written_at = $2, claimed_until = 0 WHERE id = $1";
    let moved = tx.execute_raw(statement(tx, sql, [id.into(), now.into()])).await?;
    if moved.rows_affected() == 1 {
        return Ok(Row::Written);
    }
    insert(tx, id, now).await?;
    // What this process has counted since then may be written or not. The logs know.
    insert(tx, clock::new_id(), since).await?;
    Ok(Row::TakenOver)
}

async fn insert(tx: &Transaction, id: Uuid, written_at: i64) -> Result<(), Error> {
    let sql = "INSERT INTO count_writers (id, written_at) VALUES ($1, $2) \
               ON CONFLICT (id) DO UPDATE SET written_at = excluded.written_at";
    tx.execute_raw(statement(tx, sql, [id.into(), written_at.into()])).await?;
    Ok(())
}

impl Store {
    /// Writes what this process has counted, and forgets that it counts: it leaves nothing unwritten.
    ///
    /// # Errors
    ///
    /// As [`Store::write_counts`]; another process then counts the last minutes of this one from the logs.
    pub async fn end_counting(&self) -> Result<(), Error> {
        self.write_counts().await?;
        let sql = "DELETE FROM count_writers WHERE id = $1";
        let id = self.unwritten_counts.writer;
        let writer = &self.database.writer;
        writer.execute_raw(statement(writer, sql, [id.into()])).await?;
        self.unwritten_counts.forget_row();
        Ok(())
    }
}
