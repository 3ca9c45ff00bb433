//! Reads the counts of one tenant or of all.

use queue::clock;
use sea_orm::{FromQueryResult, Value};

use super::{CountedEnd, Resolution, writers::BEAT};
use crate::{
    Error, Store,
    log::{at_most, signed, statement, unsigned},
};

/// Time without a write after which counts of a process may be missing, in microseconds: a running one writes sooner.
const LATE: i64 = BEAT + 2_000_000;

/// Turns that ended, and responses of models, since a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Ended turns by interval and end, in order of time.
    pub ended: Vec<EndedCount>,
    /// Turns that failed or got no full answer, by cause, most frequent first.
    pub causes: Vec<CauseCount>,
    /// Model responses by interval, in order of time.
    pub usage: Vec<UsageCount>,
    /// Model responses by strategy and model, highest cost first.
    pub shares: Vec<UsageShare>,
    /// Turns that have not ended.
    pub open: OpenTurns,
    /// Time since which counts of killed processes are missing, in microseconds since the Unix epoch.
    pub missing_since: Option<i64>,
}

/// Turns that ended in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedCount {
    /// Start of the interval, in microseconds since the Unix epoch.
    pub start: i64,
    /// End of the turns.
    pub ended: CountedEnd,
    /// Number of turns.
    pub turns: u64,
}

/// Turns that ended with one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseCount {
    /// End of the turns.
    pub ended: CountedEnd,
    /// Cause of the end.
    pub cause: String,
    /// Number of turns.
    pub turns: u64,
}

/// Model responses in one interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageCount {
    /// Start of the interval, in microseconds since the Unix epoch.
    pub start: i64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Cost in millionths of a US dollar.
    pub micro_usd: u64,
}

/// Responses of one model in one strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageShare {
    /// Strategy of the threads.
    pub strategy: String,
    /// The model as `provider/model`.
    pub model: String,
    /// Number of responses.
    pub responses: u64,
    /// Tokens that the model read.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Cost in millionths of a US dollar.
    pub micro_usd: u64,
    /// Number of responses without a token count.
    pub without_usage: u64,
    /// Number of responses without a configured price.
    pub without_price: u64,
}

/// Turns that have not ended, by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenTurns {
    /// Turns that have not started.
    pub queued: u64,
    /// Turns that have started.
    pub running: u64,
    /// Threads that wait for a person.
    pub interrupted: u64,
}

/// Intervals since `$2`, of the length `$1`, of the tenant `$3`; an empty tenant selects all.
const SELECTED: &str = "WHERE seconds = $1 AND start >= $2 AND ($3 = '' OR tenant = $3)";

