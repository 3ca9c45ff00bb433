//! Regular readings of the PostgreSQL server: its clock, and whether it accepts writes.
//!
//! All processes follow the clock of the server, so they agree about what is due and what has expired. Of SQLite, the
//! clock is the machine's.
//!
//! A process that only reads, such as an idle worker, would not notice that its server has become a standby, and would
//! read old data from it. The readings notice.

use std::time::{Duration, Instant};

use queue::clock;
use sea_orm::sqlx::{self, PgPool, Row as _, postgres::PgRow};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::read_only;

/// Interval between two readings.
const INTERVAL: Duration = Duration::from_secs(5);

/// Longest time that a reading may take; half of it is the possible error.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Smallest difference between the clocks that is logged.
const NOTABLE: Duration = Duration::from_secs(5);

/// SQL of a reading: the time in microseconds since the Unix epoch, whether the server accepts writes, and its encoding.
const READING: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
                       NOT current_setting('transaction_read_only')::bool, current_setting('server_encoding')";

/// A reading of the server.
pub(super) struct Reading {
    micros: i64,
    accepts_writes: bool,
    pub(super) encoding: String,
    /// Time at which it was requested.
    sent: Instant,
}

impl Reading {
    pub(super) async fn of(pool: &PgPool) -> Result<Self, sqlx::Error> {
        let mut connection = pool.acquire().await?;
        let sent = Instant::now();
        let row: PgRow = sqlx::raw_sql(READING).fetch_one(&mut *connection).await?;
        let (micros, accepts_writes, encoding) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        Ok(Self { micros, accepts_writes, encoding, sent })
    }

    /// Time by which this machine's clock is ahead, in microseconds.
    pub(super) fn clock_ahead(&self) -> i64 {
        let age = clock::duration_micros(self.sent.elapsed());
        // The server read its clock about halfway between the request and the answer.
        clock::system().saturating_sub(age / 2).saturating_sub(self.micros)
    }

    fn follow(&self) {
        clock::follow(self.micros, self.sent + self.sent.elapsed() / 2);
    }
}

/// The task that reads the server again and again. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct ServerWatch(JoinHandle<()>);

impl Drop for ServerWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ServerWatch {
    /// Follows the clock of the server, and continues to read it.
    pub(super) fn start(pool: PgPool, first: &Reading) -> Self {
        first.follow();
        let difference = clock::system().saturating_sub(clock::now());
        if clock::duration_micros(NOTABLE).unsigned_abs() < difference.unsigned_abs() {
            let seconds = difference / 1_000_000;
            warn!(ahead_seconds = seconds, "this machine's clock is wrong; using the clock of the database");
        }
        // A store that was opened on a standby only reads, and stays there.
        let mut accepted_writes = first.accepts_writes;
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(INTERVAL).await;
                match Reading::of(&pool).await {
                    Ok(reading) => {
                        if accepted_writes && !reading.accepts_writes {
                            read_only::seen();
                        }
                        accepted_writes |= reading.accepts_writes;
                        if reading.sent.elapsed() <= MAX_DELAY {
                            reading.follow();
                        }
                    }
                    Err(error) => {
                        debug!(%error, "cannot read the clock of the database; keeping the last reading")
                    }
                }
            }
        }))
    }
}
