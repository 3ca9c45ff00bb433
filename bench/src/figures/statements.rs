//! PostgreSQL statements and Redis commands of one more step of a cached thread, counted by the servers.
//!
//! Two laps of the same threads have turns of different length. The difference is the cost of the steps, without the
//! cost of the turns.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use sea_orm::sqlx::{self, PgPool, Row as _};

use super::{Bench, Figure};
use crate::{
    engine::{Engine, Mode},
    report::{Bound, Line, Of, Target},
    rows,
    servers::Servers,
};

/// Number of threads in flight.
const SLOTS: usize = 64;

/// Nodes in a turn of the first lap, and of the second.
const STEPS: (u32, u32) = (10, 40);

pub(super) struct Statements {
    pub(super) mode: Mode,
}

#[async_trait]
impl Figure for Statements {
    fn name(&self) -> String {
        format!("statements.{}", self.mode.word())
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let (servers, url) = (bench.servers().await?, bench.database().await?);
        let pool = rows::postgres(&url, 1).await?;
        sqlx::query("CREATE EXTENSION pg_stat_statements").execute(&pool).await?;
        let name = url.rsplit('/').next().context("an address names its database")?;
        // Counts statements of connections opened from now on: the engine's, and none of the benchmark's.
        servers.postgres.query(&format!("ALTER DATABASE {name} SET pg_stat_statements.track = 'top'"));
        let engine = Engine::postgres(&servers, &url).await?;
        engine.lap(self.mode, SLOTS, SLOTS, STEPS.0).await?;
        let mut seen: Vec<Counted> = Vec::new();
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            let start = Counted::now(&servers, &pool).await?;
            let short = engine.lap(self.mode, SLOTS, SLOTS, STEPS.0).await?;
            let middle = Counted::now(&servers, &pool).await?;
            let long = engine.lap(self.mode, SLOTS, SLOTS, STEPS.1).await?;
            let end = Counted::now(&servers, &pool).await?;
            seen.push((end.less(&middle)).less(&middle.less(&start)).over(long.steps - short.steps));
        }
        Ok(self.lines(&seen))
    }
}

impl Statements {
    fn lines(&self, seen: &[Counted]) -> Vec<Line> {
        let each = |what: fn(&Counted) -> f64| seen.iter().map(what).collect::<Vec<f64>>();
        let line =
            |name: &str, unit, rounds: Vec<f64>| Line::new(format!("{}.{name}", self.name()), unit, &rounds);
        let at_most = |bound| Target { id: "T7", of: Of::Value, bound: Bound::AtMost(bound) };
        vec![
            line("sql.reads", "per step", each(|counts| counts.reads))
                .target(at_most(0.01))
                .note("calls of SELECT in pg_stat_statements"),
            line("sql.writes", "per commit", each(|counts| counts.writes / counts.commits))
                .target(at_most(1.0))
                .note("calls of INSERT, UPDATE and DELETE, also after WITH, per transaction id used"),
            line("sql.commits", "per step", each(|counts| counts.commits)).note("transaction ids used"),
            line(
                "redis.writes",
                "per commit",
                each(|counts| counts.redis(&["evalsha", "eval", "exec"]) / counts.commits),
            )
            .target(at_most(1.0))
            .note("EVALSHA, EVAL and EXEC in INFO commandstats: the round trips that write"),
            line("redis.reads", "per step", each(|counts| counts.redis(&["xreadgroup", "xautoclaim"])))
                .note("XREADGROUP and XAUTOCLAIM"),
            line("redis.publish", "per step", each(|counts| counts.redis(&["publish"])))
                .note("PUBLISH: the notifications"),
            line("redis.commands", "per step", each(|counts| counts.commands.values().sum()))
                .note("all commands, including those in scripts"),
        ]
    }
}

/// Counts reported by the servers.
#[derive(Clone, Default)]
struct Counted {
    reads: f64,
    writes: f64,
    commits: f64,
    commands: BTreeMap<String, f64>,
}

impl Counted {
    async fn now(servers: &Servers, pool: &PgPool) -> Result<Self> {
        let mut this = Self::default();
        let sql = "SELECT query, calls::float8 FROM pg_stat_statements \
                   WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                   AND query NOT LIKE '%pg_stat_statements%'";
        for row in sqlx::query(sql).fetch_all(pool).await? {
            let (query, calls): (String, f64) = (row.try_get(0)?, row.try_get(1)?);
            match query.split_whitespace().next().unwrap_or_default().to_ascii_uppercase().as_str() {
                // The lap's own final check.
                "SELECT" if query.contains("COUNT(") => {}
                "SELECT" => this.reads += calls,
                // Steps that change the status of a thread or turn use a hot statement that begins with `WITH`; no
                // other statement of a lap does.
                "INSERT" | "UPDATE" | "DELETE" | "WITH" => this.writes += calls,
                _ => {}
            }
        }
        // Only transactions that write get a transaction id.
        this.commits = servers.number("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")?;
        for line in servers.redis.ask("INFO commandstats").lines() {
            let Some((name, fields)) = line.strip_prefix("cmdstat_").and_then(|rest| rest.split_once(':'))
            else {
                continue;
            };
            let calls = fields.strip_prefix("calls=").and_then(|rest| rest.split(',').next());
            let calls =
                calls.and_then(|count| count.parse().ok()).context("INFO commandstats counts calls")?;
            this.commands.insert(name.to_owned(), calls);
        }
        Ok(this)
    }

    fn less(&self, other: &Self) -> Self {
        let before = |name: &str| other.commands.get(name).copied().unwrap_or_default();
        Self {
            reads: self.reads - other.reads,
            writes: self.writes - other.writes,
            commits: self.commits - other.commits,
            commands: self
                .commands
                .iter()
                .map(|(name, calls)| (name.clone(), calls - before(name)))
                .collect(),
        }
    }

    fn over(&self, steps: f64) -> Self {
        Self {
            reads: self.reads / steps,
            writes: self.writes / steps,
            commits: self.commits / steps,
            commands: self.commands.iter().map(|(name, calls)| (name.clone(), calls / steps)).collect(),
        }
    }

    /// Calls of these commands.
    fn redis(&self, names: &[&str]) -> f64 {
        names.iter().filter_map(|name| self.commands.get(*name)).sum()
    }
}
