//! Connecting to a database, and migrating it.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, SqlxPostgresConnector, SqlxSqliteConnector,
    sqlx::{
        self, ConnectOptions, Connection as _, PgConnection,
        postgres::{PgPool, PgPoolOptions},
        sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
    },
};

use crate::{
    Error,
    admin::adopt,
    error,
    log::{
        ConnectionSettings, Store,
        connection_settings::HOT_CONNECTIONS,
        database::{Database, uninterrupted},
        distribution,
        kept::{Kept, TRUSTED_FOR},
        migration_lock::alone,
        pool::Pool,
        postgres_address, read_only,
        server_watch::{Reading, ServerWatch},
        sqlite_file::SqliteFile,
    },
};

/// Maximum connections per process that read a SQLite file; one more connection writes.
const SQLITE_READERS: u32 = 4;

/// Maximum wait for a connection, and for another process that is writing to the same SQLite file.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum wait for the connection that writes to SQLite: practically unlimited, because writers queue for it.
const WRITER_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Delay before retrying to open a new SQLite file that another process is creating.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Error message for a database that no released migration can upgrade.
const BEFORE_0_1_0: &str = "this database was created by a development version before 0.1.0; \
    hint: create a new one, for example by choosing another file or database name in store.url";

impl Store {
    /// Connects to `sqlite:PATH`, `sqlite::memory:` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, also in libpq's
    /// forms for sockets. A missing SQLite file and its directory are created; tables are not.
    ///
    /// # Errors
    ///
    /// [`Error::Address`] if the address cannot work, [`Error::Unavailable`] if a later attempt may succeed.
    pub async fn connect(url: &str) -> Result<Store, Error> {
        Store::connect_with(url, ConnectionSettings::default()).await
    }

    /// Connects as [`Store::connect`] does, with these settings of PostgreSQL.
    ///
    /// # Errors
    ///
    /// As [`Store::connect`].
    pub async fn connect_with(url: &str, settings: ConnectionSettings) -> Result<Store, Error> {
        match url.split_once(':') {
            Some(("sqlite", _)) => sqlite(url).await,
            Some(("postgres" | "postgresql", _)) => postgres(url, settings).await,
            // The address is not shown: it may contain a password.
            Some(_) | None => Err(Error::Address(
                "its address begins with neither `sqlite:` nor `postgres://`; hint: use `sqlite:PATH` or \
                 `postgres://USER:PASSWORD@HOST:PORT/DATABASE`"
                    .to_owned(),
            )),
        }
    }

    /// Returns the path of the SQLite file in an address; `None` for a database in memory or another engine.
    pub fn sqlite_file(url: &str) -> Option<PathBuf> {
        let options = SqliteConnectOptions::from_str(url).ok().filter(|_| url.starts_with("sqlite:"))?;
        let file = options.get_filename();
        (!is_in_memory(url) && !file.as_os_str().is_empty()).then(|| file.to_owned())
    }

    /// Verifies that the database has exactly the migrations of this build.
    ///
    /// # Errors
    ///
    /// [`Error::NotMigrated`] if some are missing, [`Error::TooNew`] if there are others.
    pub async fn check_migrated(&self) -> Result<(), Error> {
        let pending = self.pending().await?;
        if pending.is_empty() { Ok(()) } else { Err(Error::NotMigrated { pending }) }
    }

    /// Returns the names of the migrations that the database lacks, oldest first.
    ///
    /// # Errors
    ///
    /// [`Error::TooNew`] if the database has migrations that this build does not know; [`Error::Address`] if a development
    /// version before 0.1.0 created it.
    pub async fn pending(&self) -> Result<Vec<String>, Error> {
        let pool = &self.database.pool;
        let survey = match pool {
            Pool::Direct(pool, _) => migrations::survey(pool).await?,
            Pool::Kept(_) | Pool::Pooled { .. } => {
                let tx = pool.begin_named().await?;
                let survey = migrations::survey(&tx).await?;
                pool.commit_named(tx).await?;
                survey
            }
        };
        let migrations::Survey { pending, unknown, before_release } = survey;
        if !before_release.is_empty() {
            return Err(Error::Address(BEFORE_0_1_0.to_owned()));
        }
        if unknown.is_empty() {
            return Ok(pending);
        }
        Err(Error::TooNew {
            what: format!(
                "the database has migrations that this build does not know ({})",
                unknown.join(", ")
            ),
        })
    }

