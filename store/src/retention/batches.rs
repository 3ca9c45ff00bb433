//! Deletes batches that ended long ago, with everything they own, and files that no batch refers to.
//!
//! ## Order of deletion
//!
//! A batch can have a million lines, so it is deleted in many transactions. The first one deletes the batch's row,
//! after which the batch no longer exists. The rows of unreferenced files follow. Everything left without an owner is
//! then deleted page by page: items before results, so that no reusable item is found without its result, and finally
//! the chunks of files. The remains are found by their missing owner, so an interrupted prune is completed by the next
//! one.
//!
//! ## Concurrent access to a batch
//!
//! The batch's row is locked first. A second statement, which sees everything committed until then, deletes it if it
//! may be deleted; resuming a batch locks the same row. The table of holds is locked for the deletion, so a hold that
//! was placed earlier keeps the batch. Creating a batch locks the row of its file.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt as _;
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Value};
use serde_json::Value as Json;
use tracing::info;
use uuid::Uuid;

use crate::{
    AdminEvent, By, DryRun, Error, Prune, Pruned, Store,
    admin::{Entry, append},
    batches::{BatchId, BatchStatus, FileId},
    log::{Transaction, looked_up, one_at_a_time, statement, unsigned},
    retention::{list, listed},
    webhooks::{DeliveryId, DeliveryState},
};

/// Number of batches, files or deliveries examined per page.
const PAGE: u64 = 200;

/// A table whose rows are meaningless without their owner.
struct Rest {
    table: &'static str,
    /// Column that refers to the owner, and the owner's table.
    of: &'static str,
    owner: &'static str,
    /// Column that numbers the rows of one owner.
    nth: &'static str,
    /// Maximum number of rows deleted in one transaction.
    page: u64,
    /// True if each row is a line of a batch.
    lines: bool,
}

/// **Invariant:** items come before results.
const RESTS: [Rest; 3] = [
    Rest { table: "batch_items", of: "batch_id", owner: "batches", nth: "nth", page: 1000, lines: true },
    Rest { table: "batch_results", of: "batch_id", owner: "batches", nth: "n", page: 500, lines: false },
    // Rows of about 256 KiB each.
    Rest { table: "file_chunks", of: "file_id", owner: "files", nth: "nth", page: 32, lines: false },
];

#[derive(FromQueryResult)]
struct Row {
    id: Uuid,
}

impl Store {
    /// Prunes batches and files for [`Store::prune`], and adds their numbers to `all`.
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
                self.clear(rest, id, &which.by.name, &mut all, &told).await?;
            }
        }
        if dry_run == DryRun::No {
            self.prune_deliveries().await?;
        }
        Ok(all)
    }

    /// Deletes the rows of old batches, or lists them in a dry run.
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
                // Checked in advance because it may take a while, so that a batch that stays is not locked meanwhile.
                if !may_go(pool, before, id).await? {
                    continue;
                }
                if dry_run == DryRun::No {
                    let by = which.by.clone();
                    if !self.database.transact(move |tx| delete(tx, before, id, by).boxed()).await? {
                        continue;
                    }
                    info!(by = %which.by.name, before, batch = %id, "pruned");
                }
                gone.push(id);
                all.batches += 1;
                told(*all);
            }
        }
    }

    /// Deletes the rows of complete, old files that no batch refers to, and returns their number. A dry run counts them
    /// as if the batches in `without` were already deleted.
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
                let by = which.by.clone();
                let files =
                    self.database.transact(move |tx| delete_files(tx, before, page, by).boxed()).await?;
                info!(by = %which.by.name, before, files, "pruned");
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
            all += unsigned(found.map_or(0, |row| row.count))?;
        }
        Ok(all)
    }

    /// Deletes the rows whose owner is gone.
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

    /// Deletes finished deliveries about deleted batches. A pending delivery is still sent, and deleted later.
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
                page.iter().filter_map(|row| Some((row.id, batch_in(&row.payload)?))).collect();
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

/// SQL condition for a batch that ended before `$1`.
fn over() -> String {
    let over = BatchStatus::ALL.iter().filter_map(|status| {
        let ended_at = match status {
            BatchStatus::Completed => "completed_at",
            BatchStatus::Failed => "failed_at",
            BatchStatus::Expired => "expired_at",
            BatchStatus::Cancelled => "cancelled_at",
            BatchStatus::Validating
            | BatchStatus::InProgress
            | BatchStatus::Finalizing
            | BatchStatus::Cancelling => return None,
        };
        Some(format!("status = '{status}' AND {ended_at} < $1"))
    });
    over.collect::<Vec<_>>().join(" OR ")
}

/// SQL condition for this batch if it ended long enough ago and there is no hold on a thread that it opened or whose
/// response one of its lines reuses.
///
/// **Invariant:** every statement that deletes a batch's row contains this condition.
fn this_one(db: &impl ConnectionTrait) -> String {
    // Written to scan the items once however many holds there are, because the planner has poor statistics for both
    // tables.
    let held = if db.get_database_backend() == DbBackend::Postgres {
        "thread_id = ANY (ARRAY(SELECT thread_id FROM holds))"
    } else {
        "thread_id IN (SELECT thread_id FROM holds)"
    };
    format!(
        "id = $2 AND ({}) AND (NOT EXISTS (SELECT 1 FROM holds) \
         OR (NOT EXISTS (SELECT 1 FROM batch_items WHERE batch_id = $2 AND {held}) \
         AND NOT EXISTS (SELECT 1 FROM holds WHERE (SELECT turns.idempotency_key FROM turns \
         WHERE turns.thread_id = holds.thread_id ORDER BY turns.position LIMIT 1) LIKE $3)))",
        over()
    )
}

