//! Connections and transactions, with prepared statements or without them.
//!
//! ## Why statements without a name run in transactions of their own
//!
//! A pooler in transaction mode lends a client a connection to the server for one transaction. A named statement stays
//! on that connection, where it collides with the statements of the next client. The driver also sends a statement and
//! its values in two messages, between which the pooler may change the connection unless a transaction is open.

use async_trait::async_trait;
use futures::StreamExt as _;
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult, QueryResult,
    RuntimeErr, SqliteTransactionMode, SqlxPostgresConnector, Statement, TransactionOptions,
    TransactionTrait,
    sqlx::{
        self, AssertSqlSafe, PgPool, PgTransaction, Postgres, SqlitePool,
        postgres::{PgArguments, PgRow},
        query::Query,
    },
};
use sea_query_sqlx::SqlxValues;
use tokio::sync::Mutex;

use super::{
    driver::{failed, query},
    kept::{Kept, KeptTransaction},
    sqlite_file::SqliteFile,
};

/// SQL that deletes all named statements of a connection.
const FORGET_STATEMENTS: &str = "DEALLOCATE ALL";

/// A pool of connections. Clones share it.
#[derive(Clone, Debug)]
pub(crate) enum Pool {
    /// Connections to the database itself. Each prepares a statement once. With the file, if they write to a SQLite file.
    Direct(DatabaseConnection, Option<SqliteFile>),
    /// The same to PostgreSQL, for frequent statements.
    Kept(Kept),
    /// Connections to a pooler in transaction mode.
    Pooled {
        /// Pool of these connections.
        pool: PgPool,
        /// The statements that begin a transaction and apply the settings of this pool to it.
        begin: &'static str,
    },
}

impl Pool {
    /// Returns the pool if this is SQLite.
    pub(crate) fn sqlite(&self) -> Option<&SqlitePool> {
        match self {
            Self::Direct(pool, _) if pool.get_database_backend() == DbBackend::Sqlite => {
                Some(pool.get_sqlite_connection_pool())
            }
            Self::Direct(..) | Self::Kept(_) | Self::Pooled { .. } => None,
        }
    }

    /// Returns the file if this pool writes to one.
    pub(crate) fn file(&self) -> Option<&SqliteFile> {
        match self {
            Self::Direct(_, file) => file.as_ref(),
            Self::Kept(_) | Self::Pooled { .. } => None,
        }
    }

    /// Refuses to write to a file that was deleted or replaced. Takes about a microsecond.
    pub(crate) fn check_file(&self) -> Result<(), DbErr> {
        let checked = self.file().map_or(Ok(()), SqliteFile::check);
        checked.map_err(|message| DbErr::Conn(RuntimeErr::Internal(message)))
    }

    /// Returns the pool if this is PostgreSQL.
    pub(crate) fn postgres(&self) -> Option<&PgPool> {
        match self {
            Self::Direct(pool, _) if pool.get_database_backend() == DbBackend::Postgres => {
                Some(pool.get_postgres_connection_pool())
            }
            Self::Direct(..) => None,
            Self::Kept(kept) => Some(kept.pool()),
            Self::Pooled { pool, .. } => Some(pool),
        }
    }

    /// Returns the number of open connections, and of those that are idle.
    pub(crate) fn connections(&self) -> (u32, usize) {
        match self {
            Self::Direct(connection, _) if connection.get_database_backend() == DbBackend::Sqlite => {
                let pool = connection.get_sqlite_connection_pool();
                (pool.size(), pool.num_idle())
            }
            Self::Direct(connection, _) => {
                let pool = connection.get_postgres_connection_pool();
                (pool.size(), pool.num_idle())
            }
            Self::Kept(kept) => (kept.pool().size(), kept.idle()),
            Self::Pooled { pool, .. } => (pool.size(), pool.num_idle()),
        }
    }

    /// Begins a transaction that writes. In SQLite it takes the write lock at once, because a transaction that has read
    /// cannot take it later.
    pub(crate) async fn begin(&self) -> Result<Transaction, DbErr> {
        self.check_file()?;
        match self {
            Self::Direct(pool, _) => Ok(Transaction::Direct(begin_direct(pool).await?)),
            Self::Kept(kept) => Ok(Transaction::Kept(kept.begin().await?)),
            Self::Pooled { pool, begin } => {
                let tx = pool.begin_with(*begin).await.map_err(failed)?;
                Ok(Transaction::Pooled(Mutex::new(tx)))
            }
        }
    }

