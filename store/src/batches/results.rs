//! Progress of a batch: its results in order of arrival, counts by state, and causes of failure.

use std::collections::BTreeMap;

use sea_orm::{EntityTrait as _, FromQueryResult};

use super::{BatchId, ItemState, PAGE_BYTES};
use crate::{
    Error, Store, Turn,
    log::{at_most, looked_up, signed, statement, tables::turns, unsigned},
};
use shared::TurnStatus;

/// Number of a tenant's latest turns that are searched for those of one strategy.
const LATEST: i64 = 10_000;

/// Maximum number of failed items per state whose causes are counted.
const COUNTED: i64 = 10_000;

/// Number of characters by which messages of causes are compared.
pub(super) const CAUSE_CHARS: i32 = 120;

/// One line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultLine {
    /// Number of the result.
    pub n: u64,
    /// Content of the line, without its number: a JSON object.
    pub line: String,
}

/// Numbers of items whose turn has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Number of items that no worker has started yet.
    pub queued: u64,
    /// Number of items that are running.
    pub running: u64,
}

/// A cause for which items have no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// State of the items.
    pub state: ItemState,
    /// Error code or outcome, for programs.
    pub code: String,
    /// Error message, or causes of the outcome.
    pub message: String,
    /// Number of items with this cause.
    pub count: u64,
    /// Name of one of these items.
    pub example: Option<String>,
}

/// A line that could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidLine {
    /// Line number in the file, from 1.
    pub nth: u64,
    /// Error code, for programs.
    pub code: String,
    /// Error message, for people.
    pub message: String,
}

/// Rate of the most recent results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Number of results in the period.
    pub results: u64,
    /// Start of the period, in microseconds since the Unix epoch.
    pub since: i64,
    /// Time of the latest result, in microseconds since the Unix epoch.
    pub until: i64,
}

impl Store {
    /// Returns at most `limit` results of a batch after number `after`, in order of arrival. Stops early once they
    /// reach [`PAGE_BYTES`].
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn results(&self, batch: BatchId, after: u64, limit: u64) -> Result<Vec<ResultLine>, Error> {
        let sql = "SELECT n, line FROM batch_results WHERE batch_id = $1 AND n > $2 ORDER BY n LIMIT $3";
        self.lines(sql, batch, after, limit).await
    }

    /// Returns the final result of each item after number `after`, either of successful items or of all others. The
    /// limits are those of [`Self::results`].
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn final_results(
        &self,
        batch: BatchId,
        selection: ResultSelection,
        after: u64,
        limit: u64,
    ) -> Result<Vec<ResultLine>, Error> {
        let which = match selection {
            ResultSelection::Successful => "IN",
            ResultSelection::Unsuccessful => "NOT IN",
        };
        let sql = format!(
            "SELECT n, line FROM batch_results AS results WHERE batch_id = $1 AND n > $2 \
             AND (SELECT items.result_no = results.n AND items.state {which} ('completed', 'partial', 'declined', 'reused') \
             FROM batch_items AS items WHERE items.batch_id = results.batch_id AND items.nth = results.nth) \
             ORDER BY n LIMIT $3"
        );
        self.lines(&sql, batch, after, limit).await
    }

