//! The identity of a store, by which processes recognize that they use the same one.

use sea_orm::ConnectionTrait as _;

use super::database::statement;
use crate::{Error, Store};

/// The identifier of the server, and the numbers of database and schema. A copy of the data has another identity, a standby of
/// the same server has the same.
const OF_SERVER: &str = "SELECT (SELECT system_identifier::text FROM pg_control_system()) || '-' || d.oid::text || '-' || \
                         coalesce(n.oid::text, '0') AS identity \
                         FROM pg_database d LEFT JOIN pg_namespace n ON n.nspname = current_schema() \
                         WHERE d.datname = current_database()";

/// Without the identifier of the server, which not every user may read and not every server has: the time of the first migration.
const OF_MIGRATIONS: &str = "SELECT 'm' || min(m.applied_at)::text || '-' || min(d.oid::bigint)::text AS identity \
                             FROM seaql_migrations m, pg_database d WHERE d.datname = current_database()";

impl Store {
    /// Returns letters, digits and `-` that identify the database; the same text in all processes that use it.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], or [`Error::NotMigrated`] for a server without an identifier.
    pub async fn identity(&self) -> Result<String, Error> {
        if let Some(file) = self.database.writer.file() {
            return Ok(file.id().to_string());
        }
        let pool = &self.database.pool;
        if pool.sqlite().is_some() {
            return Ok("memory".to_owned());
        }
        match self.read_identity(OF_SERVER).await {
            Err(Error::Database(_) | Error::Unsupported(_)) => self.read_identity(OF_MIGRATIONS).await,
            identity => identity,
        }
    }

    async fn read_identity(&self, sql: &str) -> Result<String, Error> {
        let pool = &self.database.pool;
        match pool.query_one_raw(statement(pool, sql, [])).await? {
            Some(row) => Ok(row.try_get("", "identity")?),
            None => Err(Error::Database("the database does not tell its identity".to_owned())),
        }
    }
}