    /// Begins a transaction of sea-orm itself, for the migrations. Its statements have names, and a pooler may lend it a
    /// connection on which another client has left the same ones.
    pub(crate) async fn begin_named(&self) -> Result<DatabaseTransaction, DbErr> {
        self.check_file()?;
        match self {
            Self::Direct(pool, _) => begin_direct(pool).await,
            Self::Kept(kept) => {
                begin_direct(&SqlxPostgresConnector::from_sqlx_postgres_pool(kept.pool().clone())).await
            }
            Self::Pooled { pool, .. } => {
                let tx = begin_direct(&SqlxPostgresConnector::from_sqlx_postgres_pool(pool.clone())).await?;
                tx.execute_unprepared(FORGET_STATEMENTS).await?;
                Ok(tx)
            }
        }
    }

    /// Commits a transaction of [`Pool::begin_named`]. Through a pooler, it leaves no statement behind.
    pub(crate) async fn commit_named(&self, tx: DatabaseTransaction) -> Result<(), DbErr> {
        if let Self::Pooled { .. } = self {
            tx.execute_unprepared(FORGET_STATEMENTS).await?;
        }
        tx.commit().await
    }

    /// Executes a statement of the PostgreSQL driver itself.
    pub(crate) async fn execute(&self, query: Query<'_, Postgres, PgArguments>) -> Result<(), sqlx::Error> {
        match self {
            Self::Direct(pool, _) => query.execute(pool.get_postgres_connection_pool()).await.map(drop),
            Self::Kept(kept) => kept.execute(query).await.map(drop),
            Self::Pooled { pool, begin } => {
                let mut tx = pool.begin_with(*begin).await?;
                query.persistent(false).execute(&mut *tx).await?;
                tx.commit().await
            }
        }
    }

    /// Executes statements of the PostgreSQL driver itself in one transaction.
    pub(crate) async fn execute_all<'q>(
        &self,
        queries: impl IntoIterator<Item = Query<'q, Postgres, PgArguments>>,
    ) -> Result<(), sqlx::Error> {
        match self {
            Self::Kept(kept) => kept.execute_all(queries).await,
            Self::Direct(pool, _) => {
                let mut tx = pool.get_postgres_connection_pool().begin().await?;
                for query in queries {
                    query.execute(&mut *tx).await?;
                }
                tx.commit().await
            }
            Self::Pooled { pool, begin } => {
                let mut tx = pool.begin_with(*begin).await?;
                for query in queries {
                    query.persistent(false).execute(&mut *tx).await?;
                }
                tx.commit().await
            }
        }
    }

    /// Passes each row of a statement of the PostgreSQL driver to `each`, as it arrives.
    pub(crate) async fn for_each_row(
        &self,
        query: Query<'_, Postgres, PgArguments>,
        mut each: impl FnMut(&PgRow) -> Result<(), sqlx::Error>,
    ) -> Result<(), sqlx::Error> {
        match self {
            Self::Direct(pool, _) => {
                let mut rows = query.fetch(pool.get_postgres_connection_pool());
                while let Some(row) = rows.next().await {
                    each(&row?)?;
                }
                Ok(())
            }
            Self::Kept(kept) => kept.for_each_row(query, each).await,
            Self::Pooled { pool, begin } => {
                let mut tx = pool.begin_with(*begin).await?;
                let mut rows = query.persistent(false).fetch(&mut *tx);
                while let Some(row) = rows.next().await {
                    each(&row?)?;
                }
                drop(rows);
                tx.commit().await
            }
        }
    }
}

/// An open transaction. Dropping it rolls it back.
#[derive(Debug)]
pub(crate) enum Transaction {
    /// With prepared statements.
    Direct(DatabaseTransaction),
    /// On a connection for frequent statements.
    Kept(KeptTransaction),
    /// With statements that have no name.
    Pooled(Mutex<PgTransaction<'static>>),
}

impl Transaction {
    pub(crate) async fn commit(self) -> Result<(), DbErr> {
        match self {
            Self::Direct(transaction) => transaction.commit().await,
            Self::Kept(transaction) => transaction.end("COMMIT").await,
            Self::Pooled(connection) => connection.into_inner().commit().await.map_err(failed),
        }
    }

