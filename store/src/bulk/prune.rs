//! Deletes batches that have been over for long, with all that is theirs, and files that no batch names.
//!
//! ## In which order
//!
//! A batch has a million lines, so it goes in many transactions, and the first takes its row: from then on there is no such
//! batch. Then go the rows of the files that no batch names any more. What is left without its row goes page by page: items
//! before results, so that no item is found as an earlier one without its result, and at last the pieces of files. Whoever
//! left it without: what a prune leaves that is broken off, the next one takes up without knowing of it.
//!
//! ## Who may be at a batch meanwhile
//!
//! Its row is locked first, and then, in a statement that sees what was written until that moment, is deleted if it may be:
//! whoever resumes it locks that row too. No thread is held in between, so a thread that is held when this looks keeps its
//! batch. A file's row is locked by whoever makes a batch of it.

use std::collections::BTreeSet;

use futures::FutureExt as _;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, FromQueryResult, Value};
use serde_json::Value as Json;
use tracing::info;
use uuid::Uuid;

use super::{BatchId, BatchStatus, FileId};
use crate::{
    DryRun, Error, Prune, Pruned, Store,
    log::{list, listed, statement, unsigned},
    webhooks::{DeliveryId, DeliveryState},
};

/// How many batches, files or deliveries are looked at together.
const PAGE: u64 = 200;

/// Rows that mean nothing without the row that they are of.
struct Rest {
    table: &'static str,
    /// What they are of: the column, and the table whose `id` that is.
    of: &'static str,
    owner: &'static str,
    /// Their numbers.
    nth: &'static str,
    /// How many one transaction deletes.
    page: u64,
    /// Whether each is a line of a batch.
    lines: bool,
}

/// **Invariant:** items stand before results.
const RESTS: [Rest; 3] = [
    Rest { table: "batch_items", of: "batch_id", owner: "batches", nth: "nth", page: 1000, lines: true },
    Rest { table: "batch_results", of: "batch_id", owner: "batches", nth: "n", page: 500, lines: false },
    // Of some 256 KiB each.
    Rest { table: "file_chunks", of: "file_id", owner: "files", nth: "nth", page: 32, lines: false },
];

#[derive(FromQueryResult)]
struct Row {
    id: Uuid,
}

impl Store {
    /// What [`Store::prune`] does to batches and files, added to `all`.
    pub(crate) async fn prune_bulk(
        &self,
        which: &Prune,
        dry_run: DryRun,
        mut all: Pruned,
        told: impl Fn(Pruned) + Send + Sync,
    ) -> Result<Pruned, Error> {
        let gone = self.prune_batches(which, dry_run, &mut all, &told).await?;
        all.files += self.prune_files(which, (dry_run == DryRun::Yes).then_some(&gone)).await?;
        told(all);
        for rest in &RESTS {
            let left = leftovers(&self.database.pool, rest).await?;
            if dry_run == DryRun::Yes {
                if rest.lines {
                    all.lines += self.count(rest, gone.iter().chain(&left)).await?;
                }
                continue;
            }
            for id in left {
                self.clear(rest, id, &which.by, &mut all, &told).await?;
            }
        }
        if dry_run == DryRun::No {
            self.prune_deliveries().await?;
        }
        Ok(all)
    }

    /// The rows of batches: those that went, or would.
    async fn prune_batches(
        &self,
        which: &Prune,
        dry_run: DryRun,
        all: &mut Pruned,
        told: &(impl Fn(Pruned) + Send + Sync),
    ) -> Result<Vec<BatchId>, Error> {
        let pool = &self.database.pool;
        let (before, mut after, mut gone) = (which.before, BatchId::nil(), Vec::new());
        let over = over();
        let sql = format!("SELECT id FROM batches WHERE ({over}) AND id > $2 ORDER BY id LIMIT {PAGE}");
        loop {
            let page = ids(pool, &sql, [before.into(), after.into()]).await?;
            let Some(last) = page.last() else { return Ok(gone) };
            after = *last;
            for id in page {
                // Asked before, as it may take a while, and nobody waits for a batch that stays.
                if !may_go(pool, before, id).await? {
                    continue;
                }
                if dry_run == DryRun::No {
                    if !self.database.transact(move |tx| delete(tx, before, id).boxed()).await? {
                        continue;
                    }
                    info!(by = %which.by, before, batch = %id, "pruned");
                }
                gone.push(id);
                all.batches += 1;
                told(*all);
            }
        }
    }

