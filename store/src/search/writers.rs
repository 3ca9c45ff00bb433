//! Rows that say what is indexed: one for each process that indexes what it appends, and one for each scan.
//!
//! A scan reads the threads that changed since a time. The first one reads all threads. A process that was killed leaves its row
//! behind, and that is the scan of what it left out.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{ConnectionTrait as _, DbBackend, FromQueryResult};
use uuid::Uuid;

use super::state::Scan;
use crate::{
    Conditions, Error, Store, ThreadId,
    log::{Transaction, statement},
};

const SECOND: i64 = 1_000_000;

/// Time between two signs of life of a process.
pub(super) const BEAT: i64 = 5 * SECOND;

/// Time without a sign of life after which a row belongs to no process. Long enough for an append of the process to have ended, and so
/// short that its rest is indexed before the index counts as behind.
const MISSING_AFTER: i64 = 30 * SECOND;

/// Age of an event that is not indexed from which on the index is behind.
const BEHIND_AFTER: i64 = 60 * SECOND;

/// Time from an event to its mark. An append takes at most twenty seconds.
const MARKED_AFTER: i64 = 60 * SECOND;

/// Maximum number of scans that a process has begun. The last one continues first: it is the shortest.
const SCANS_MAX: usize = 4;

/// State of the search index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchProgress {
    /// Time up to which everything is indexed, in microseconds since the Unix epoch; 0 before the first scan has ended.
    pub indexed_until: i64,
    /// True if events of more than a minute ago may be missing.
    pub is_behind: bool,
}

impl SearchProgress {
    fn check(self) -> Result<(), Error> {
        match self.is_behind {
            true => Err(Error::SearchBehind { until: clock::rfc3339(self.indexed_until) }),
            false => Ok(()),
        }
    }
}

#[derive(FromQueryResult)]
struct Row {
    id: Uuid,
    seen_at: i64,
    indexed_until: i64,
    after_thread: Option<ThreadId>,
}

const ALL: &str = "SELECT id, seen_at, indexed_until, after_thread FROM search_writers";

