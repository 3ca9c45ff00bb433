//! Deletes threads that have rested for long: with [`bulk`](crate::bulk)'s `prune.rs`, the only thing that deletes what
//! happened.
//!
//! ## Who may be at a thread meanwhile
//!
//! The row of the thread is locked first, and then, in a statement that sees what was written until that moment, is
//! deleted if it may be. Whoever submits to the thread, holds it or marks a step of it locks that row too: so either
//! they come first and the thread stays, or they find it gone. Whoever appends without a mark asks no row: it is in the
//! middle of a turn, whose first step marked the thread, and a thread that is not at rest stays
//! ([`append`](super::append)).

use futures::FutureExt as _;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, FromQueryResult, Value};
use serde_json::json;
use tracing::info;
use uuid::Uuid;

use super::{DryRun, Store, ThreadId, database::statement, plain};
use crate::Error;

/// How many threads one transaction deletes.
const THREADS: u64 = 50;

/// What to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Threads that were last touched before, batches that were over before, and files that were begun before, in
    /// microseconds since the Unix epoch.
    pub before: i64,
    /// Only threads, and of these only those under this strategy.
    pub strategy: Option<String>,
    /// Who deletes them, for the traces.
    pub by: String,
}

/// What was deleted, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Threads.
    pub threads: u64,
    /// Their turns.
    pub turns: u64,
    /// Their events.
    pub events: u64,
    /// Batches.
    pub batches: u64,
    /// Lines of batches.
    pub lines: u64,
    /// Files.
    pub files: u64,
}

impl Pruned {
    fn add(&mut self, other: Self) {
        self.threads += other.threads;
        self.turns += other.turns;
        self.events += other.events;
        self.batches += other.batches;
        self.lines += other.lines;
        self.files += other.files;
    }
}

/// **Invariant:** whatever deletes a thread says this of its row, in the statement that deletes it.
const MAY_GO: &str = "threads.status IN ('idle', 'error') AND threads.updated_at < $1 \
    AND ($2 = '' OR threads.strategy = $2) \
    AND NOT EXISTS (SELECT 1 FROM holds WHERE holds.thread_id = threads.id) \
    AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.thread_id = threads.id \
    AND (turns.status = 'queued' OR turns.updated_at >= $1))";

#[derive(FromQueryResult)]
struct Row {
    id: ThreadId,
}

impl Store {
    /// Deletes threads that are at rest and were not touched for long, with their turns and events; none that is held,
    /// and none that has a turn to hear. Some threads a transaction: what was deleted when it is broken off stays
    /// deleted, and the next call goes on. A dry run only counts.
    ///
    /// With a turn goes its idempotency key, and with a fork its own: the same submission would be a new one.
    ///
    /// Also deletes batches that have been over for long, with their items, results and files, and files for which there is
    /// no batch; none that is open, and none with a line whose thread is held. What came of a line is kept until then,
    /// also if its thread is gone.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn prune(
        &self,
        which: &Prune,
        dry_run: DryRun,
        told: impl Fn(Pruned) + Send + Sync,
    ) -> Result<Pruned, Error> {
        let mut all = Pruned::default();
        let mut after = ThreadId::nil();
        loop {
            let page = candidates(&self.database.pool, which, after).await?;
            let Some(last) = page.last() else { break };
            after = *last;
            let pruned = if dry_run == DryRun::Yes {
                count(&self.database.pool, &page).await?
            } else {
                let wanted = which.clone();
                let pruned = self.database.transact(move |tx| delete(tx, wanted, page).boxed()).await?;
                let Pruned { threads, turns, events, .. } = pruned;
                info!(by = %which.by, before = which.before, threads, turns, events, "pruned");
                pruned
            };
            all.add(pruned);
            told(all);
        }
        match which.strategy {
            None => self.prune_bulk(which, dry_run, all, told).await,
            Some(_) => Ok(all),
        }
    }
}

async fn candidates(
    db: &impl ConnectionTrait,
    which: &Prune,
    after: ThreadId,
) -> Result<Vec<ThreadId>, Error> {
    let sql = format!(
        "SELECT threads.id FROM threads WHERE {MAY_GO} AND threads.id > $3 ORDER BY threads.id LIMIT {THREADS}"
    );
    ids(db, &sql, [which.before.into(), strategy(which), after.into()]).await
}

async fn delete(tx: &DatabaseTransaction, which: Prune, page: Vec<ThreadId>) -> Result<Pruned, Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        // In one order, so that of two that prune at once none waits for the other for ever.
        let sql = format!("SELECT id FROM threads WHERE id IN ({}) ORDER BY id FOR UPDATE", list(tx, 1));
        ids(tx, &sql, [listed(tx, &page)]).await?;
    }
    let sql = format!("DELETE FROM threads WHERE id IN ({}) AND {MAY_GO} RETURNING id", list(tx, 3));
    let gone = ids(tx, &sql, [which.before.into(), strategy(&which), listed(tx, &page)]).await?;
    let mut pruned = Pruned { threads: gone.len() as u64, ..Pruned::default() };
    // **The place for tables that come later:** all that is a thread's own goes with it.
    let mut keys = 0;
    for (table, count) in [("turns", &mut pruned.turns), ("events", &mut pruned.events), ("forks", &mut keys)]
    {
        let sql = format!("DELETE FROM {table} WHERE thread_id IN ({})", list(tx, 1));
        *count = tx.execute_raw(statement(tx, &sql, [listed(tx, &gone)])).await?.rows_affected();
    }
    Ok(pruned)
}

async fn count(db: &impl ConnectionTrait, page: &[ThreadId]) -> Result<Pruned, Error> {
    #[derive(FromQueryResult)]
    struct Count {
        turns: i64,
        events: i64,
    }
    let list = list(db, 1);
    let sql = format!(
        "SELECT (SELECT count(*) FROM turns WHERE thread_id IN ({list})) AS turns, \
         (SELECT count(*) FROM events WHERE thread_id IN ({list})) AS events"
    );
    let found = Count::find_by_statement(statement(db, &sql, [listed(db, page)])).one(db).await?;
    let (turns, events) = found.map_or((0, 0), |it| (it.turns, it.events));
    Ok(Pruned {
        threads: page.len() as u64,
        turns: super::unsigned(turns)?,
        events: super::unsigned(events)?,
        ..Pruned::default()
    })
}

fn strategy(which: &Prune) -> Value {
    which.strategy.as_deref().map(plain).unwrap_or_default().into()
}

/// Identities as one value, and how that is spread into a list: a text that does not depend on how many there are.
pub(crate) fn listed(db: &impl ConnectionTrait, ids: &[Uuid]) -> Value {
    if db.get_database_backend() == DbBackend::Postgres {
        return ids.to_vec().into();
    }
    let ids: Vec<String> = ids.iter().map(|it| it.simple().to_string()).collect();
    json!(ids).to_string().into()
}

pub(crate) fn list(db: &impl ConnectionTrait, nth: usize) -> String {
    if db.get_database_backend() == DbBackend::Postgres {
        format!("SELECT unnest(${nth}::uuid[])")
    } else {
        format!("SELECT unhex(value) FROM json_each(${nth})")
    }
}

async fn ids<const N: usize>(
    db: &impl ConnectionTrait,
    sql: &str,
    values: [Value; N],
) -> Result<Vec<ThreadId>, Error> {
    let rows = Row::find_by_statement(statement(db, sql, values)).all(db).await?;
    Ok(rows.into_iter().map(|it| it.id).collect())
}
