//! Private servers with production settings: PostgreSQL waits for the disk, Redis writes its append-only file.
//!
//! ## Why PostgreSQL is started a second time
//!
//! `test-servers` starts a server that does not wait for the disk, which is right for tests and would falsify every
//! figure here. Options on a server's command line cannot be changed while it runs, so the server is started again on
//! the same data, with our options after the original ones: the last one counts.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use sea_orm::sqlx::{Connection as _, PgConnection};

/// Options after those of `test-servers`. Statements are counted only in a database that enables it.
const SETTINGS: [&str; 8] = [
    "fsync=on",
    "synchronous_commit=on",
    "full_page_writes=on",
    "shared_buffers=4GB",
    "min_wal_size=1GB",
    "max_wal_size=4GB",
    "shared_preload_libraries=pg_stat_statements",
    "pg_stat_statements.track=none",
];

/// Maximum time until a server answers.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// Both servers; they end when this is dropped.
pub(crate) struct Servers {
    // Before its data: the server must be gone when the folder is removed.
    running: Running,
    pub(crate) postgres: test_servers::Postgres,
    pub(crate) redis: test_servers::Redis,
    /// Process ids of PostgreSQL and Redis.
    pub(crate) processes: [u32; 2],
}

impl Servers {
    /// Starts both servers.
    pub(crate) async fn start() -> Result<Self> {
        let mut postgres = test_servers::Postgres::start();
        let running = Running::instead_of(&mut postgres)?;
        running.answer(&postgres.url()).await?;
        for (name, wanted) in [("fsync", "on"), ("synchronous_commit", "on"), ("full_page_writes", "on")] {
            let set = postgres.query(&format!("SHOW {name}"));
            ensure!(
                set == [[wanted]],
                "PostgreSQL runs with {name} = {set:?}: no figure would be worth its ink"
            );
        }
        let redis = test_servers::Redis::start();
        redis.ask("CONFIG SET appendfsync everysec");
        redis.ask("CONFIG SET appendonly yes");
        let processes = [running.0.id(), process_of(&redis)?];
        Ok(Self { running, postgres, redis, processes })
    }

    /// Position of PostgreSQL's write-ahead log in bytes.
    pub(crate) fn wal_bytes(&self) -> Result<f64> {
        self.number("SELECT (pg_current_wal_insert_lsn() - '0/0')::text")
    }

    /// Runs a query in the first database that returns one number.
    pub(crate) fn number(&self, sql: &str) -> Result<f64> {
        let rows = self.postgres.query(sql);
        let number = rows.first().and_then(|row| row.first()).and_then(|cell| cell.parse().ok());
        number.with_context(|| format!("`{sql}` gave no number but {rows:?}"))
    }
}

/// Process id of a Redis server.
pub(crate) fn process_of(redis: &test_servers::Redis) -> Result<u32> {
    let info = redis.ask("INFO server");
    let number = info.lines().find_map(|line| line.strip_prefix("process_id:")).map(str::trim);
    number.and_then(|digits| digits.parse().ok()).context("Redis does not name its process")
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.running.stop();
    }
}

/// A PostgreSQL server with production settings.
struct Running(Child);

impl Running {
    /// Replaces a server that does not wait for the disk.
    fn instead_of(postgres: &mut test_servers::Postgres) -> Result<Self> {
        let data = postgres.query("SHOW data_directory").concat().concat();
        let pid = fs::read_to_string(Path::new(&data).join("postmaster.pid"))?;
        let process = Path::new("/proc").join(pid.lines().next().unwrap_or_default());
        let program = fs::read_link(process.join("exe")).context("failed to find PostgreSQL's program")?;
        let words = fs::read(process.join("cmdline")).context("failed to read PostgreSQL's command line")?;
        let words = String::from_utf8(words)?;
        let words = words.trim_end_matches('\0').split('\0').skip(1);
        let (owner, ours) = (fs::metadata(&data)?, fs::metadata("/proc/self")?);
        let log = fs::File::create(Path::new(&data).join("log"))?;
        postgres.kill();

        // The server ends with this process, however it ends.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if owner.uid() != ours.uid() {
            command.args([format!("--reuid={}", owner.uid()), format!("--regid={}", owner.gid())]);
            command.arg("--init-groups");
        }
        command.arg(program).args(words).args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
        command.current_dir(&data).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        Ok(Self(command.spawn().context("failed to start PostgreSQL through `setpriv`")?))
    }

    async fn answer(&self, url: &str) -> Result<()> {
        let began = Instant::now();
        loop {
            match PgConnection::connect(url).await {
                Ok(connection) => return Ok(connection.close().await?),
                Err(error) if began.elapsed() > READY_WITHIN => {
                    return Err(error).context("PostgreSQL did not come back with fsync on");
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    fn stop(&mut self) {
        // Its child processes end on their own. A failure is ignored: the folder is temporary.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
