//! Deletes threads that have been idle for long. Together with [`batches`](crate::batches)' pruning, this is the only
//! code that deletes history.
//!
//! ## Concurrent access to a thread
//!
//! The thread's row is locked first. A second statement, which sees everything committed until then, deletes it if it
//! may be deleted. Submitting a turn, placing a hold and updating the read model lock the same row: they either come
//! first, and the thread stays, or find it deleted. An append without a read model update locks no row. It belongs to a
//! running turn whose first append did update the row, and a thread that is not idle is never deleted
//! ([`append`](crate::Store::append)).
//!
//! ## Why candidates are read first, and then looked up by key
//!
//! With the statistics of a large database, PostgreSQL reads all turns for every page to find the threads without a queued one.
//! The pages therefore come from the threads alone. The second statement looks up the turns of each, on the connections for
//! frequent statements, which leave the planner no other way. Only their short timeout does not apply: a page may have millions of
//! events.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Value};
use serde_json::json;
use tracing::info;
use uuid::Uuid;

use crate::{
    AdminEvent, By, Error,
    admin::{Entry, append},
    log::{
        Store, Transaction,
        database::{looked_up, statement},
        ids::{DryRun, ThreadId, plain},
        two_phases::commit_in_two_phases,
    },
    search,
};

/// Maximum number of threads deleted in one transaction. In SQLite, other writers wait for it.
const THREADS: u64 = 200;
const SQLITE_THREADS: u64 = 50;

/// Selection of data to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prune {
    /// Time limit, in microseconds since the Unix epoch: threads last updated before it, batches that ended before it,
    /// and files created before it.
    pub before: i64,
    /// Strategy of the threads to delete; batches and files are kept if it is given.
    pub strategy: Option<String>,
    /// Author of the deletion, and the reason.
    pub by: By,
}

/// Numbers of rows deleted, or that would be deleted in a dry run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of threads.
    pub threads: u64,
    /// Number of turns.
    pub turns: u64,
    /// Number of events.
    pub events: u64,
    /// Number of batches.
    pub batches: u64,
    /// Number of lines of batches.
    pub lines: u64,
    /// Number of files.
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

/// Condition for a thread that may be deleted, by its row alone.
const IS_OLD: &str =
    "threads.status IN ('idle', 'error') AND threads.updated_at < $1 AND ($2 = '' OR threads.strategy = $2)";

/// Condition for a thread that may be deleted.
///
/// **Invariant:** every statement that deletes a thread's row contains this condition.
fn may_go(db: &impl ConnectionTrait) -> String {
    let held = looked_up(db, "holds.thread_id", "threads.id");
    let of_thread = looked_up(db, "turns.thread_id", "threads.id");
    format!(
        "{IS_OLD} AND NOT EXISTS (SELECT 1 FROM holds WHERE {held}) AND NOT EXISTS (SELECT 1 FROM turns \
         WHERE {of_thread} AND (turns.status = 'queued' OR turns.updated_at >= $1))"
    )
}

#[derive(FromQueryResult)]
struct Row {
    id: ThreadId,
}

