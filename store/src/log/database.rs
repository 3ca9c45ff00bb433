//! Database connections and transactions.

use std::sync::Arc;

use futures::{FutureExt as _, future::BoxFuture};
use sea_orm::{ConnectionTrait, DbBackend, Statement, Value};
use tracing::Instrument as _;

use crate::{
    Error,
    log::{
        pool::{Pool, Transaction},
        server_watch::ServerWatch,
    },
};

/// Connections to the database. Clones share them.
///
/// ## Why one connection writes to SQLite
///
/// SQLite allows one write at a time, and a waiting writer occupies its connection: a few writers would leave none
/// for readers. The writers of this process therefore wait for the single connection that writes, in order. That
/// connection also caches work it has just written. Another process with the same file still makes the first in line
/// wait.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    /// Connections for reads; in SQLite they cannot write.
    pub(crate) pool: Pool,
    /// Connections for writes.
    pub(crate) writer: Pool,
    /// Runs the frequent statements: the steps of workers and the pages of batch items. Every row is found through an
    /// index.
    ///
    /// ## Why these connections are few and separate
    ///
    /// A pool uses its connections in turn, and each must prepare and plan a statement before its first use.
    /// Statements that run thousands of times a second run on a few connections that have prepared them.
    pub(crate) hot: Pool,
    /// Maximum connections of `pool`.
    pub(crate) connections: u32,
    /// True if Citus distributes `events` over several servers, as of the first connection.
    pub(crate) is_distributed: bool,
    /// Reads the clock of a PostgreSQL server.
    #[expect(dead_code, reason = "its task runs as long as it exists")]
    pub(crate) watch: Option<Arc<ServerWatch>>,
}

impl Database {
    /// Returns the `hot` pool if this is PostgreSQL.
    pub(crate) fn postgres(&self) -> Option<&Pool> {
        (self.hot.get_database_backend() == DbBackend::Postgres).then_some(&self.hot)
    }

    /// Runs `work` in a transaction, and commits if it succeeds.
    ///
    /// **Invariant:** the transaction runs in a task of its own, so it completes even if the caller is dropped. A
    /// transaction dropped halfway would stay open on a connection that is used again.
    pub(crate) async fn transact<T, W>(&self, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a Transaction) -> BoxFuture<'a, Result<T, Error>> + Send + 'static,
    {
        transact_over(self.writer.clone(), work).await
    }

    /// Runs `work` in a transaction on the `hot` connections.
    pub(crate) async fn transact_hot<T, W>(&self, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a Transaction) -> BoxFuture<'a, Result<T, Error>> + Send + 'static,
    {
        let over = if self.postgres().is_some() { &self.hot } else { &self.writer };
        transact_over(over.clone(), work).await
    }

    /// Begins a transaction that writes.
    pub(crate) async fn begin(&self) -> Result<Transaction, Error> {
        Ok(self.writer.begin().await?)
    }
}

async fn transact_over<T, W>(pool: Pool, work: W) -> Result<T, Error>
where
    T: Send + 'static,
    W: for<'a> FnOnce(&'a Transaction) -> BoxFuture<'a, Result<T, Error>> + Send + 'static,
{
    let transaction = async move {
        let tx = pool.begin().await?;
        let outcome = work(&tx).await;
        settle(tx, outcome).await
    };
    // Boxed: it takes kilobytes. The future of every caller would contain them, and every step would copy them.
    uninterrupted(transaction.boxed()).await
}

/// Runs `work` in a task of its own, so that it completes even if the caller is dropped.
pub(crate) async fn uninterrupted<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::spawn(work.in_current_span()).await;
    done.map_err(|error| Error::Unavailable(format!("the write was interrupted: {error}")))?
}

/// Commits after success and rolls back after an error.
pub(crate) async fn settle<T>(tx: Transaction, outcome: Result<T, Error>) -> Result<T, Error> {
    match outcome {
        Ok(value) => {
            tx.commit().await?;
            Ok(value)
        }
        Err(error) => {
            // The first error says more. A connection that cannot roll back is closed before its next use.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

/// Makes transactions of one kind about one subject wait for each other until they end.
///
/// Concurrent inserts are then counted one after the other. A row lock would not help, since the new rows do not exist yet.
/// SQLite has a single writer.
pub(crate) async fn one_at_a_time(tx: &Transaction, kind: &str, subject: &str) -> Result<(), Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        let sql = "SELECT pg_advisory_xact_lock(hashtext($1), hashtext($2))";
        tx.execute_raw(statement(tx, sql, [kind.into(), subject.into()])).await?;
    }
    Ok(())
}

/// Builds a statement from SQL with PostgreSQL's placeholders (`$1`).
pub(crate) fn statement(
    db: &impl ConnectionTrait,
    sql: &str,
    values: impl IntoIterator<Item = Value>,
) -> Statement {
    let backend = db.get_database_backend();
    let sql = if backend == DbBackend::Postgres { sql.to_owned() } else { sql.replace('$', "?") };
    Statement::from_sql_and_values(backend, sql, values)
}

/// Compares `column` with a value of another table so that the database looks the row up by index.
///
/// ## Why PostgreSQL does not see an equality
///
/// PostgreSQL can also merge-join equal columns by a scan of a whole index. With few rows this is the cheapest plan, and
/// PostgreSQL keeps the plan when there are many rows: each step then read all threads until the next ANALYZE. An element of an
/// array cannot be merge-joined, so only the index lookup remains.
pub(crate) fn looked_up(db: &impl ConnectionTrait, column: &str, value: &str) -> String {
    let value = if db.get_database_backend() == DbBackend::Postgres {
        format!("ANY (ARRAY[{value}])")
    } else {
        value.to_owned()
    };
    format!("{column} = {value}")
}

#[cfg(test)]
mod tests {
    use sea_orm::ConnectionTrait as _;

    use super::statement;
    use crate::{Error, Store};

    /// SQLite rolls back when the disk is full, and the driver does not notice.
    #[tokio::test]
    async fn a_write_after_the_disk_was_full_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("log.db").display());
        let database = Store::connect(&url).await.unwrap().database;
        let say = |words: &'static str| {
            let database = database.clone();
            async move {
                database
                    .transact(move |tx| Box::pin(async move { Ok(tx.execute_unprepared(words).await?) }))
                    .await
            }
        };
        say("CREATE TABLE said (words BLOB)").await.unwrap();
        database.writer.execute_unprepared("PRAGMA max_page_count = 20").await.unwrap();
        say("INSERT INTO said VALUES (zeroblob(1000000))").await.unwrap_err();
        database.writer.execute_unprepared("PRAGMA max_page_count = 100000").await.unwrap();
        let refused = database.transact(|_| Box::pin(async { Err::<(), _>(Error::KeyReused) })).await;
        refused.unwrap_err();
        say("INSERT INTO said VALUES ('acknowledged')").await.unwrap();
        let told = statement(&database.pool, "SELECT words FROM said", []);
        assert_eq!(database.pool.query_all_raw(told).await.unwrap().len(), 1);
    }
}