    /// The rows of files that are whole, were begun before, and are named by no batch: how many went. Or would, if these
    /// batches had.
    async fn prune_files(&self, which: &Prune, without: Option<&Vec<BatchId>>) -> Result<u64, Error> {
        let pool = &self.database.pool;
        let (before, mut after, mut count) = (which.before, FileId::nil(), 0);
        let sql = unused(pool, &format!("files.id > $3 ORDER BY files.id LIMIT {PAGE}"));
        let gone = listed(pool, without.map_or(&[][..], Vec::as_slice));
        loop {
            let page = ids(pool, &sql, [before.into(), gone.clone(), after.into()]).await?;
            let Some(last) = page.last() else { return Ok(count) };
            after = *last;
            count += if without.is_some() {
                page.len() as u64
            } else {
                let files = self.database.transact(move |tx| delete_files(tx, before, page).boxed()).await?;
                info!(by = %which.by, before, files, "pruned");
                files
            };
        }
    }

    async fn count(&self, rest: &Rest, of: impl Iterator<Item = &Uuid>) -> Result<u64, Error> {
        #[derive(FromQueryResult)]
        struct Count {
            count: i64,
        }
        let pool = &self.database.pool;
        let sql = format!("SELECT count(*) AS count FROM {} WHERE {} = $1", rest.table, rest.of);
        let mut all = 0;
        for id in of {
            let found = Count::find_by_statement(statement(pool, &sql, [(*id).into()])).one(pool).await?;
            all += unsigned(found.map_or(0, |it| it.count))?;
        }
        Ok(all)
    }

    /// Deletes what is of a row that is gone.
    async fn clear(
        &self,
        rest: &'static Rest,
        of: Uuid,
        by: &str,
        all: &mut Pruned,
        told: &(impl Fn(Pruned) + Send + Sync),
    ) -> Result<(), Error> {
        let (mut after, mut lines) = (-1, 0);
        while let Some((last, rows)) =
            self.database.transact(move |tx| clear_page(tx, rest, of, after).boxed()).await?
        {
            after = last;
            if rest.lines {
                lines += rows;
                all.lines += rows;
            }
            told(*all);
        }
        if 0 < lines {
            info!(%by, batch = %of, lines, "pruned");
        }
        Ok(())
    }

    /// Deliveries that are settled and tell of a batch that is gone. One that is still to be sent is, and goes later.
    async fn prune_deliveries(&self) -> Result<(), Error> {
        #[derive(FromQueryResult)]
        struct Told {
            id: DeliveryId,
            payload: String,
        }
        let (pool, mut after) = (&self.database.pool, DeliveryId::nil());
        let settled = format!("state IN ('{}', '{}')", DeliveryState::Delivered, DeliveryState::Failed);
        let read = format!(
            "SELECT id, payload FROM webhook_deliveries WHERE {settled} AND id > $1 ORDER BY id LIMIT {PAGE}"
        );
        let known = format!("SELECT id FROM batches WHERE id IN ({})", list(pool, 1));
        let delete = format!("DELETE FROM webhook_deliveries WHERE id IN ({}) AND {settled}", list(pool, 1));
        loop {
            let page = Told::find_by_statement(statement(pool, &read, [after.into()])).all(pool).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            let of: Vec<(DeliveryId, BatchId)> =
                page.iter().filter_map(|it| Some((it.id, batch_in(&it.payload)?))).collect();
            let named: Vec<BatchId> = of.iter().map(|(_, batch)| *batch).collect();
            let there: BTreeSet<BatchId> =
                ids(pool, &known, [listed(pool, &named)]).await?.into_iter().collect();
            let gone = of.iter().filter(|(_, batch)| !there.contains(batch)).map(|(id, _)| *id);
            let gone: Vec<DeliveryId> = gone.collect();
            if !gone.is_empty() {
                self.database.writer.execute_raw(statement(pool, &delete, [listed(pool, &gone)])).await?;
            }
        }
    }
}