impl Store {
    /// Deletes idle threads that were not updated since the given time, with their turns, events and attachments. Threads under a
    /// hold and threads with a queued turn are kept. Each transaction deletes a limited number of threads, so an
    /// interrupted prune keeps its progress and the next call continues. A dry run only counts.
    ///
    /// The idempotency keys of turns and forks are deleted with them, so a repeated submission becomes a new one.
    ///
    /// Also deletes conversations that were created before the given time and have no thread, batches that ended before it, with
    /// their items, results and files, and files that belong to no batch. Open batches, and batches with a thread under a hold, are kept. The result of a line is kept
    /// as long as its batch, even if its thread is deleted earlier.
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
            let page = self.candidates(which, after).await?;
            let Some(last) = page.last() else { break };
            after = *last;
            let pruned = if dry_run == DryRun::Yes {
                let hot = &self.database.hot;
                count(hot, &going(hot, which, &page).await?).await?
            } else {
                let wanted = which.clone();
                let pruned = self.database.transact_hot(move |tx| prune(tx, wanted, page).boxed()).await?;
                let Pruned { threads, turns, events, .. } = pruned;
                info!(by = %which.by.name, before = which.before, threads, turns, events, "pruned");
                pruned
            };
            all.add(pruned);
            told(all);
        }
        if which.strategy.is_none() && dry_run == DryRun::No {
            let before = which.before;
            self.database.transact(move |tx| delete_unused_conversations(tx, before).boxed()).await?;
        }
        match which.strategy {
            None => self.prune_bulk(which, dry_run, all, told).await,
            Some(_) => Ok(all),
        }
    }

    /// Returns the next threads that are old enough. Some of them may have to stay.
    async fn candidates(&self, which: &Prune, after: ThreadId) -> Result<Vec<ThreadId>, Error> {
        if self.database.postgres().is_none() {
            // A transaction would keep other writers waiting.
            return candidates(&self.database.pool, which, after, SQLITE_THREADS).await;
        }
        let which = which.clone();
        let page = self.database.transact_hot(move |tx| {
            async move {
                take_time(tx).await?;
                candidates(tx, &which, after, THREADS).await
            }
            .boxed()
        });
        page.await
    }

    /// Deletes one thread with its turns and events, whatever its age. Returns what was deleted, or `None` if the thread does
    /// not exist or must stay: it is busy, waits for an answer, has a queued turn, or is under a hold.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn delete_thread(&self, thread: ThreadId, by: impl Into<By>) -> Result<Option<Pruned>, Error> {
        let by = by.into();
        let (name, any_age) = (by.name.clone(), Prune { before: i64::MAX, strategy: None, by });
        let deleted = self.database.transact_hot(move |tx| delete_one(tx, any_age, thread).boxed()).await?;
        if deleted.threads == 0 {
            return Ok(None);
        }
        info!(by = name, %thread, turns = deleted.turns, events = deleted.events, "deleted thread");
        Ok(Some(deleted))
    }
}

/// Deletes conversations without a thread, with the contents of their items.
async fn delete_unused_conversations(tx: &Transaction, before: i64) -> Result<(), Error> {
    commit_in_two_phases(tx).await?;
    let its_thread = looked_up(tx, "threads.id", "conversations.thread_id");
    let unused =
        format!("NOT begun AND created_at < $1 AND NOT EXISTS (SELECT 1 FROM threads WHERE {its_thread})");
    for sql in [
        format!(
            "DELETE FROM attachments WHERE thread_id IN (SELECT thread_id FROM conversations WHERE {unused})"
        ),
        format!("DELETE FROM conversations WHERE {unused}"),
    ] {
        tx.execute_raw(statement(tx, &sql, [before.into()])).await?;
    }
    Ok(())
}

/// Lets the statements of a transaction take as long as those of the ordinary connections.
async fn take_time(tx: &Transaction) -> Result<(), Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        tx.execute_unprepared("SET LOCAL statement_timeout = '10min'").await?;
    }
    Ok(())
}

async fn candidates(
    db: &impl ConnectionTrait,
    which: &Prune,
    after: ThreadId,
    limit: u64,
) -> Result<Vec<ThreadId>, Error> {
    let sql = format!(
        "SELECT threads.id FROM threads WHERE {IS_OLD} AND threads.id > $3 ORDER BY threads.id LIMIT {limit}"
    );
    ids(db, &sql, [which.before.into(), strategy(which), after.into()]).await
}

/// Returns the threads of a page that may be deleted.
async fn going(db: &impl ConnectionTrait, which: &Prune, page: &[ThreadId]) -> Result<Vec<ThreadId>, Error> {
    let sql = format!("SELECT id FROM threads WHERE {} AND {}", among(db, "id", 3), may_go(db));
    ids(db, &sql, [which.before.into(), strategy(which), listed(db, page)]).await
}

/// Deletes one thread, whatever its age.
async fn delete_one(tx: &Transaction, any_age: Prune, thread: ThreadId) -> Result<Pruned, Error> {
    let (pruned, gone) = delete(tx, &any_age, &[thread]).await?;
    let deleted = AdminEvent::ThreadDeleted { thread, turns: pruned.turns, events: pruned.events };
    let entry = |row: Gone| Entry::new(Some(&row.tenant), any_age.by.clone(), deleted.clone());
    append(tx, gone.into_iter().map(entry).collect()).await?;
    Ok(pruned)
}