    pub(crate) async fn rollback(self) -> Result<(), DbErr> {
        match self {
            Self::Direct(transaction) => transaction.rollback().await,
            Self::Kept(transaction) => transaction.end("ROLLBACK").await,
            Self::Pooled(connection) => connection.into_inner().rollback().await.map_err(failed),
        }
    }
}

#[async_trait]
impl ConnectionTrait for Transaction {
    fn get_database_backend(&self) -> DbBackend {
        match self {
            Self::Direct(transaction) => transaction.get_database_backend(),
            Self::Kept(_) | Self::Pooled(_) => DbBackend::Postgres,
        }
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        match self {
            Self::Direct(transaction) => transaction.execute_raw(statement).await,
            Self::Kept(transaction) => transaction.execute_raw(statement).await,
            Self::Pooled(connection) => {
                let done = unnamed(&statement).execute(&mut **connection.lock().await).await;
                done.map(ExecResult::from).map_err(failed)
            }
        }
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        match self {
            Self::Direct(transaction) => transaction.execute_unprepared(sql).await,
            Self::Kept(transaction) => transaction.execute_unprepared(sql).await,
            Self::Pooled(connection) => {
                let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **connection.lock().await).await;
                done.map(ExecResult::from).map_err(failed)
            }
        }
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        match self {
            Self::Direct(transaction) => transaction.query_one_raw(statement).await,
            Self::Kept(transaction) => transaction.query_one_raw(statement).await,
            Self::Pooled(connection) => {
                let row = unnamed(&statement).fetch_optional(&mut **connection.lock().await).await;
                row.map(|row| row.map(QueryResult::from)).map_err(failed)
            }
        }
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        match self {
            Self::Direct(transaction) => transaction.query_all_raw(statement).await,
            Self::Kept(transaction) => transaction.query_all_raw(statement).await,
            Self::Pooled(connection) => {
                let rows = unnamed(&statement).fetch_all(&mut **connection.lock().await).await;
                rows.map(|rows| rows.into_iter().map(QueryResult::from).collect()).map_err(failed)
            }
        }
    }
}

#[async_trait]
impl ConnectionTrait for Pool {
    fn get_database_backend(&self) -> DbBackend {
        match self {
            Self::Direct(pool, _) => pool.get_database_backend(),
            Self::Kept(_) | Self::Pooled { .. } => DbBackend::Postgres,
        }
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.check_file()?;
        match self {
            Self::Direct(pool, _) => pool.execute_raw(statement).await,
            Self::Kept(kept) => kept.execute_raw(statement).await,
            Self::Pooled { .. } => {
                let tx = self.begin().await?;
                let done = tx.execute_raw(statement).await?;
                tx.commit().await.map(|()| done)
            }
        }
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.check_file()?;
        match self {
            Self::Direct(pool, _) => pool.execute_unprepared(sql).await,
            Self::Kept(kept) => kept.execute_unprepared(sql).await,
            Self::Pooled { .. } => {
                let tx = self.begin().await?;
                let done = tx.execute_unprepared(sql).await?;
                tx.commit().await.map(|()| done)
            }
        }
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.check_file()?;
        match self {
            Self::Direct(pool, _) => pool.query_one_raw(statement).await,
            Self::Kept(kept) => kept.query_one_raw(statement).await,
            Self::Pooled { .. } => {
                let tx = self.begin().await?;
                let done = tx.query_one_raw(statement).await?;
                tx.commit().await.map(|()| done)
            }
        }
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.check_file()?;
        match self {
            Self::Direct(pool, _) => pool.query_all_raw(statement).await,
            Self::Kept(kept) => kept.query_all_raw(statement).await,
            Self::Pooled { .. } => {
                let tx = self.begin().await?;
                let done = tx.query_all_raw(statement).await?;
                tx.commit().await.map(|()| done)
            }
        }
    }
}

async fn begin_direct(pool: &DatabaseConnection) -> Result<DatabaseTransaction, DbErr> {
    let sqlite_transaction_mode = Some(SqliteTransactionMode::Immediate);
    let options = TransactionOptions { sqlite_transaction_mode, ..TransactionOptions::default() };
    pool.begin_with_options(options).await
}

/// Builds a query without a name from a statement of sea-orm.
fn unnamed(statement: &Statement) -> Query<'_, Postgres, SqlxValues> {
    query(statement).persistent(false)
}
