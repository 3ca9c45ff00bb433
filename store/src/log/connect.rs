//! How to reach a database, and whether its tables are those that this build knows.

use std::{
    path::PathBuf,
    str::FromStr,
    time::{Duration, Instant},
};

use futures::FutureExt as _;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, SqlxPostgresConnector, SqlxSqliteConnector,
    sqlx::{
        self, ConnectOptions, Connection as _,
        postgres::{PgConnectOptions, PgPoolOptions},
        sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
    },
};

use super::{Store, database::Database};
use crate::{Error, error};

/// How many connections one process keeps to PostgreSQL, at most, if nobody says. A server allows a hundred by default.
const POSTGRES_CONNECTIONS: u32 = 16;

/// How many more are for the steps of workers and the items of batches alone.
const HOT_CONNECTIONS: u32 = 4;

/// How many connections one process keeps to a SQLite file to read from it, at most; one more writes.
const SQLITE_READERS: u32 = 4;

/// How long to wait for a connection, or for another process that writes to the same SQLite file.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait for the one connection that writes to SQLite: until those that came before have written.
const NO_END: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long to wait before a new SQLite file is tried again that another process is just making.
const AGAIN: Duration = Duration::from_millis(20);

/// How long a connection may lie idle and still be trusted; a query to ask costs as much as a small append.
const TRUSTED_FOR: Duration = Duration::from_secs(5);

/// Two processes must not migrate at once; any number will do that nobody else locks.
const MIGRATION_LOCK: i64 = 7_430_231_907_114_026_113;

impl Store {
    /// Connects to `sqlite:PATH`, `sqlite::memory:` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. A
    /// SQLite file and its folder are created where they are missing; tables are not.
    ///
    /// # Errors
    ///
    /// [`Error::Address`] if this can never work, [`Error::Unavailable`] if it may work later.
    pub async fn connect(url: &str) -> Result<Store, Error> {
        Store::connect_with(url, POSTGRES_CONNECTIONS).await
    }

    /// The same with so many connections to PostgreSQL, at most; SQLite has its own number.
    ///
    /// # Errors
    ///
    /// As [`Store::connect`].
    pub async fn connect_with(url: &str, connections: u32) -> Result<Store, Error> {
        match url.split_once(':') {
            Some(("sqlite", _)) => sqlite(url).await,
            Some(("postgres" | "postgresql", _)) => postgres(url, connections).await,
            // The address may hold a password, so it is not shown.
            Some(_) | None => Err(Error::Address(
                "its address begins with neither `sqlite:` nor `postgres://`: give `sqlite:PATH` or \
                 `postgres://USER:PASSWORD@HOST:PORT/DATABASE`"
                    .to_owned(),
            )),
        }
    }

    /// The SQLite file that an address names; none, if that is no file's: in memory, or elsewhere.
    pub fn sqlite_file(url: &str) -> Option<PathBuf> {
        let options = SqliteConnectOptions::from_str(url).ok().filter(|_| url.starts_with("sqlite:"))?;
        let file = options.get_filename();
        (!is_in_memory(url) && !file.as_os_str().is_empty()).then(|| file.to_owned())
    }

    /// Whether the tables are those that this build knows.
    ///
    /// # Errors
    ///
    /// [`Error::NotMigrated`] if some are missing, [`Error::TooNew`] if there are others.
    pub async fn check_migrated(&self) -> Result<(), Error> {
        let pending = self.pending().await?;
        if pending.is_empty() { Ok(()) } else { Err(Error::NotMigrated { pending }) }
    }

    /// The names of the migrations that the database lacks, oldest first.
    ///
    /// # Errors
    ///
    /// [`Error::TooNew`] if the database has some that this build does not know.
    pub async fn pending(&self) -> Result<Vec<String>, Error> {
        let migrations::Survey { pending, unknown } = migrations::survey(&self.database.pool).await?;
        if unknown.is_empty() {
            return Ok(pending);
        }
        Err(Error::TooNew {
            what: format!("the database has migrations unknown here ({})", unknown.join(", ")),
        })
    }

    /// Brings the tables up to date, wholly or not at all, and says which migrations that took. Processes
    /// that try at the same time take turns.
    ///
    /// # Errors
    ///
    /// [`Error::TooNew`] if the database has some that this build does not know.
    pub async fn migrate(&self) -> Result<Vec<String>, Error> {
        self.pending().await?;
        self.database.transact(|tx| migrate(tx).boxed()).await
    }
}

async fn migrate(tx: &DatabaseTransaction) -> Result<Vec<String>, Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        tx.execute_unprepared(&format!("SELECT pg_advisory_xact_lock({MIGRATION_LOCK})")).await?;
    }
    Ok(migrations::migrate(tx).await?)
}

async fn postgres(url: &str, connections: u32) -> Result<Store, Error> {
    let options = PgConnectOptions::from_str(url)
        .map_err(|error| Error::Address(format!("the `postgres://` address is malformed: {error}")))?
        .application_name("turnfold")
        .disable_statement_logging();
    let connector = SqlxPostgresConnector::from_sqlx_postgres_pool;
    let place = format!("PostgreSQL at {}:{}", options.get_host(), options.get_port());
    let pool = PgPoolOptions::new().acquire_timeout(PATIENCE).test_before_acquire(false).before_acquire(
        |connection, meta| {
            Box::pin(async move {
                if meta.idle_for > TRUSTED_FOR {
                    sqlx::Connection::ping(connection).await?;
                }
                Ok(true)
            })
        },
    );
    let hot = told(pool.clone(), HOT_ARE_TOLD).max_connections(HOT_CONNECTIONS);
    let hot = hot.connect_lazy_with(options.clone());
    let pool = told(pool, ARE_TOLD).max_connections(connections).connect_with(options).await;
    let pool = pool.map_err(|error| unreached(&place, &error))?;
    let (pool, hot) = (connector(pool), connector(hot));
    Ok(Store::over(Database { writer: pool.clone(), pool, hot, connections }))
}