/// Deletes the threads of a page that may go. Each of their tenants gets one entry, with at most a page of ids.
async fn prune(tx: &Transaction, which: Prune, page: Vec<ThreadId>) -> Result<Pruned, Error> {
    let (pruned, gone) = delete(tx, &which, &page).await?;
    let mut tenants: BTreeMap<String, Vec<ThreadId>> = BTreeMap::new();
    for Gone { id, tenant } in gone {
        tenants.entry(tenant).or_default().push(id);
    }
    let entry = |(tenant, threads): (String, Vec<ThreadId>)| {
        let pruned = AdminEvent::ThreadsPruned { threads, before: which.before };
        Entry::new(Some(&tenant), which.by.clone(), pruned)
    };
    append(tx, tenants.into_iter().map(entry).collect()).await?;
    Ok(pruned)
}

/// A thread that was deleted.
#[derive(FromQueryResult)]
struct Gone {
    id: ThreadId,
    tenant: String,
}

async fn delete(tx: &Transaction, which: &Prune, page: &[ThreadId]) -> Result<(Pruned, Vec<Gone>), Error> {
    take_time(tx).await?;
    commit_in_two_phases(tx).await?;
    if tx.get_database_backend() == DbBackend::Postgres {
        // Locked in a fixed order, so that concurrent prunes cannot deadlock.
        let sql = format!("SELECT id FROM threads WHERE {} ORDER BY id FOR UPDATE", among(tx, "id", 1));
        ids(tx, &sql, [listed(tx, page)]).await?;
    }
    let sql =
        format!("DELETE FROM threads WHERE {} AND {} RETURNING id, tenant", among(tx, "id", 3), may_go(tx));
    let values = [which.before.into(), strategy(which), listed(tx, page)];
    let rows = Gone::find_by_statement(statement(tx, &sql, values)).all(tx).await?;
    let gone: Vec<ThreadId> = rows.iter().map(|row| row.id).collect();
    let mut pruned = Pruned { threads: gone.len() as u64, ..Pruned::default() };
    // **Invariant:** every new table whose rows belong to a thread must be deleted from here.
    let (mut keys, mut contents, mut spans, mut requests, mut conversations) = (0, 0, 0, 0, 0);
    let tables = [
        ("turns", &mut pruned.turns),
        ("events", &mut pruned.events),
        ("forks", &mut keys),
        ("attachments", &mut contents),
        ("trace_parents", &mut spans),
        ("cancel_requests", &mut requests),
        ("conversations", &mut conversations),
    ];
    for (table, count) in tables {
        let sql = format!("DELETE FROM {table} WHERE {}", among(tx, "thread_id", 1));
        *count = tx.execute_raw(statement(tx, &sql, [listed(tx, &gone)])).await?.rows_affected();
    }
    if !gone.is_empty() {
        search::delete(tx, &gone).await?;
    }
    Ok((pruned, rows))
}

async fn count(db: &impl ConnectionTrait, going: &[ThreadId]) -> Result<Pruned, Error> {
    #[derive(FromQueryResult)]
    struct Count {
        turns: i64,
        events: i64,
    }
    let of_page = among(db, "thread_id", 1);
    let sql = format!(
        "SELECT (SELECT count(*) FROM turns WHERE {of_page}) AS turns, \
         (SELECT count(*) FROM events WHERE {of_page}) AS events"
    );
    let found = Count::find_by_statement(statement(db, &sql, [listed(db, going)])).one(db).await?;
    let (turns, events) = found.map_or((0, 0), |row| (row.turns, row.events));
    Ok(Pruned {
        threads: going.len() as u64,
        turns: crate::log::ids::unsigned(turns)?,
        events: crate::log::ids::unsigned(events)?,
        ..Pruned::default()
    })
}

fn strategy(which: &Prune) -> Value {
    which.strategy.as_deref().map(plain).unwrap_or_default().into()
}

/// Returns the ids as one bound value; the SQL text that expands it is independent of their number.
pub(crate) fn listed(db: &impl ConnectionTrait, ids: &[Uuid]) -> Value {
    if db.get_database_backend() == DbBackend::Postgres {
        return ids.to_vec().into();
    }
    let ids: Vec<String> = ids.iter().map(|id| id.simple().to_string()).collect();
    json!(ids).to_string().into()
}

/// Condition that a column has one of the listed ids.
fn among(db: &impl ConnectionTrait, column: &str, nth: usize) -> String {
    if db.get_database_backend() == DbBackend::Postgres {
        format!("{column} = ANY (${nth}::uuid[])")
    } else {
        format!("{column} IN ({})", list(db, nth))
    }
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
    Ok(rows.into_iter().map(|row| row.id).collect())
}