/// That a batch has been over since before `$1`.
fn over() -> String {
    let over = BatchStatus::ALL.iter().filter_map(|it| {
        let ended_at = match it {
            BatchStatus::Completed => "completed_at",
            BatchStatus::Failed => "failed_at",
            BatchStatus::Expired => "expired_at",
            BatchStatus::Cancelled => "cancelled_at",
            BatchStatus::Validating
            | BatchStatus::InProgress
            | BatchStatus::Finalizing
            | BatchStatus::Cancelling => return None,
        };
        Some(format!("status = '{it}' AND {ended_at} < $1"))
    });
    over.collect::<Vec<_>>().join(" OR ")
}

/// That it is this batch, that it has been over for so long, and that no thread is held that it opened, or whose answer one
/// of its lines has.
///
/// **Invariant:** whatever deletes a batch says this of its row, in the statement that deletes it.
fn this_one(db: &impl ConnectionTrait) -> String {
    // One walk over its items, however many are held: whoever plans this knows little of either.
    let held = if db.get_database_backend() == DbBackend::Postgres {
        "thread_id = ANY (ARRAY(SELECT thread_id FROM holds))"
    } else {
        "thread_id IN (SELECT thread_id FROM holds)"
    };
    format!(
        "id = $2 AND ({}) AND (NOT EXISTS (SELECT 1 FROM holds) \
         OR (NOT EXISTS (SELECT 1 FROM batch_items WHERE batch_id = $2 AND {held}) \
         AND NOT EXISTS (SELECT 1 FROM holds JOIN turns ON turns.thread_id = holds.thread_id \
         WHERE turns.idempotency_key LIKE $3)))",
        over()
    )
}

/// The values of [`this_one`]: the keys of turns that a batch has fed begin with its name.
fn values(before: i64, id: BatchId) -> [Value; 3] {
    [before.into(), id.into(), format!("%batch:{id}:%").into()]
}

async fn may_go(db: &impl ConnectionTrait, before: i64, id: BatchId) -> Result<bool, Error> {
    let sql = format!("SELECT id FROM batches WHERE {}", this_one(db));
    Ok(!ids(db, &sql, values(before, id)).await?.is_empty())
}

async fn delete(tx: &DatabaseTransaction, before: i64, id: BatchId) -> Result<bool, Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        ids(tx, "SELECT id FROM batches WHERE id = $1 FOR UPDATE", [id.into()]).await?;
        // Who holds a thread comes before, and is seen, or finds the batch gone.
        tx.execute_raw(statement(tx, "LOCK TABLE holds IN SHARE MODE", [])).await?;
    }
    let sql = format!("DELETE FROM batches WHERE {}", this_one(tx));
    Ok(tx.execute_raw(statement(tx, &sql, values(before, id))).await?.rows_affected() == 1)
}

/// Files that are whole and were begun before `$1`, and that no batch names, except those of `$2`; of these only `such`.
fn unused(db: &impl ConnectionTrait, such: &str) -> String {
    let named =
        |column| format!("SELECT {column} AS id FROM batches WHERE batches.id NOT IN ({})", list(db, 2));
    let named = ["input_file", "output_file", "error_file"].map(named).join(" UNION ALL ");
    format!(
        "SELECT files.id FROM files LEFT JOIN ({named}) AS named ON named.id = files.id \
         WHERE named.id IS NULL AND files.status = 'processed' AND files.created_at < $1 AND {such}"
    )
}

