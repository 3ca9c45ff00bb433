//! What is told of a batch: its results as they come, how many items stand where, and why some ended badly.

use std::collections::BTreeMap;

use sea_orm::{EntityTrait as _, FromQueryResult};

use super::{BatchId, ItemState, PAGE_BYTES};
use crate::{
    Error, Store, Turn, TurnStatus,
    log::{at_most, signed, statement, tables::turns, unsigned},
};

/// How many of a tenant's latest turns are looked through for those of one strategy.
const LATEST: i64 = 10_000;

/// Of how many items that ended badly, of each state, the causes are counted.
const COUNTED: i64 = 10_000;

/// A line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultLine {
    /// Its number.
    pub n: u64,
    /// The line, without its number: a JSON object.
    pub line: String,
}

/// How many items have a turn that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnderWay {
    /// Nobody is at them yet.
    pub queued: u64,
    /// They are being run.
    pub running: u64,
}

/// Why items ended badly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// For programs.
    pub code: String,
    /// For people.
    pub message: String,
    /// How many.
    pub count: u64,
    /// One of them.
    pub example: Option<String>,
}

/// A line that could not be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number in the file, from 1.
    pub nth: u64,
    /// What is wrong, for programs.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
}

/// How fast results came of late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// So many results …
    pub results: u64,
    /// … since then, in microseconds since the Unix epoch.
    pub since: i64,
    /// When the last of them came.
    pub until: i64,
}

impl Store {
    /// The results of a batch after number `after`, in the order in which they came, at most `limit`, and no further one once
    /// they have [`PAGE_BYTES`].
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn results(&self, batch: BatchId, after: u64, limit: u64) -> Result<Vec<ResultLine>, Error> {
        let sql = "SELECT n, line FROM batch_results WHERE batch_id = $1 AND n > $2 ORDER BY n LIMIT $3";
        self.lines(sql, batch, after, limit).await
    }

    /// Those results that count, of items that ended well or of the others, after number `after`; so many as by
    /// [`Self::results`].
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn final_results(
        &self,
        batch: BatchId,
        good: Good,
        after: u64,
        limit: u64,
    ) -> Result<Vec<ResultLine>, Error> {
        let which = match good {
            Good::Yes => "IN",
            Good::No => "NOT IN",
        };
        let sql = format!(
            "SELECT n, line FROM batch_results AS results WHERE batch_id = $1 AND n > $2 \
             AND (SELECT items.done_no = results.n AND items.state {which} ('completed', 'reused') \
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
        rows.into_iter().map(|it| Ok(ResultLine { n: unsigned(it.n)?, line: it.line })).collect()
    }

    /// How many items of a batch stand where, as its items say and not its row; a state that none has is left out.
    pub(crate) async fn count_items(&self, batch: BatchId) -> Result<BTreeMap<ItemState, u64>, Error> {
        let sql =
            "SELECT state AS name, COUNT(*) AS count FROM batch_items WHERE batch_id = $1 GROUP BY state";
        let counted = |(state, count): (String, u64)| {
            let state = state.parse().map_err(|error| Error::Database(format!("an item's {error}")))?;
            Ok((state, count))
        };
        self.counted(sql, batch).await?.into_iter().map(counted).collect()
    }

    /// How many items of a batch are queued or run.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn under_way(&self, batch: BatchId) -> Result<UnderWay, Error> {
        let sql = "SELECT turns.status AS name, COUNT(*) AS count FROM batch_items AS items \
                   JOIN turns ON turns.id = items.turn_id \
                   WHERE items.batch_id = $1 AND items.state = 'fed' GROUP BY turns.status";
        let counted: BTreeMap<String, u64> = self.counted(sql, batch).await?.into_iter().collect();
        let of = |status: TurnStatus| counted.get(status.as_str()).copied().unwrap_or_default();
        let queued = of(TurnStatus::Queued);
        // What has ended and was not collected yet counts as running: it has no result.
        Ok(UnderWay { queued, running: counted.values().sum::<u64>() - queued })
    }