/// What every connection to PostgreSQL is told: compiling a plan takes longer than any query here.
const ARE_TOLD: &str = "SET jit = off";

/// And what those for steps, items and sweeps are told besides. Their few statements find every row by an index that fits and in
/// its order, and need not be planned anew. Statistics must have no say in that: those of a young table, or of one whose
/// turns were all over when it was last looked at, make the planner read it whole at every step, or all items of a batch
/// for every page of them.
const HOT_ARE_TOLD: &str = "SET jit = off; SET plan_cache_mode = force_generic_plan; SET enable_bitmapscan = off; \
                            SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
                            SET enable_material = off";

fn told(pool: PgPoolOptions, what: &'static str) -> PgPoolOptions {
    pool.after_connect(move |connection, _| {
        Box::pin(async move {
            sqlx::raw_sql(what).execute(connection).await?;
            Ok(())
        })
    })
}

async fn sqlite(url: &str) -> Result<Store, Error> {
    let options = SqliteConnectOptions::from_str(url)
        .map_err(|error| Error::Address(format!("the `sqlite:` address is malformed: {error}")))?
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // What was appended survives a power cut.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(PATIENCE)
        // Up to 64 MiB a connection, and 16 MiB of log before it is folded into the file.
        .pragma("cache_size", "-65536")
        .pragma("wal_autocheckpoint", "4000")
        .disable_statement_logging();
    let file = options.get_filename().to_owned();
    let place = format!("the SQLite file {}", file.display());
    let pool = SqlitePoolOptions::new().test_before_acquire(false);
    let writer = pool.clone().max_connections(1).acquire_timeout(NO_END);
    if is_in_memory(url) {
        // **Invariant:** such a database lives in its one connection, so that one is never closed.
        let only = writer.min_connections(1).idle_timeout(None).max_lifetime(None);
        let only = only.connect_with(options).await.map_err(|error| unreached(&place, &error))?;
        let pool = SqlxSqliteConnector::from_sqlx_sqlite_pool(only);
        return Ok(Store::over(Database { writer: pool.clone(), hot: pool.clone(), pool, connections: 1 }));
    }
    let folder = file.parent().unwrap_or(&file);
    tokio::fs::create_dir_all(folder).await.map_err(|error| {
        Error::Address(format!("failed to create the folder {} for its file: {error}", folder.display()))
    })?;
    // SQLite ends a transaction by itself that a full disk refuses. The driver, whose own ROLLBACK is refused then, takes it
    // for open, and would make whatever is written next a part of it: such a connection is closed.
    let writer = writer.before_acquire(|connection, _| {
        let is_at_rest = !connection.is_in_transaction();
        Box::pin(async move { Ok(is_at_rest) })
    });
    // A file becomes one with a WAL under a lock that nobody waits for: of two that open a new file at the same moment,
    // one must try again.
    let began = Instant::now();
    let writer = loop {
        match writer.clone().connect_with(options.clone()).await {
            Err(error) if is_busy(&error) && began.elapsed() < PATIENCE => tokio::time::sleep(AGAIN).await,
            outcome => break outcome.map_err(|error| unreached(&place, &error))?,
        }
    };
    let readers = pool.max_connections(SQLITE_READERS).acquire_timeout(PATIENCE);
    // What is written over one of them by mistake is refused.
    let readers = readers.connect_lazy_with(options.pragma("query_only", "1"));
    let [writer, pool] = [writer, readers].map(SqlxSqliteConnector::from_sqlx_sqlite_pool);
    Ok(Store::over(Database { writer, hot: pool.clone(), pool, connections: SQLITE_READERS }))
}

fn is_in_memory(url: &str) -> bool {
    url.contains(":memory:") || url.contains("mode=memory")
}

/// Why there is no first connection, in words that name the place and no password.
fn unreached(place: &str, error: &sqlx::Error) -> Error {
    if let sqlx::Error::PoolTimedOut = error {
        let seconds = PATIENCE.as_secs();
        return Error::Unavailable(format!("{place} did not answer in {seconds} s: is it running?"));
    }
    let (kind, words) = error::sorted(error);
    kind(format!("{place}: {words}"))
}

/// Whether SQLite says that another connection is at it; the low byte of its code does.
fn is_busy(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    error.code().and_then(|it| it.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
}

#[test]
fn an_address_says_which_file_it_is() {
    for (url, wanted) in [
        ("sqlite:.turnfold/turnfold.db", Some(".turnfold/turnfold.db")),
        ("sqlite:///srv/a%20b%.db?mode=rwc", Some("/srv/a b%.db")),
        ("sqlite::memory:", None),
        ("sqlite:x?mode=memory", None),
        ("postgres://nobody@127.0.0.1/x", None),
    ] {
        assert_eq!(Store::sqlite_file(url), wanted.map(PathBuf::from), "{url}");
    }
}
