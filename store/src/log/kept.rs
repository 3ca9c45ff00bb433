//! Connections to PostgreSQL that stay with the frequent statements.
//!
//! ## Why they do not go back to the pool after each statement
//!
//! The driver tests a connection when it is released, by a message to the server in a task of its own. For a small statement this
//! doubles the messages, and the connection is not back when the next statement comes, so that all connections take turns and
//! each of their server processes must wake up. Here the connection that was used last is used next.

use std::{
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures::StreamExt as _;
use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, ExecResult, QueryResult, Statement,
    sqlx::{
        self, AssertSqlSafe, IntoArguments, PgConnection, PgPool, Postgres,
        pool::PoolConnection,
        postgres::{PgDatabaseError, PgQueryResult, PgRow, PgSeverity},
        query::Query,
    },
};
use tokio::{
    sync::{Mutex as AsyncMutex, OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::{
    driver::{failed, query},
    read_only,
};

/// Idle time after which a connection is tested before use. A test costs as much as a small append.
pub(super) const TRUSTED_FOR: Duration = Duration::from_secs(5);

/// Time after which a connection goes back to the pool, which limits how long any connection lives.
const KEPT_FOR: Duration = Duration::from_secs(60);

/// Connections of a pool, the last used first. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Pool of as many connections as there are permits.
    pool: PgPool,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Idle>>>,
}

#[derive(Debug)]
struct Idle {
    connection: PoolConnection<Postgres>,
    since: Instant,
    used: Instant,
}

/// A connection in use. Dropping it closes it, since a statement may be under way; [`Lent::keep`] keeps it.
#[derive(Debug)]
pub(crate) struct Lent {
    /// Present until it is kept or dropped.
    connection: Option<Idle>,
    home: Kept,
    _permit: OwnedSemaphorePermit,
}

impl Kept {
    /// Keeps the connections of `pool`, of which there are at most `connections`.
    pub(crate) fn new(pool: PgPool, connections: u32) -> Self {
        let permits = Arc::new(Semaphore::new(usize::try_from(connections).unwrap_or(1)));
        Self { pool, permits, idle: Arc::default() }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Returns the number of connections that wait for a statement.
    pub(crate) fn idle(&self) -> usize {
        self.pool.num_idle() + self.locked().len()
    }

    /// Lends a connection. Waits for one as long as the pool does, while all are in use.
    pub(crate) async fn take(&self) -> Result<Lent, sqlx::Error> {
        let permit = Arc::clone(&self.permits).acquire_owned();
        let permit = timeout(self.pool.options().get_acquire_timeout(), permit).await;
        let permit = permit.map_err(|_| sqlx::Error::PoolTimedOut)?.map_err(|_| sqlx::Error::PoolClosed)?;
        while let Some(mut idle) = self.pop() {
            let is_trusted = idle.used.elapsed() < TRUSTED_FOR && idle.since.elapsed() < KEPT_FOR;
            if !is_trusted {
                // The pool tests it.
                continue;
            }
            if read_only::may_be_used(&mut idle.connection).await? {
                return Ok(Lent { connection: Some(idle), home: self.clone(), _permit: permit });
            }
            idle.connection.close_on_drop();
        }
        let connection = self.pool.acquire().await?;
        let now = Instant::now();
        let idle = Idle { connection, since: now, used: now };
        Ok(Lent { connection: Some(idle), home: self.clone(), _permit: permit })
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&self) -> Result<KeptTransaction, DbErr> {
        let mut lent = self.take().await.map_err(failed)?;
        sqlx::raw_sql("BEGIN").execute(&mut *lent).await.map_err(failed)?;
        Ok(KeptTransaction(AsyncMutex::new(lent)))
    }

    /// Executes a statement of the driver itself.
    pub(crate) async fn execute<'q>(
        &self,
        query: Query<'q, Postgres, impl IntoArguments<Postgres> + 'q>,
    ) -> Result<PgQueryResult, sqlx::Error> {
        let mut lent = self.take().await?;
        let outcome = query.execute(&mut *lent).await;
        lent.keep_after(outcome)
    }

    /// Executes statements of the driver itself in one transaction.
    pub(crate) async fn execute_all<'q>(
        &self,
        queries: impl IntoIterator<Item = Query<'q, Postgres, impl IntoArguments<Postgres> + 'q>>,
    ) -> Result<(), sqlx::Error> {
        let mut lent = self.take().await?;
        let Err(error) = in_transaction(&mut lent, queries).await else {
            lent.keep();
            return Ok(());
        };
        match sqlx::raw_sql("ROLLBACK").execute(&mut *lent).await {
            Ok(_) => lent.keep_after(Err(error)),
            Err(lost) => {
                // The first error says more.
                let _ = lent.keep_after::<()>(Err(lost));
                Err(error)
            }
        }
    }

    /// Passes each row of a statement of the driver itself to `each`, as it arrives.
    pub(crate) async fn for_each_row<'q>(
        &self,
        query: Query<'q, Postgres, impl IntoArguments<Postgres> + 'q>,
        mut each: impl FnMut(&PgRow) -> Result<(), sqlx::Error>,
    ) -> Result<(), sqlx::Error> {
        let mut lent = self.take().await?;
        let mut rows = query.fetch(&mut *lent);
        let outcome = loop {
            match rows.next().await {
                None => break Ok(()),
                Some(Err(error)) => break Err(error),
                Some(Ok(row)) => each(&row)?,
            }
        };
        drop(rows);
        lent.keep_after(outcome)
    }

    fn pop(&self) -> Option<Idle> {
        self.locked().pop()
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent {
    /// Keeps the connection for the next statement.
    pub(crate) fn keep(mut self) {
        if let Some(mut idle) = self.connection.take() {
            idle.used = Instant::now();
            self.home.locked().push(idle);
        }
    }

    /// Keeps the connection unless the statement left it broken. A server that ends one connection usually ends all, so the idle
    /// ones then go back to the pool, which tests them.
    pub(crate) fn keep_after<T>(self, outcome: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        match &outcome {
            Ok(_) => self.keep(),
            Err(sqlx::Error::Database(error)) if is_harmless(error.try_downcast_ref()) => self.keep(),
            Err(_) => drop(std::mem::take(&mut *self.home.locked())),
        }
        outcome
    }
}

async fn in_transaction<'q>(
    connection: &mut PgConnection,
    queries: impl IntoIterator<Item = Query<'q, Postgres, impl IntoArguments<Postgres> + 'q>>,
) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
    for query in queries {
        query.execute(&mut *connection).await?;
    }
    sqlx::raw_sql("COMMIT").execute(connection).await.map(drop)
}

