//! Test of whether the database accepts writes.

use std::time::Duration;

use queue::clock;
use sea_orm::ConnectionTrait as _;

use crate::{Error, Store, log::statement};

/// Maximum time that the test may take. On SQLite it waits its turn behind other writes.
const TIMEOUT: Duration = Duration::from_secs(5);

const SQL: &str =
    "INSERT INTO readiness (id, at) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET at = excluded.at";

impl Store {
    /// Writes one row and commits, to learn whether the database accepts writes: a full disk or a standby does not.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] after five seconds, and any error of the write.
    pub async fn check_writable(&self) -> Result<(), Error> {
        let writer = &self.database.writer;
        let write = writer.execute_raw(statement(writer, SQL, [clock::now().into()]));
        match tokio::time::timeout(TIMEOUT, write).await {
            Ok(outcome) => Ok(outcome.map(drop)?),
            Err(_) => Err(Error::Unavailable(format!("no write succeeded within {} s", TIMEOUT.as_secs()))),
        }
    }
}