    async fn lines(
        &self,
        sql: &str,
        batch: BatchId,
        after: u64,
        limit: u64,
    ) -> Result<Vec<ResultLine>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            n: i64,
            line: String,
        }
        let pool = &self.database.hot;
        let sql = format!(
            "SELECT n, line FROM (SELECT n, line, sum(octet_length(line)) OVER (ORDER BY n) AS so_far \
             FROM ({sql}) AS page) AS page WHERE so_far - octet_length(line) < $4 ORDER BY n"
        );
        let (limit, bytes) = (signed(at_most(limit)), signed(PAGE_BYTES));
        let values = [batch.into(), signed(after).into(), limit.into(), bytes.into()];
        let rows = Row::find_by_statement(statement(pool, &sql, values)).all(pool).await?;
        rows.into_iter().map(|row| Ok(ResultLine { n: unsigned(row.n)?, line: row.line })).collect()
    }

    /// Returns the numbers of a batch's queued and running items.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn under_way(&self, batch: BatchId) -> Result<UnderWay, Error> {
        let its_turn = looked_up(&self.database.hot, "turns.id", "items.turn_id");
        let sql = format!(
            "SELECT turns.status AS name, COUNT(*) AS count FROM batch_items AS items JOIN turns ON {its_turn} \
             WHERE items.batch_id = $1 AND items.state = 'submitted' GROUP BY turns.status"
        );
        let counted: BTreeMap<String, u64> = self.counted(&sql, batch).await?.into_iter().collect();
        let of = |status: TurnStatus| counted.get(status.as_str()).copied().unwrap_or_default();
        let queued = of(TurnStatus::Queued);
        // An ended turn that was not collected yet counts as running, because the item has no result.
        Ok(UnderWay { queued, running: counted.values().sum::<u64>() - queued })
    }

    /// Returns the number of waiting items of a batch, by strategy.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn waiting_by_strategy(&self, batch: BatchId) -> Result<Vec<(String, u64)>, Error> {
        let sql = "SELECT strategy AS name, COUNT(*) AS count FROM batch_items \
                   WHERE batch_id = $1 AND state = 'waiting' AND strategy IS NOT NULL GROUP BY strategy ORDER BY strategy";
        self.counted(sql, batch).await
    }

    pub(crate) async fn counted(&self, sql: &str, batch: BatchId) -> Result<Vec<(String, u64)>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            name: String,
            count: i64,
        }
        let pool = &self.database.hot;
        let rows = Row::find_by_statement(statement(pool, sql, [batch.into()])).all(pool).await?;
        rows.into_iter().map(|row| Ok((row.name, unsigned(row.count)?))).collect()
    }

    /// Returns at most `limit` causes of items without an answer in a batch, the most frequent first. Items of a turn have the cause
    /// by which turns are grouped. At most ten thousand items of
    /// each state are counted, which bounds the time of a query.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn causes(&self, batch: BatchId, limit: u64) -> Result<Vec<Cause>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            state: String,
            code: String,
            message: String,
            count: i64,
            example: Option<String>,
        }
        let pool = &self.database.pool;
        let some = ["failed", "invalid", "expired", "partial", "declined"].map(|state| {
            format!(
                "SELECT * FROM (SELECT state, code, message, custom_id, turn_id FROM batch_items \
                 WHERE batch_id = $1 AND state = '{state}' AND code IS NOT NULL LIMIT $3) AS {state}"
            )
        });
        let sql = format!(
            "SELECT state, code, MIN(message) AS message, COUNT(*) AS count, MIN(custom_id) AS example FROM (\
             SELECT ended.state, ended.code, ended.custom_id, coalesce(turns.cause, ended.message) AS message \
             FROM ({}) AS ended LEFT JOIN turns ON {}) AS caused \
             GROUP BY state, code, SUBSTR(message, 1, {CAUSE_CHARS}) \
             ORDER BY COUNT(*) DESC, code, MIN(message) LIMIT $2",
            some.join(" UNION ALL "),
            looked_up(pool, "turns.id", "ended.turn_id")
        );
        let values = [batch.into(), signed(at_most(limit)).into(), COUNTED.into()];
        let rows = Row::find_by_statement(statement(pool, &sql, values)).all(pool).await?;
        let cause = |Row { state, code, message, count, example }: Row| {
            let state = state.parse().map_err(|error| Error::Database(format!("item state: {error}")))?;
            Ok(Cause { state, code, message, count: unsigned(count)?, example })
        };
        rows.into_iter().map(cause).collect()
    }

    /// Returns the first `limit` lines of a batch that could not be run.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn invalid_lines(&self, batch: BatchId, limit: u64) -> Result<Vec<InvalidLine>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            nth: i64,
            code: Option<String>,
            message: Option<String>,
        }
        let sql = "SELECT nth, code, message FROM batch_items WHERE batch_id = $1 AND state = 'invalid' \
                   ORDER BY nth LIMIT $2";
        let pool = &self.database.pool;
        let values = [batch.into(), signed(at_most(limit)).into()];
        let rows = Row::find_by_statement(statement(pool, sql, values)).all(pool).await?;
        let line = |Row { nth, code, message }: Row| {
            let (code, message) = (code.unwrap_or_default(), message.unwrap_or_default());
            Ok(InvalidLine { nth: unsigned(nth)?, code, message })
        };
        rows.into_iter().map(line).collect()
    }

    /// Returns the rate of a batch's latest results, from at most `most` of them, or `None` if there are fewer than
    /// two.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn pace(&self, batch: BatchId, done: u64, most: u64) -> Result<Option<Pace>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            n: i64,
            at: i64,
        }
        let first = done.saturating_sub(most).max(1);
        let sql = "SELECT n, at FROM batch_results WHERE batch_id = $1 AND (n = $2 OR n = $3) ORDER BY n";
        let pool = &self.database.pool;
        let values = [batch.into(), signed(first).into(), signed(done).into()];
        let rows = Row::find_by_statement(statement(pool, sql, values)).all(pool).await?;
        let [first, last] = &rows[..] else { return Ok(None) };
        Ok(Some(Pace { results: unsigned(last.n - first.n)?, since: first.at, until: last.at }))
    }

    /// Returns at most `limit` of the tenant's latest turns with this strategy that ended with a reply. Only recent
    /// turns are searched.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn past_turns(&self, tenant: &str, strategy: &str, limit: u64) -> Result<Vec<Turn>, Error> {
        let sql = "SELECT turns.* FROM (SELECT * FROM turns WHERE tenant = $1 ORDER BY position DESC LIMIT $2) \
                   AS turns JOIN threads ON threads.id = turns.thread_id AND threads.strategy = $3 \
                   WHERE turns.status = 'completed' ORDER BY turns.position DESC LIMIT $4";
        let pool = &self.database.hot;
        let values = [tenant.into(), LATEST.into(), strategy.into(), signed(at_most(limit)).into()];
        let rows = turns::Entity::find().from_raw_sql(statement(pool, sql, values)).all(pool).await?;
        rows.into_iter().map(Turn::try_from).collect()
    }
}

/// Selection of results by outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultSelection {
    /// Results of successful items.
    Successful,
    /// Results of all other items.
    Unsuccessful,
}