impl Store {
    /// Returns the counts of the intervals that began at `since` or later, and at most `limit` causes and as many pairs
    /// of strategy and model. Reads as many rows as there are intervals and subjects.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn stats(
        &self,
        resolution: Resolution,
        since: i64,
        tenant: Option<&str>,
        limit: u64,
    ) -> Result<Stats, Error> {
        let selection: [Value; 3] =
            [resolution.seconds().into(), since.into(), tenant.unwrap_or_default().into()];
        Ok(Stats {
            ended: self.ended_by_interval(&selection).await?,
            causes: self.ended_by_cause(&selection, limit).await?,
            usage: self.usage_by_interval(&selection).await?,
            shares: self.usage_by_model(&selection, limit).await?,
            open: self.open_turns(tenant).await?,
            missing_since: self.missing_since().await?,
        })
    }

    /// Returns the time of the last write of the process that was killed first, if what it counted is not read from the logs yet.
    async fn missing_since(&self) -> Result<Option<i64>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            written_at: Option<i64>,
        }
        let sql = "SELECT min(written_at) AS written_at FROM count_writers WHERE written_at < $1";
        let late: Value = (clock::now() - LATE).into();
        let pool = &self.database.pool;
        let row = Row::find_by_statement(statement(pool, sql, [late])).one(pool).await?;
        Ok(row.and_then(|row| row.written_at))
    }

    async fn ended_by_interval(&self, selection: &[Value; 3]) -> Result<Vec<EndedCount>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            start: i64,
            ended: String,
            turns: i64,
        }
        let sql = format!(
            "SELECT start, ended, CAST(sum(turns) AS BIGINT) AS turns FROM ended_turn_counts {SELECTED} \
             GROUP BY start, ended ORDER BY start, ended"
        );
        let rows: Vec<Row> = self.rows(&sql, selection).await?;
        rows.into_iter()
            .map(|it| Ok(EndedCount { start: it.start, ended: end(&it.ended)?, turns: unsigned(it.turns)? }))
            .collect()
    }

    async fn ended_by_cause(&self, selection: &[Value; 3], limit: u64) -> Result<Vec<CauseCount>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            ended: String,
            cause: String,
            many: i64,
        }
        let sql = format!(
            "SELECT ended, cause, CAST(sum(turns) AS BIGINT) AS many FROM ended_turn_counts {SELECTED} \
             AND ended IN ('failed', 'partial', 'declined') GROUP BY ended, cause \
             ORDER BY many DESC, ended, cause LIMIT {}",
            signed(at_most(limit))
        );
        let rows: Vec<Row> = self.rows(&sql, selection).await?;
        rows.into_iter()
            .map(|it| Ok(CauseCount { ended: end(&it.ended)?, cause: it.cause, turns: unsigned(it.many)? }))
            .collect()
    }

    async fn usage_by_interval(&self, selection: &[Value; 3]) -> Result<Vec<UsageCount>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            start: i64,
            tokens: i64,
            micro_usd: i64,
        }
        let sql = format!(
            "SELECT start, CAST(sum(input_tokens + output_tokens) AS BIGINT) AS tokens, \
             CAST(sum(micro_usd) AS BIGINT) AS micro_usd FROM model_response_counts {SELECTED} \
             GROUP BY start ORDER BY start"
        );
        let rows: Vec<Row> = self.rows(&sql, selection).await?;
        rows.into_iter()
            .map(|Row { start, tokens, micro_usd }| {
                Ok(UsageCount { start, tokens: unsigned(tokens)?, micro_usd: unsigned(micro_usd)? })
            })
            .collect()
    }

    async fn usage_by_model(&self, selection: &[Value; 3], limit: u64) -> Result<Vec<UsageShare>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            strategy: String,
            model: String,
            responses: i64,
            input_tokens: i64,
            output_tokens: i64,
            micro_usd: i64,
            without_usage: i64,
            without_price: i64,
        }
        let sum = |column: &str| format!("CAST(sum({column}) AS BIGINT) AS {column}");
        let sums =
            ["responses", "input_tokens", "output_tokens", "micro_usd", "without_usage", "without_price"];
        let sql = format!(
            "SELECT * FROM (SELECT strategy, model, {} FROM model_response_counts {SELECTED} \
             GROUP BY strategy, model) AS shares \
             ORDER BY micro_usd DESC, input_tokens + output_tokens DESC, strategy, model LIMIT {}",
            sums.map(sum).join(", "),
            signed(at_most(limit))
        );
        let rows: Vec<Row> = self.rows(&sql, selection).await?;
        rows.into_iter()
            .map(|row| {
                Ok(UsageShare {
                    strategy: row.strategy,
                    model: row.model,
                    responses: unsigned(row.responses)?,
                    input_tokens: unsigned(row.input_tokens)?,
                    output_tokens: unsigned(row.output_tokens)?,
                    micro_usd: unsigned(row.micro_usd)?,
                    without_usage: unsigned(row.without_usage)?,
                    without_price: unsigned(row.without_price)?,
                })
            })
            .collect()
    }

    /// Counts the turns that have not ended. Reads each of them.
    async fn open_turns(&self, tenant: Option<&str>) -> Result<OpenTurns, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            status: String,
            many: i64,
        }
        let sql = "SELECT turns.status AS status, count(*) AS many FROM open_turns AS open \
                   JOIN turns ON turns.position = open.position WHERE ($1 = '' OR open.tenant = $1) GROUP BY 1 \
                   UNION ALL SELECT 'interrupted', count(*) FROM threads \
                   WHERE stuck = 'interrupted' AND ($1 = '' OR tenant = $1)";
        let rows: Vec<Row> = self.rows(sql, &[tenant.unwrap_or_default().into()]).await?;
        let mut open = OpenTurns::default();
        for Row { status, many } in rows {
            let many = unsigned(many)?;
            match status.as_str() {
                "queued" => open.queued = many,
                "running" => open.running = many,
                "interrupted" => open.interrupted = many,
                // A turn that ended between the reads of its two rows.
                _ => {}
            }
        }
        Ok(open)
    }

    async fn rows<Row: FromQueryResult + Send + Sync>(
        &self,
        sql: &str,
        values: &[Value],
    ) -> Result<Vec<Row>, Error> {
        let pool = &self.database.pool;
        Ok(Row::find_by_statement(statement(pool, sql, values.iter().cloned())).all(pool).await?)
    }
}

fn end(text: &str) -> Result<CountedEnd, Error> {
    text.parse().map_err(|error| Error::Database(format!("the end of a counted turn: {error}")))
}