impl Store {
    /// Begins to mark what this process appends. If no process has indexed for half a minute, a scan reads what changed since then.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn begin_indexing(&self) -> Result<(), Error> {
        // Marked before the row says that this process indexes.
        self.search.is_attended.store(true, std::sync::atomic::Ordering::Relaxed);
        let (writer, now) = (self.search.writer, clock::now());
        // Another task of this process may have left marks.
        let until = self.search.marks.oldest().unwrap_or(now);
        self.database.transact(move |tx| begin(tx, writer, now, until).boxed()).await
    }

    /// Leaves what this process has not indexed to another one, and stops marking. Only the last task of a process may call it: see
    /// [`IndexingTask::leave`](crate::IndexingTask::leave).
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer; another process then finds the row of this one after half a minute.
    pub async fn end_indexing(&self) -> Result<(), Error> {
        self.search.is_attended.store(false, std::sync::atomic::Ordering::Relaxed);
        let scans = std::mem::take(&mut *self.search.scans.lock().await);
        let (writer, oldest) = (self.search.writer, self.search.marks.oldest());
        let left: Vec<Uuid> = scans.iter().map(|scan| scan.id).chain(oldest.map(|_| writer)).collect();
        self.database
            .transact(move |tx| {
                async move {
                    if let Some(oldest) = oldest {
                        let sql = "UPDATE search_writers SET indexed_until = $2 WHERE id = $1";
                        tx.execute_raw(statement(tx, sql, [writer.into(), oldest.into()])).await?;
                    } else {
                        delete(tx, writer).await?;
                    }
                    for id in left {
                        let sql = "UPDATE search_writers SET seen_at = 0 WHERE id = $1";
                        tx.execute_raw(statement(tx, sql, [id.into()])).await?;
                    }
                    Ok(())
                }
                .boxed()
            })
            .await
    }

    /// Shows that this process indexes, and takes over one row that no process continues.
    pub(super) async fn beat(&self, scans: &[Scan], now: i64) -> Result<Option<Scan>, Error> {
        let marks = &self.search.marks;
        let (writer, until, lost) = (self.search.writer, marks.oldest().unwrap_or(now), marks.lost_since());
        let current: Vec<_> = scans.iter().map(|scan| (scan.id, scan.after)).collect();
        let taken = self.database.transact(move |tx| {
            async move {
                if let Some(since) = lost {
                    scan_later(tx, since).await?;
                }
                insert(tx, writer, now, until).await?;
                let sql = "UPDATE search_writers SET seen_at = $2 WHERE id = $1 AND seen_at < $2";
                tx.execute_raw(statement(tx, sql, [Uuid::nil().into(), now.into()])).await?;
                for (id, after) in &current {
                    let sql = "UPDATE search_writers SET seen_at = $2, after_thread = $3 WHERE id = $1";
                    tx.execute_raw(statement(tx, sql, [(*id).into(), now.into(), (*after).into()])).await?;
                }
                if current.len() < SCANS_MAX { take_over(tx, writer, now).await } else { Ok(None) }
            }
            .boxed()
        });
        let taken = taken.await?;
        if let Some(since) = lost {
            marks.found(since);
        }
        Ok(taken)
    }

    /// Forgets a scan that has ended. It may have filled the tables from nothing, so PostgreSQL counts their values anew: without that,
    /// it would join turns with them as if they were empty.
    pub(super) async fn end_scan(&self, id: Uuid) -> Result<(), Error> {
        self.database.transact(move |tx| delete(tx, id).boxed()).await?;
        if self.database.postgres().is_some() {
            let sql = "ANALYZE search_entries, search_terms, search_usage, search_ratings";
            self.database.writer.execute_unprepared(sql).await?;
        }
        Ok(())
    }

    /// Returns how far the index is filled.
    ///
    /// # Errors
    ///
    /// [`Error::SearchOff`] if it is switched off; [`Error::Unavailable`] if the database does not answer.
    pub async fn search_progress(&self) -> Result<SearchProgress, Error> {
        self.check_search()?;
        let pool = &self.database.pool;
        let rows = Row::find_by_statement(statement(pool, ALL, [])).all(pool).await?;
        let now = clock::now();
        if !rows.iter().any(|row| row.id.is_nil()) {
            return Ok(SearchProgress { indexed_until: 0, is_behind: true });
        }
        let others = rows.iter().filter(|row| !row.id.is_nil());
        let indexed_until = others.map(|row| row.indexed_until).min().unwrap_or(now);
        Ok(SearchProgress { indexed_until, is_behind: indexed_until < now - BEHIND_AFTER })
    }

    /// Refuses conditions that the search index answers if it is switched off, or may lack events that they should find.
    ///
    /// # Errors
    ///
    /// [`Error::SearchOff`], or [`Error::SearchBehind`] with the time up to which everything is indexed; [`Error::Unavailable`] if the
    /// database does not answer.
    pub async fn check_searchable(&self, conditions: &Conditions) -> Result<(), Error> {
        if conditions.needs_search() { self.check_indexed(Some(conditions)).await } else { Ok(()) }
    }

    /// Refuses what the search index answers if it is switched off, or may lack events of turns that match the conditions.
    pub(crate) async fn check_indexed(&self, conditions: Option<&Conditions>) -> Result<(), Error> {
        let progress = self.search_progress().await?;
        match conditions.is_some_and(|conditions| conditions.are_before(progress.indexed_until)) {
            true => Ok(()),
            false => progress.check(),
        }
    }

    /// Empties the index. Processes that run fill it again from the logs.
    ///
    /// # Errors
    ///
    /// [`Error::SearchOff`] if it is switched off; [`Error::Unavailable`] if the database does not answer.
    pub async fn rebuild_search(&self) -> Result<(), Error> {
        self.check_search()?;
        self.database
            .transact(|tx| {
                async move {
                    super::removal::clear(tx).await?;
                    scan_later(tx, 0).await?;
                    let sql = "INSERT INTO search_writers (id, seen_at, indexed_until) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING";
                    tx.execute_raw(statement(tx, sql, [Uuid::nil().into(), clock::now().into()])).await?;
                    Ok(())
                }
                .boxed()
            })
            .await
    }
}