/// Values for [`this_one`]. The idempotency keys of the turns that a batch submits begin with its id; each is the first of its thread.
fn values(before: i64, id: BatchId) -> [Value; 3] {
    [before.into(), id.into(), format!("%batch:{id}:%").into()]
}

async fn may_go(db: &impl ConnectionTrait, before: i64, id: BatchId) -> Result<bool, Error> {
    let sql = format!("SELECT id FROM batches WHERE {}", this_one(db));
    Ok(!ids(db, &sql, values(before, id)).await?.is_empty())
}

async fn delete(tx: &Transaction, before: i64, id: BatchId, by: By) -> Result<bool, Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        ids(tx, "SELECT id FROM batches WHERE id = $1 FOR UPDATE", [id.into()]).await?;
        // A concurrent hold either commits before this lock and is seen, or finds the batch deleted.
        tx.execute_raw(statement(tx, "LOCK TABLE holds IN SHARE MODE", [])).await?;
    }
    let sql = format!("DELETE FROM batches WHERE {} RETURNING id, tenant", this_one(tx));
    let gone = Gone::find_by_statement(statement(tx, &sql, values(before, id))).one(tx).await?;
    let Some(Gone { id: batch, tenant }) = gone else { return Ok(false) };
    append(tx, vec![Entry::new(Some(&tenant), by, AdminEvent::BatchPruned { batch, before })]).await?;
    Ok(true)
}

/// A batch or file that was deleted.
#[derive(FromQueryResult)]
struct Gone {
    id: Uuid,
    tenant: String,
}

/// Builds a query for complete files created before `$1` that no batch refers to, except the batches in `$2`; `such`
/// restricts it further.
fn unused(db: &impl ConnectionTrait, such: &str) -> String {
    let named = |column: &str| {
        let named = looked_up(db, &format!("batches.{column}"), "files.id");
        format!("NOT EXISTS (SELECT 1 FROM batches WHERE {named} AND batches.id NOT IN ({}))", list(db, 2))
    };
    let [input, output, error] = ["input_file", "output_file", "error_file"].map(named);
    format!(
        "SELECT files.id FROM files WHERE files.status = 'processed' AND files.created_at < $1 \
         AND {input} AND {output} AND {error} AND {such}"
    )
}

/// **Invariant:** the rows are locked first, as they are when a batch is created from a file, so one of the two sees
/// the other.
async fn delete_files(tx: &Transaction, before: i64, page: Vec<FileId>, by: By) -> Result<u64, Error> {
    // Concurrent prunes would deadlock.
    one_at_a_time(tx, "prune", "").await?;
    if tx.get_database_backend() == DbBackend::Postgres {
        let sql = format!("SELECT id FROM files WHERE id IN ({}) ORDER BY id FOR UPDATE", list(tx, 1));
        ids(tx, &sql, [listed(tx, &page)]).await?;
    }
    let such = unused(tx, &format!("files.id IN ({})", list(tx, 3)));
    let sql = format!("DELETE FROM files WHERE id IN ({such}) RETURNING id, tenant");
    let values = [before.into(), listed(tx, &[]), listed(tx, &page)];
    let gone = Gone::find_by_statement(statement(tx, &sql, values)).all(tx).await?;
    let count = gone.len() as u64;
    let mut tenants: BTreeMap<String, Vec<FileId>> = BTreeMap::new();
    for Gone { id, tenant } in gone {
        tenants.entry(tenant).or_default().push(id);
    }
    let entry = |(tenant, files): (String, Vec<FileId>)| {
        Entry::new(Some(&tenant), by.clone(), AdminEvent::FilesPruned { files, before })
    };
    append(tx, tenants.into_iter().map(entry).collect()).await?;
    Ok(count)
}

/// Returns owners that are gone but still have rows in this table. Costs one lookup per owner, whatever its number of
/// rows.
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

/// Deletes the next page of rows after number `after`. Returns the last deleted number and the number of rows.
async fn clear_page(
    tx: &Transaction,
    rest: &Rest,
    id: Uuid,
    after: i64,
) -> Result<Option<(i64, u64)>, Error> {
    #[derive(FromQueryResult)]
    struct Last {
        last: Option<i64>,
    }
    one_at_a_time(tx, "prune", "").await?;
    let Rest { table, of, owner, nth, page, .. } = rest;
    let sql = format!(
        "SELECT CAST(max(nth) AS BIGINT) AS last FROM (SELECT {nth} AS nth FROM {table} \
         WHERE {of} = $1 AND {nth} > $2 ORDER BY {nth} LIMIT {page}) AS page"
    );
    let last = Last::find_by_statement(statement(tx, &sql, [id.into(), after.into()])).one(tx).await?;
    let Some(last) = last.and_then(|row| row.last) else { return Ok(None) };
    // A new upload may have started under the same id.
    let sql = format!(
        "DELETE FROM {table} WHERE {of} = $1 AND {nth} > $2 AND {nth} <= $3 \
         AND NOT EXISTS (SELECT 1 FROM {owner} WHERE id = $1)"
    );
    let deleted = tx.execute_raw(statement(tx, &sql, [id.into(), after.into(), last.into()])).await?;
    Ok(Some((last, deleted.rows_affected())))
}

/// Returns the id of the batch in a delivery's payload.
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
    Ok(rows.into_iter().map(|row| row.id).collect())
}