/// **Invariant:** the rows are locked first, as by whoever makes a batch of a file: one of the two sees the other.
async fn delete_files(tx: &DatabaseTransaction, before: i64, page: Vec<FileId>) -> Result<u64, Error> {
    alone(tx).await?;
    if tx.get_database_backend() == DbBackend::Postgres {
        let sql = format!("SELECT id FROM files WHERE id IN ({}) ORDER BY id FOR UPDATE", list(tx, 1));
        ids(tx, &sql, [listed(tx, &page)]).await?;
    }
    let such = unused(tx, &format!("files.id IN ({})", list(tx, 3)));
    let sql = format!("DELETE FROM files WHERE id IN ({such})");
    let values = [before.into(), listed(tx, &[]), listed(tx, &page)];
    Ok(tx.execute_raw(statement(tx, &sql, values)).await?.rows_affected())
}

/// Whose rows are gone, of all that is there. Looks once for each that it is of, however many rows that has.
async fn leftovers(db: &impl ConnectionTrait, rest: &Rest) -> Result<Vec<Uuid>, Error> {
    let Rest { table, of, owner, .. } = rest;
    let sql = format!(
        "WITH RECURSIVE seen(id) AS (SELECT (SELECT {of} FROM {table} ORDER BY {of} LIMIT 1) UNION ALL \
         SELECT (SELECT {of} FROM {table} WHERE {of} > seen.id ORDER BY {of} LIMIT 1) \
         FROM seen WHERE seen.id IS NOT NULL) \
         SELECT id FROM seen WHERE id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM {owner} WHERE {owner}.id = seen.id)"
    );
    ids(db, &sql, []).await
}

/// Deletes the next rows after number `after`: the last of their numbers, and how many there were.
async fn clear_page(
    tx: &DatabaseTransaction,
    rest: &Rest,
    id: Uuid,
    after: i64,
) -> Result<Option<(i64, u64)>, Error> {
    #[derive(FromQueryResult)]
    struct Last {
        last: Option<i64>,
    }
    alone(tx).await?;
    let Rest { table, of, owner, nth, page, .. } = rest;
    let sql = format!(
        "SELECT CAST(max(nth) AS BIGINT) AS last FROM (SELECT {nth} AS nth FROM {table} \
         WHERE {of} = $1 AND {nth} > $2 ORDER BY {nth} LIMIT {page}) AS page"
    );
    let last = Last::find_by_statement(statement(tx, &sql, [id.into(), after.into()])).one(tx).await?;
    let Some(last) = last.and_then(|it| it.last) else { return Ok(None) };
    // A file may have been begun again under its name.
    let sql = format!(
        "DELETE FROM {table} WHERE {of} = $1 AND {nth} > $2 AND {nth} <= $3 \
         AND NOT EXISTS (SELECT 1 FROM {owner} WHERE id = $1)"
    );
    let deleted = tx.execute_raw(statement(tx, &sql, [id.into(), after.into(), last.into()])).await?;
    Ok(Some((last, deleted.rows_affected())))
}

/// Has those that prune at once delete one after the other, so that none waits for the other for ever.
async fn alone(tx: &DatabaseTransaction) -> Result<(), Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        let sql = "SELECT pg_advisory_xact_lock(hashtext('prune'), 0)";
        tx.execute_raw(statement(tx, sql, [])).await?;
    }
    Ok(())
}

/// The batch that a delivery tells of, as it was announced.
fn batch_in(payload: &str) -> Option<BatchId> {
    let payload: Json = serde_json::from_str(payload).ok()?;
    payload["data"]["id"].as_str()?.strip_prefix("batch_")?.parse().ok()
}

async fn ids<const N: usize>(
    db: &impl ConnectionTrait,
    sql: &str,
    values: [Value; N],
) -> Result<Vec<Uuid>, Error> {
    let rows = Row::find_by_statement(statement(db, sql, values)).all(db).await?;
    Ok(rows.into_iter().map(|it| it.id).collect())
}