async fn begin(tx: &Transaction, writer: Uuid, now: i64, until: i64) -> Result<(), Error> {
    let sql =
        "INSERT INTO search_writers (id, seen_at, indexed_until) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING";
    let is_first = tx.execute_raw(statement(tx, sql, [Uuid::nil().into(), now.into()])).await?;
    if is_first.rows_affected() == 1 {
        scan_later(tx, 0).await?;
    } else {
        let sql = format!("{ALL} WHERE id = $1");
        let any = Row::find_by_statement(statement(tx, &sql, [Uuid::nil().into()])).one(tx).await?;
        if let Some(row) = any.filter(|row| row.seen_at < now - MISSING_AFTER) {
            let sql = "UPDATE search_writers SET seen_at = $2 WHERE id = $1 AND seen_at = $3";
            let values = [row.id.into(), now.into(), row.seen_at.into()];
            if tx.execute_raw(statement(tx, sql, values)).await?.rows_affected() == 1 {
                scan_later(tx, row.seen_at).await?;
            }
        }
    }
    insert(tx, writer, now, until).await
}

/// Writes the row of a process.
async fn insert(tx: &Transaction, id: Uuid, now: i64, until: i64) -> Result<(), Error> {
    let sql = "INSERT INTO search_writers (id, seen_at, indexed_until) VALUES ($1, $2, $3) \
               ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, indexed_until = excluded.indexed_until";
    tx.execute_raw(statement(tx, sql, [id.into(), now.into(), until.into()])).await?;
    Ok(())
}

/// Orders a scan of the threads that changed since this time. Any process begins it.
async fn scan_later(tx: &Transaction, since: i64) -> Result<(), Error> {
    insert(tx, clock::new_id(), 0, since).await
}

/// Orders a scan that finds the threads of this transaction, unless one that has not begun finds them too.
///
/// The row of that scan stays locked until the transaction ends. A process that began the scan before would not see the threads.
pub(crate) async fn scan_imported(tx: &Transaction) -> Result<(), Error> {
    let now = clock::now();
    let is_postgres = tx.get_database_backend() == DbBackend::Postgres;
    let lock = if is_postgres { "FOR SHARE SKIP LOCKED" } else { "" };
    let sql = format!(
        "{ALL} WHERE seen_at = 0 AND after_thread IS NULL AND indexed_until <= $1 AND id <> $2 LIMIT 1 {lock}"
    );
    let values = [now.into(), Uuid::nil().into()];
    if Row::find_by_statement(statement(tx, &sql, values)).one(tx).await?.is_none() {
        scan_later(tx, now).await?;
    }
    Ok(())
}

async fn delete(tx: &Transaction, id: Uuid) -> Result<(), Error> {
    tx.execute_raw(statement(tx, "DELETE FROM search_writers WHERE id = $1", [id.into()])).await?;
    Ok(())
}

/// Takes over the row with the oldest gap, if its process has shown no sign of life.
async fn take_over(tx: &Transaction, writer: Uuid, now: i64) -> Result<Option<Scan>, Error> {
    let missing = now - MISSING_AFTER;
    let sql =
        format!("{ALL} WHERE seen_at < $1 AND id <> $2 AND id <> $3 ORDER BY indexed_until DESC LIMIT 1");
    let values = [missing.into(), writer.into(), Uuid::nil().into()];
    let Some(row) = Row::find_by_statement(statement(tx, &sql, values)).one(tx).await? else {
        return Ok(None);
    };
    let sql = "UPDATE search_writers SET seen_at = $2 WHERE id = $1 AND seen_at = $3";
    let values = [row.id.into(), now.into(), row.seen_at.into()];
    let taken = tx.execute_raw(statement(tx, sql, values)).await?.rows_affected() == 1;
    let since = row.indexed_until.saturating_sub(MARKED_AFTER);
    Ok(taken.then(|| Scan::new(row.id, since, row.after_thread)))
}