    /// How many items of a batch wait to be begun under each strategy.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn waiting_by_strategy(&self, batch: BatchId) -> Result<Vec<(String, u64)>, Error> {
        let sql = "SELECT strategy AS name, COUNT(*) AS count FROM batch_items \
                   WHERE batch_id = $1 AND state = 'waiting' AND strategy IS NOT NULL GROUP BY strategy ORDER BY strategy";
        self.counted(sql, batch).await
    }

    async fn counted(&self, sql: &str, batch: BatchId) -> Result<Vec<(String, u64)>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            name: String,
            count: i64,
        }
        let pool = &self.database.pool;
        let rows = Row::find_by_statement(statement(pool, sql, [batch.into()])).all(pool).await?;
        rows.into_iter().map(|it| Ok((it.name, unsigned(it.count)?))).collect()
    }

    /// Why items of a batch ended badly, the most frequent cause first, at most `limit` causes. Beyond ten thousand of
    /// each state no more are counted, so that whoever asks often never waits for long.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn causes(&self, batch: BatchId, limit: u64) -> Result<Vec<Cause>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            code: String,
            message: String,
            count: i64,
            example: Option<String>,
        }
        let some = ["failed", "bad", "expired"].map(|state| {
            format!(
                "SELECT * FROM (SELECT code, message, custom_id FROM batch_items \
                 WHERE batch_id = $1 AND state = '{state}' AND code IS NOT NULL LIMIT $3) AS {state}"
            )
        });
        let sql = format!(
            "SELECT code, MIN(message) AS message, COUNT(*) AS count, MIN(custom_id) AS example \
             FROM ({}) AS ended GROUP BY code, SUBSTR(message, 1, 120) \
             ORDER BY COUNT(*) DESC, code, MIN(message) LIMIT $2",
            some.join(" UNION ALL ")
        );
        let pool = &self.database.pool;
        let values = [batch.into(), signed(at_most(limit)).into(), COUNTED.into()];
        let rows = Row::find_by_statement(statement(pool, &sql, values)).all(pool).await?;
        let cause = |Row { code, message, count, example }: Row| {
            Ok(Cause { code, message, count: unsigned(count)?, example })
        };
        rows.into_iter().map(cause).collect()
    }

    /// The first lines of a batch that could not be run, at most `limit`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn bad_lines(&self, batch: BatchId, limit: u64) -> Result<Vec<BadLine>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            nth: i64,
            code: Option<String>,
            message: Option<String>,
        }
        let sql = "SELECT nth, code, message FROM batch_items WHERE batch_id = $1 AND state = 'bad' \
                   ORDER BY nth LIMIT $2";
        let pool = &self.database.pool;
        let values = [batch.into(), signed(at_most(limit)).into()];
        let rows = Row::find_by_statement(statement(pool, sql, values)).all(pool).await?;
        let line = |Row { nth, code, message }: Row| {
            let (code, message) = (code.unwrap_or_default(), message.unwrap_or_default());
            Ok(BadLine { nth: unsigned(nth)?, code, message })
        };
        rows.into_iter().map(line).collect()
    }

    /// How fast the last results of a batch came, `most` of them at most; none, if there are fewer than two.
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

    /// The last turns of a tenant under this strategy that ended with words of the assistant, at most `limit`. Those that
    /// lie long back are not looked for.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn past_turns(&self, tenant: &str, strategy: &str, limit: u64) -> Result<Vec<Turn>, Error> {
        let sql = "SELECT turns.* FROM (SELECT * FROM turns WHERE tenant = $1 ORDER BY position DESC LIMIT $2) \
                   AS turns JOIN threads ON threads.id = turns.thread_id AND threads.strategy = $3 \
                   WHERE turns.status = 'completed' ORDER BY turns.position DESC LIMIT $4";
        let pool = &self.database.pool;
        let values = [tenant.into(), LATEST.into(), strategy.into(), signed(at_most(limit)).into()];
        let rows = turns::Entity::find().from_raw_sql(statement(pool, sql, values)).all(pool).await?;
        rows.into_iter().map(Turn::try_from).collect()
    }
}

/// Which results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Good {
    /// Of items that ended well.
    Yes,
    /// Of the others.
    No,
}
