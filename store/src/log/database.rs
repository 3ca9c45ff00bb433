//! The connections to the database, and how something is written in one piece.

use futures::future::BoxFuture;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, SqliteTransactionMode, Statement,
    TransactionOptions, TransactionTrait, Value, sqlx::PgPool,
};
use tracing::Instrument as _;

use crate::Error;

/// The connections to the database. Cloning is cheap: every clone shares them.
///
/// ## Why one connection writes to SQLite
///
/// SQLite lets one write at a time, and whoever waits for that holds a connection meanwhile: a few writers would leave none
/// to read with. So those of this process wait for the one connection that writes, in order and for as long as it takes. It
/// also keeps in memory what it has just written, which every other connection has to read anew. Another process with the
/// same file still makes the one at the front wait.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    /// What reads: over SQLite it cannot write.
    pub(crate) pool: DatabaseConnection,
    /// What writes.
    pub(crate) writer: DatabaseConnection,
    /// For what workers say at every step, and batches for every page of their items: it finds every row by an index.
    ///
    /// ## Why these are few and apart
    ///
    /// A pool hands out its connections in turn, and each has to prepare and plan what it has not yet said. What is
    /// said thousands of times a second is said over few, which always know it.
    pub(crate) hot: DatabaseConnection,
    /// How many there are at most.
    pub(super) connections: u32,
}

impl Database {
    /// The connections for the hot statement, if this is PostgreSQL.
    pub(super) fn postgres(&self) -> Option<&PgPool> {
        let is_it = self.hot.get_database_backend() == DbBackend::Postgres;
        is_it.then(|| self.hot.get_postgres_connection_pool())
    }

    /// Does `what` in a transaction: what goes well is kept, all of anything else undone.
    ///
    /// **Invariant:** what has begun is carried through in a task of its own, whatever becomes of whoever waits for
    /// it. Dropped half way, it would leave a transaction open on a connection that others use next.
    pub(crate) async fn transact<T, W>(&self, what: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a DatabaseTransaction) -> BoxFuture<'a, Result<T, Error>> + Send + 'static,
    {
        transact_over(self.writer.clone(), what).await
    }

    /// The same over the connections for what is said over and over.
    pub(crate) async fn transact_hot<T, W>(&self, what: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: for<'a> FnOnce(&'a DatabaseTransaction) -> BoxFuture<'a, Result<T, Error>> + Send + 'static,
    {
        let over = if self.postgres().is_some() { &self.hot } else { &self.writer };
        transact_over(over.clone(), what).await
    }

    /// A transaction that will write.
    pub(super) async fn begin(&self) -> Result<DatabaseTransaction, Error> {
        begin(&self.writer).await
    }
}

async fn transact_over<T, W>(pool: DatabaseConnection, what: W) -> Result<T, Error>
where
    T: Send + 'static,
    W: for<'a> FnOnce(&'a DatabaseTransaction) -> BoxFuture<'a, Result<T, Error>> + Send + 'static,
{
    let done = async move {
        let tx = begin(&pool).await?;
        let outcome = what(&tx).await;
        settle(tx, outcome).await
    };
    let done = tokio::spawn(done.in_current_span()).await;
    done.map_err(|error| Error::Unavailable(format!("the write was broken off: {error}")))?
}

/// A transaction that will write: in SQLite it takes the lock at once, because one that read first cannot.
async fn begin(pool: &DatabaseConnection) -> Result<DatabaseTransaction, Error> {
    let sqlite_transaction_mode = Some(SqliteTransactionMode::Immediate);
    let options = TransactionOptions { sqlite_transaction_mode, ..TransactionOptions::default() };
    Ok(pool.begin_with_options(options).await?)
}

/// Ends a transaction: what went well is kept, all of anything else undone.
pub(super) async fn settle<T>(tx: DatabaseTransaction, outcome: Result<T, Error>) -> Result<T, Error> {
    match outcome {
        Ok(it) => {
            tx.commit().await?;
            Ok(it)
        }
        Err(error) => {
            // The first error says more; a connection that cannot roll back is closed before its next use.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

/// A statement that is written with PostgreSQL's names of values.
pub(crate) fn statement(
    db: &impl ConnectionTrait,
    sql: &str,
    values: impl IntoIterator<Item = Value>,
) -> Statement {
    let backend = db.get_database_backend();
    let sql = if backend == DbBackend::Postgres { sql.to_owned() } else { sql.replace('$', "?") };
    Statement::from_sql_and_values(backend, sql, values)
}

/// That `column` of a table has this value, which another table says, so that its row is looked up by it.
///
/// ## Why PostgreSQL is not told that they are equal
///
/// What is equal it can also merge, and to that end it may walk over a whole index in its order. While there are few rows
/// that costs least, and a plan once made is kept while there come many: each step then read all threads there were,
/// until somebody had PostgreSQL count them anew. Nothing is merged with an element of an array, so that only the way by
/// the value is left.
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

    /// SQLite ends by itself what a full disk refuses, and the driver does not hear of it.
    #[tokio::test]
    async fn what_is_written_after_the_disk_was_full_is_there() {
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
