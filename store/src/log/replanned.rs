//! Reads that PostgreSQL plans anew for their values.
//!
//! ## Why a list is planned each time
//!
//! After five executions, PostgreSQL may keep a plan for all values of a prepared statement. The list of running turns then walks
//! through all turns, because a plan for all limits assumes a tenth of the table. A plan takes a tenth of a millisecond.

use async_trait::async_trait;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, ExecResult, QueryResult, Statement};

use super::{
    driver::{failed, query},
    pool::Pool,
};

/// Connections of a pool, on which the statements have no name.
pub(crate) struct Replanned<'a>(pub(crate) &'a Pool);

#[async_trait]
impl ConnectionTrait for Replanned<'_> {
    fn get_database_backend(&self) -> DbBackend {
        self.0.get_database_backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.0.execute_raw(statement).await
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        self.0.execute_unprepared(sql).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        Ok(self.query_all_raw(statement).await?.into_iter().next())
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        match self.0 {
            Pool::Direct(pool, _) if pool.get_database_backend() == DbBackend::Postgres => {
                let rows = query(&statement).persistent(false).fetch_all(pool.get_postgres_connection_pool());
                Ok(rows.await.map_err(failed)?.into_iter().map(QueryResult::from).collect())
            }
            Pool::Direct(..) | Pool::Kept(_) | Pool::Pooled { .. } => self.0.query_all_raw(statement).await,
        }
    }
}
