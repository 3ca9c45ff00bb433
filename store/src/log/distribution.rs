//! Distribution of logs and attachments over several servers, by PostgreSQL's extension Citus.
//!
//! ## Why only these tables
//!
//! Citus distributes a table by one column, which each of its unique keys must contain. `events` and `attachments` have the thread
//! in theirs, and no statement needs the rows of two threads together. The keys of `turns` and `forks` are ids and idempotency
//! keys without a thread. The statements that choose the next job join `turns`, `threads` and `open_turns`, so these stay
//! together on the coordinator.

use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend,
    sqlx::{self, PgPool, Row as _},
};

use crate::{
    Error,
    log::{Store, database::uninterrupted, migration_lock::alone},
};

/// Tables that are distributed, by their column `thread_id`. The first one decides where the rows of the others are.
const TABLES: [&str; 2] = ["events", "attachments"];

/// SQL that returns true if the server has Citus' list of distributed tables.
const HAS_LIST: &str = "SELECT to_regclass('pg_dist_partition') IS NOT NULL";

/// Returns SQL that returns true if the table is in this list.
fn is_listed(table: &str) -> String {
    format!(
        "SELECT EXISTS (SELECT 1 FROM pg_dist_partition WHERE logicalrelid = to_regclass('{table}') AND partmethod = 'h')"
    )
}

/// Result of [`Store::distribute`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distributed {
    /// Tables that were distributed now.
    pub tables: Vec<&'static str>,
    /// Number of servers that have rows of distributed tables.
    pub nodes: u64,
}

impl Store {
    /// Distributes `events` and `attachments` over the nodes of Citus, unless they are distributed. Their rows are copied, and
    /// neither is readable meanwhile. Processes that run must be restarted.
    ///
    /// # Errors
    ///
    /// [`Error::Address`] if this is not PostgreSQL with Citus; [`Error::NotMigrated`] if migrations are missing.
    pub async fn distribute(&self) -> Result<Distributed, Error> {
        if self.database.postgres().is_none() {
            return Err(Error::Address(
                "SQLite is one file on one machine; hint: set store.url to a PostgreSQL server with the extension Citus".to_owned(),
            ));
        }
        self.check_migrated().await?;
        let writer = self.database.writer.clone();
        uninterrupted(async move {
            let tx = writer.begin_named().await?;
            match distribute(&tx).await {
                Ok(distributed) => writer.commit_named(tx).await.map(|()| distributed).map_err(Error::from),
                Err(error) => {
                    // The first error says more.
                    let _ = tx.rollback().await;
                    Err(error)
                }
            }
        })
        .await
    }
}

async fn distribute(tx: &DatabaseTransaction) -> Result<Distributed, Error> {
    alone(tx).await?;
    if !holds(tx, HAS_LIST).await? {
        return Err(Error::Address(
            "the server has no extension Citus; hint: install it, run `CREATE EXTENSION citus` in this database on every server, and \
             `SELECT citus_add_node('HOST', 5432)` for each of the others"
                .to_owned(),
        ));
    }
    let mut tables = Vec::new();
    for table in TABLES {
        if holds(tx, &is_listed(table)).await? {
            continue;
        }
        let beside = if table == TABLES[0] { "default" } else { TABLES[0] };
        for sql in [
            format!("SELECT create_distributed_table('{table}', 'thread_id', colocate_with := '{beside}')"),
            // Citus leaves the copied rows in the local table, where nothing reads them.
            format!("SELECT truncate_local_data_after_distributing_table('{table}')"),
        ] {
            tx.execute_unprepared(&sql).await?;
        }
        tables.push(table);
    }
    let sql = "SELECT count(*) AS n FROM pg_dist_node WHERE isactive AND shouldhaveshards";
    let row = tx.query_one_raw(sea_orm::Statement::from_string(DbBackend::Postgres, sql)).await?;
    let nodes: i64 = row.map_or(Ok(0), |row| row.try_get("", "n"))?;
    Ok(Distributed { tables, nodes: nodes.unsigned_abs() })
}

async fn holds(tx: &DatabaseTransaction, sql: &str) -> Result<bool, Error> {
    let row = tx.query_one_raw(sea_orm::Statement::from_string(DbBackend::Postgres, sql)).await?;
    Ok(row.map_or(Ok(false), |row| row.try_get_by_index(0))?)
}

/// Returns true if `events` is distributed.
pub(super) async fn is_distributed(pool: &PgPool) -> Result<bool, sqlx::Error> {
    let has_list: bool = sqlx::raw_sql(HAS_LIST).fetch_one(pool).await?.try_get(0)?;
    if !has_list {
        return Ok(false);
    }
    sqlx::raw_sql(sqlx::AssertSqlSafe(is_listed(TABLES[0]))).fetch_one(pool).await?.try_get(0)
}