/// Returns true if the server keeps the connection open after this error.
fn is_harmless(error: Option<&PgDatabaseError>) -> bool {
    error.is_some_and(|error| error.severity() == PgSeverity::Error)
}

const LENT: &str = "a connection is present until it is kept";

impl Deref for Lent {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection.as_ref().expect(LENT).connection
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection.as_mut().expect(LENT).connection
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(idle) = &mut self.connection {
            idle.connection.close_on_drop();
        }
    }
}

#[async_trait]
impl ConnectionTrait for Kept {
    fn get_database_backend(&self) -> DbBackend {
        DbBackend::Postgres
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.execute(query(&statement)).await.map(ExecResult::from).map_err(failed)
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let mut lent = self.take().await.map_err(failed)?;
        let outcome = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *lent).await;
        lent.keep_after(outcome).map(ExecResult::from).map_err(failed)
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let mut lent = self.take().await.map_err(failed)?;
        let outcome = query(&statement).fetch_optional(&mut *lent).await;
        lent.keep_after(outcome).map(|row| row.map(QueryResult::from)).map_err(failed)
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let mut lent = self.take().await.map_err(failed)?;
        let outcome = query(&statement).fetch_all(&mut *lent).await;
        let rows = lent.keep_after(outcome).map_err(failed)?;
        Ok(rows.into_iter().map(QueryResult::from).collect())
    }
}

/// An open transaction. Dropping it closes the connection, so the server rolls it back.
#[derive(Debug)]
pub(crate) struct KeptTransaction(AsyncMutex<Lent>);

impl KeptTransaction {
    /// Ends the transaction with this statement, and keeps the connection.
    pub(crate) async fn end(self, sql: &'static str) -> Result<(), DbErr> {
        let mut lent = self.0.into_inner();
        let outcome = sqlx::raw_sql(sql).execute(&mut *lent).await;
        lent.keep_after(outcome).map(drop).map_err(failed)
    }
}

#[async_trait]
impl ConnectionTrait for KeptTransaction {
    fn get_database_backend(&self) -> DbBackend {
        DbBackend::Postgres
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        let done = query(&statement).execute(&mut **self.0.lock().await).await;
        done.map(ExecResult::from).map_err(failed)
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **self.0.lock().await).await;
        done.map(ExecResult::from).map_err(failed)
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        let row = query(&statement).fetch_optional(&mut **self.0.lock().await).await;
        row.map(|row| row.map(QueryResult::from)).map_err(failed)
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let rows = query(&statement).fetch_all(&mut **self.0.lock().await).await;
        rows.map(|rows| rows.into_iter().map(QueryResult::from).collect()).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use sea_orm::sqlx::postgres::PgPoolOptions;

    use super::*;

    #[tokio::test]
    async fn waits_for_a_connection_no_longer_than_the_pool() {
        let pool = PgPoolOptions::new().acquire_timeout(Duration::from_millis(20));
        let pool = pool.connect_lazy("postgres://nobody@127.0.0.1:1/none").expect("no connection is made");
        let waited = timeout(Duration::from_secs(10), Kept::new(pool, 0).take()).await;
        assert!(matches!(waited, Ok(Err(sqlx::Error::PoolTimedOut))), "{waited:?}");
    }
}
