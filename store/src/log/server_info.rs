//! The version and the clock of the database, for people who look for a fault.

use sea_orm::ConnectionTrait as _;

use super::{database::statement, driver::failed, server_watch::Reading};
use crate::{Error, Store};

/// The database server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    /// Name and version, such as `PostgreSQL 16.3`.
    pub version: String,
    /// Time by which this machine's clock is ahead of the server's, in microseconds. `None` for SQLite, which has no clock.
    pub clock_ahead: Option<i64>,
}

impl Store {
    /// Reads the version and the clock of the database.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn server_info(&self) -> Result<ServerInfo, Error> {
        let pool = &self.database.pool;
        let (name, sql) = match pool.postgres() {
            Some(_) => ("PostgreSQL", "SELECT current_setting('server_version') AS version"),
            None => ("SQLite", "SELECT sqlite_version() AS version"),
        };
        let rows = pool.query_all_raw(statement(pool, sql, [])).await?;
        let version: String = match rows.first() {
            Some(row) => row.try_get("", "version")?,
            None => return Err(Error::Database("the database does not tell its version".to_owned())),
        };
        let clock_ahead = match pool.postgres() {
            Some(pool) => Some(Reading::of(pool).await.map_err(failed)?.clock_ahead()),
            None => None,
        };
        Ok(ServerInfo { version: format!("{name} {version}"), clock_ahead })
    }
}