    /// Applies all pending migrations in one transaction and returns their names. Concurrent callers wait for each
    /// other.
    ///
    /// # Errors
    ///
    /// [`Error::TooNew`] if the database has migrations that this build does not know.
    pub async fn migrate(&self) -> Result<Vec<String>, Error> {
        self.pending().await?;
        let writer = self.database.writer.clone();
        uninterrupted(async move {
            let tx = writer.begin_named().await?;
            match migrate(&tx).await {
                Ok(applied) => writer.commit_named(tx).await.map(|()| applied).map_err(Error::from),
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

async fn migrate(tx: &DatabaseTransaction) -> Result<Vec<String>, Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        alone(tx).await?;
    }
    let applied = migrations::migrate(tx).await?;
    adopt::adopt(tx, &applied).await?;
    Ok(applied)
}

async fn postgres(url: &str, settings: ConnectionSettings) -> Result<Store, Error> {
    let ConnectionSettings { max: connections, prepared_statements } = settings;
    let mut options = postgres_address::parse(url)?;
    if !prepared_statements {
        // Poolers refuse this parameter, because they cannot keep it apart for each client.
        options = options.statement_cache_capacity(0).extra_float_digits(None);
    }
    let place = postgres_address::place(&options);
    let pool = PgPoolOptions::new().acquire_timeout(TIMEOUT).test_before_acquire(false).before_acquire(
        |connection, meta| {
            Box::pin(async move {
                if meta.idle_for > TRUSTED_FOR {
                    connection.ping().await?;
                }
                read_only::may_be_used(connection).await
            })
        },
    );
    let with = |settings: &'static str| {
        pool.clone().after_connect(move |connection, _| Box::pin(prepare(connection, settings)))
    };
    let sessions = |settings| with(if prepared_statements { settings } else { "" });
    let connected = sessions(SETTINGS).max_connections(connections).connect_with(options.clone()).await;
    let connected = connected.map_err(|error| connect_error(&place, &error))?;
    let watch = Some(Arc::new(first_look(&connected, &place).await?));
    let is_distributed = distribution::is_distributed(&connected).await;
    let is_distributed = is_distributed.map_err(|error| connect_error(&place, &error))?;
    let (hot_settings, begin_hot) = match is_distributed {
        true => (HOT_SETTINGS_DISTRIBUTED, BEGIN_HOT_DISTRIBUTED),
        false => (HOT_SETTINGS, BEGIN_HOT),
    };
    let hot = sessions(hot_settings).max_connections(HOT_CONNECTIONS).connect_lazy_with(options);
    let [pool, hot] = if prepared_statements {
        let pool = Pool::Direct(SqlxPostgresConnector::from_sqlx_postgres_pool(connected), None);
        [pool, Pool::Kept(Kept::new(hot, HOT_CONNECTIONS))]
    } else {
        [Pool::Pooled { pool: connected, begin: BEGIN }, Pool::Pooled { pool: hot, begin: begin_hot }]
    };
    Ok(Store::over(Database { writer: pool.clone(), pool, hot, connections, is_distributed, watch }))
}

/// Settings of every PostgreSQL connection: compiling a plan takes longer than any query here. A statement that waits for the
/// lock of another session, or takes too long, fails as [`Error::Unavailable`] instead of waiting for ever. The timeouts are
/// longer than any statement takes: that of `store prune` in a large database, and that of a step.
///
/// With `sequential`, a transaction on Citus uses one connection to each node instead of one to each shard, and prepares one
/// commit on each: a batch of 64 threads takes 16 ms instead of 190. Other servers ignore this setting.
macro_rules! settings {
    ($set:literal, $timeout:literal) => {
        concat!(
            $set,
            " jit = off; ",
            $set,
            " lock_timeout = '10s'; ",
            $set,
            " statement_timeout = '",
            $timeout,
            "'; ",
            $set,
            " citus.multi_shard_modify_mode = 'sequential'"
        )
    };
}

/// Settings of the connections for worker steps, batch items and sweeps. Their few statements find every row through
/// a matching index. Statistics must not influence them: those of a young table, or of one
/// whose turns had all ended, make the planner read the whole table at every step, or all items of a batch for every
/// page.
macro_rules! hot_settings {
    ($set:literal) => {
        concat!(
            settings!($set, "30s"),
            "; ",
            $set,
            " enable_bitmapscan = off; ",
            $set,
            " enable_seqscan = off; ",
            $set,
            " enable_hashjoin = off; ",
            $set,
            " enable_mergejoin = off; ",
            $set,
            " enable_material = off"
        )
    };
}

/// The same with plans that are made once. Citus can make none for a statement over several shards before it knows the values.
macro_rules! planned_once {
    ($set:literal) => {
        concat!(hot_settings!($set), "; ", $set, " plan_cache_mode = force_generic_plan")
    };
}

const SETTINGS: &str = settings!("SET", "10min");
const HOT_SETTINGS: &str = planned_once!("SET");
const HOT_SETTINGS_DISTRIBUTED: &str = hot_settings!("SET");

/// The same settings for one transaction through a pooler.
const BEGIN: &str = concat!("BEGIN; ", settings!("SET LOCAL", "10min"));
const BEGIN_HOT: &str = concat!("BEGIN; ", planned_once!("SET LOCAL"));
const BEGIN_HOT_DISTRIBUTED: &str = concat!("BEGIN; ", hot_settings!("SET LOCAL"));

/// Applies settings to a new connection, and refuses one to a server that only reads.
async fn prepare(connection: &mut PgConnection, settings: &'static str) -> Result<(), sqlx::Error> {
    if !settings.is_empty() {
        sqlx::raw_sql(settings).execute(&mut *connection).await?;
    }
    if read_only::may_be_used(connection).await? {
        Ok(())
    } else {
        Err(sqlx::Error::Protocol("this server only reads (a standby, or a demoted primary)".to_owned()))
    }
}

/// Begins to follow the clock of the server, and refuses a database that cannot hold every character: its writes would fail
/// one by one, each after a paid answer.
async fn first_look(pool: &PgPool, place: &str) -> Result<ServerWatch, Error> {
    let reading = Reading::of(pool).await.map_err(|error| connect_error(place, &error))?;
    let encoding = &reading.encoding;
    if encoding == "UTF8" {
        return Ok(ServerWatch::start(pool.clone(), &reading));
    }
    Err(Error::Address(format!(
        "{place}: the database has the encoding {encoding}, which cannot hold every character; \
         hint: create one with `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0`"
    )))
}

/// Creates a missing file that only its owner can read; SQLite gives its other files the same permissions. Connecting
/// reports errors.
fn create_private(file: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(file);
}

async fn sqlite(url: &str) -> Result<Store, Error> {
    let options = SqliteConnectOptions::from_str(url)
        .map_err(|error| Error::Address(format!("the `sqlite:` address is malformed: {error}")))?
        // A connection that is made later must not create a file in the place of one that was deleted.
        .create_if_missing(is_in_memory(url))
        .journal_mode(SqliteJournalMode::Wal)
        // Appended events survive a power failure.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(TIMEOUT)
        // A cache of up to 64 MiB per connection, and a checkpoint every 16 MiB of WAL.
        .pragma("cache_size", "-65536")
        .pragma("wal_autocheckpoint", "4000")
        .disable_statement_logging();
    let file = options.get_filename().to_owned();
    let place = format!("the SQLite file {}", file.display());
    let pool = SqlitePoolOptions::new().test_before_acquire(false);
    let writer = pool.clone().max_connections(1).acquire_timeout(WRITER_TIMEOUT);
    if is_in_memory(url) {
        // **Invariant:** a database in memory exists only in its one connection, so that connection is never closed.
        let only = writer.min_connections(1).idle_timeout(None).max_lifetime(None);
        let only = only.connect_with(options).await.map_err(|error| connect_error(&place, &error))?;
        let pool = Pool::Direct(SqlxSqliteConnector::from_sqlx_sqlite_pool(only), None);
        let (writer, hot) = (pool.clone(), pool.clone());
        return Ok(Store::over(Database {
            writer,
            hot,
            pool,
            connections: 1,
            is_distributed: false,
            watch: None,
        }));
    }
    let folder = file.parent().unwrap_or(&file);
    tokio::fs::create_dir_all(folder).await.map_err(|error| {
        Error::Address(format!("cannot create the directory {} for its file: {error}", folder.display()))
    })?;
    create_private(&file);
    // When the disk is full, SQLite rolls the transaction back. The driver does not notice: its own ROLLBACK is then
    // rejected, and the next write would become part of the old transaction. The connection is closed instead.
    let writer = writer.before_acquire(|connection, _| {
        let is_at_rest = !connection.is_in_transaction();
        Box::pin(async move { Ok(is_at_rest) })
    });
    // Switching a new file to WAL takes a lock without waiting. If two processes open it at the same moment, one must
    // retry.
    let began = Instant::now();
    let writer = loop {
        match writer.clone().connect_with(options.clone()).await {
            Err(error) if is_busy(&error) && began.elapsed() < TIMEOUT => {
                tokio::time::sleep(RETRY_DELAY).await
            }
            outcome => break outcome.map_err(|error| connect_error(&place, &error))?,
        }
    };
    let opened = SqliteFile::opened(&file).map_err(|error| Error::Address(format!("{place}: {error}")))?;
    let readers = pool.max_connections(SQLITE_READERS).acquire_timeout(TIMEOUT);
    // A write on a reading connection is rejected.
    let readers = readers.connect_lazy_with(options.pragma("query_only", "1"));
    let [writer, pool] = [writer, readers].map(SqlxSqliteConnector::from_sqlx_sqlite_pool);
    let (writer, pool) = (Pool::Direct(writer, Some(opened)), Pool::Direct(pool, None));
    let hot = pool.clone();
    Ok(Store::over(Database {
        writer,
        hot,
        pool,
        connections: SQLITE_READERS,
        is_distributed: false,
        watch: None,
    }))
}

fn is_in_memory(url: &str) -> bool {
    url.contains(":memory:") || url.contains("mode=memory")
}

/// Builds the error for a failed first connection. Names the server or file, never the password.
fn connect_error(place: &str, error: &sqlx::Error) -> Error {
    if let sqlx::Error::PoolTimedOut = error {
        let seconds = TIMEOUT.as_secs();
        return Error::Unavailable(format!(
            "{place} did not answer within {seconds} s; hint: check that it is running"
        ));
    }
    let (kind, words) = error::sorted(error);
    kind(format!("{place}: {words}"))
}

/// Returns true if SQLite reported that another connection holds the lock, in the low byte of the code.
fn is_busy(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    error.code().and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
}

#[test]
fn sqlite_file_is_the_path_of_an_address() {
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
