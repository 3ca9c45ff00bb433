//! Test of whether the database accepts writes.

use std::time::Duration;

use queue::clock;
use sea_orm::ConnectionTrait as _;

use crate::{
    Error, Store,
    log::{sqlite_file::SqliteFile, statement},
};

/// Maximum time that the test may take. On SQLite it waits its turn behind other writes.
const TIMEOUT: Duration = Duration::from_secs(5);

const SQL: &str =
    "INSERT INTO readiness (id, at) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET at = excluded.at";

/// Takes the locks that every write takes, which no other write prevents. A distributed table would be locked on all its nodes, and
/// the loss of one is no reason to send requests elsewhere.
const LOCK: &str = "SET LOCAL lock_timeout = '3s'; LOCK TABLE events, threads, turns IN ROW EXCLUSIVE MODE";
const LOCK_DISTRIBUTED: &str =
    "SET LOCAL lock_timeout = '3s'; LOCK TABLE threads, turns IN ROW EXCLUSIVE MODE";

impl Store {
    /// Writes one row and commits, to learn whether the database accepts writes: a full disk, a standby and a SQLite file that
    /// was deleted do not, and neither do tables that another session has locked.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] after five seconds, and any error of the write.
    pub async fn check_writable(&self) -> Result<(), Error> {
        match tokio::time::timeout(TIMEOUT, self.write_readiness()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::Unavailable(format!("no write succeeded within {} s", TIMEOUT.as_secs()))),
        }
    }

    async fn write_readiness(&self) -> Result<(), Error> {
        let writer = &self.database.writer;
        let tx = writer.begin().await?;
        if writer.postgres().is_some() {
            let lock = if self.database.is_distributed { LOCK_DISTRIBUTED } else { LOCK };
            let locked = tx.execute_unprepared(lock).await.map_err(Error::from);
            if let Err(error) = locked {
                return Err(Error::Unavailable(format!(
                    "another session may lock a table of turnfold: {error}; hint: see pg_locks"
                )));
            }
        }
        tx.execute_raw(statement(&tx, SQL, [clock::now().into()])).await?;
        tx.commit().await?;
        writer.file().map_or(Ok(()), SqliteFile::check_log).map_err(Error::Unavailable)
    }
}
