//! Writes the counts of this process, and replaces counts by those of the logs.
//!
//! ## Why rows are written in order
//!
//! Several processes add to the same rows. Each locks them in the order of their key, so none waits for another in a
//! circle.

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{ConnectionTrait as _, FromQueryResult as _};

use super::{
    Counted, Intervals, Resolution, Tally,
    lost::{EndsRow, alone, missing_counts},
    prompts::add_uses,
    tally::MINUTE,
    writers::{BEAT, Row, move_to},
};
use crate::{
    Error, Store,
    log::{Transaction, pool::Pool, signed, statement},
    sql_batch::{StatementText, number, text},
};

/// Maximum rows per statement.
const ROWS_MAX: usize = 1_000;

/// Time until the counts of a finished interval are complete, in microseconds. Processes write theirs every second.
pub(super) const COMPLETE_AFTER: i64 = 60 * 1_000_000;

const ADD_ENDS: StatementText = StatementText {
    postgres: "INSERT INTO ended_turn_counts AS counts (seconds, start, tenant, strategy, ended, cause, turns) \
               SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], \
               $7::bigint[]) ON CONFLICT (seconds, start, tenant, strategy, ended, cause) \
               DO UPDATE SET turns = counts.turns + excluded.turns",
    sqlite: "INSERT INTO ended_turn_counts AS counts (seconds, start, tenant, strategy, ended, cause, turns) \
             SELECT value ->> 'seconds', value ->> 'start', value ->> 'tenant', value ->> 'strategy', \
             value ->> 'ended', value ->> 'cause', value ->> 'turns' FROM json_each(?1) WHERE TRUE \
             ON CONFLICT (seconds, start, tenant, strategy, ended, cause) \
             DO UPDATE SET turns = counts.turns + excluded.turns",
};

const ADD_RESPONSES: StatementText = StatementText {
    postgres: "INSERT INTO model_response_counts AS counts (seconds, start, tenant, strategy, model, responses, \
               input_tokens, output_tokens, micro_usd, without_usage, without_price) \
               SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], \
               $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[]) \
               ON CONFLICT (seconds, start, tenant, strategy, model) DO UPDATE SET \
               responses = counts.responses + excluded.responses, \
               input_tokens = counts.input_tokens + excluded.input_tokens, \
               output_tokens = counts.output_tokens + excluded.output_tokens, \
               micro_usd = counts.micro_usd + excluded.micro_usd, \
               without_usage = counts.without_usage + excluded.without_usage, \
               without_price = counts.without_price + excluded.without_price",
    sqlite: "INSERT INTO model_response_counts AS counts (seconds, start, tenant, strategy, model, responses, \
             input_tokens, output_tokens, micro_usd, without_usage, without_price) \
             SELECT value ->> 'seconds', value ->> 'start', value ->> 'tenant', value ->> 'strategy', \
             value ->> 'model', value ->> 'responses', value ->> 'input_tokens', value ->> 'output_tokens', \
             value ->> 'micro_usd', value ->> 'without_usage', value ->> 'without_price' \
             FROM json_each(?1) WHERE TRUE \
             ON CONFLICT (seconds, start, tenant, strategy, model) DO UPDATE SET \
             responses = counts.responses + excluded.responses, \
             input_tokens = counts.input_tokens + excluded.input_tokens, \
             output_tokens = counts.output_tokens + excluded.output_tokens, \
             micro_usd = counts.micro_usd + excluded.micro_usd, \
             without_usage = counts.without_usage + excluded.without_usage, \
             without_price = counts.without_price + excluded.without_price",
};

/// Turns since `$1` and before `$2` that ended before they started, by minute. No log contains them.
const NEVER_STARTED: &str = "SELECT turns.updated_at - turns.updated_at % 60000000 AS start, turns.tenant AS tenant, \
    threads.strategy AS strategy, turns.stuck AS ended, coalesce(turns.cause, '') AS cause, count(*) AS turns \
    FROM turns JOIN threads ON threads.id = turns.thread_id \
    WHERE turns.stuck IN ('failed', 'cancelled') AND turns.started_seq IS NULL AND turns.updated_at >= $1 \
    AND turns.updated_at < $2 \
    GROUP BY 1, 2, 3, 4, 5";

impl Store {
    /// Counts what an append recorded; [`Store::write_counts`] writes it. Does not wait.
    pub fn count_recorded(&self, counted: &Counted<'_>) {
        self.unwritten_counts.add(counted);
    }

    /// Writes what this process has counted, and deletes counts that are no longer kept. Without new counts, it writes every ten
    /// seconds that the process runs.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer; the counts are then written next time.
    pub async fn write_counts(&self) -> Result<(), Error> {
        let now = clock::now();
        let unwritten = &self.unwritten_counts;
        let (writer, since) = (unwritten.writer, unwritten.written_at());
        let Some(tally) = unwritten.take(now, BEAT) else { return Ok(()) };
        let mut counts = Intervals::default();
        counts.add(&tally, now);
        let uses = tally.uses.clone();
        let forgets = since.is_none_or(|at| at.div_euclid(MINUTE) != now.div_euclid(MINUTE));
        let written = self.database.transact(move |tx| {
            async move {
                let row = move_to(tx, writer, since, now).await?;
                add_uses(tx, uses).await?;
                if row == Row::TakenOver {
                    return Ok(());
                }
                if forgets {
                    forget(tx, now).await?;
                }
                insert(tx, counts).await
            }
            .boxed()
        });
        written.await.inspect_err(|_| unwritten.put_back(tally))?;
        unwritten.wrote(now);
        Ok(())
    }

    /// Replaces all counts of complete intervals by those of the logs, and of the turns that never started. What the complete
    /// minutes lack is added to the hour and the quarter that are not complete.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn replace_counts(&self, mut counts: Intervals) -> Result<(), Error> {
        let now = clock::now();
        let kept = Resolution::Hour.kept_since(now);
        counts.add(&never_started(&self.database.pool, kept, now).await?, now);
        let until = move |resolution: Resolution| resolution.start(now - COMPLETE_AFTER);
        let expected = counts.clone();
        counts.retain(|resolution, start| start < until(resolution));
        self.database
            .transact(move |tx| {
                async move {
                    alone(tx).await?;
                    let (hour, minute) = (until(Resolution::Hour), until(Resolution::Minute));
                    let missing = missing_counts(tx, Resolution::Minute, hour, minute, expected).await?;
                    let mut open = Intervals::default();
                    open.add(&missing, now);
                    open.retain(|resolution, start| until(resolution) <= start);
                    counts.merge(open);
                    for resolution in Resolution::ALL {
                        delete(tx, resolution, until(resolution)).await?;
                    }
                    insert(tx, counts).await
                }
                .boxed()
            })
            .await
    }
}

/// Counts turns of this time that ended before they started.
pub(super) async fn never_started(pool: &Pool, since: i64, until: i64) -> Result<Tally, Error> {
    let rows = EndsRow::find_by_statement(statement(pool, NEVER_STARTED, [since.into(), until.into()]));
    let mut tally = Tally::default();
    for row in rows.all(pool).await? {
        let (minute, ends, turns) = row.count()?;
        tally.ends.insert((minute, ends), turns);
    }
    Ok(tally)
}

/// Deletes counts that are no longer kept.
async fn forget(tx: &Transaction, now: i64) -> Result<(), Error> {
    for resolution in Resolution::ALL {
        delete(tx, resolution, resolution.kept_since(now)).await?;
    }
    Ok(())
}

/// Deletes the counts of the intervals that began before this time.
async fn delete(tx: &Transaction, resolution: Resolution, before: i64) -> Result<(), Error> {
    for table in ["ended_turn_counts", "model_response_counts"] {
        let sql = format!("DELETE FROM {table} WHERE seconds = $1 AND start < $2");
        tx.execute_raw(statement(tx, &sql, [resolution.seconds().into(), before.into()])).await?;
    }
    Ok(())
}

pub(crate) async fn insert(tx: &Transaction, counts: Intervals) -> Result<(), Error> {
    let ends: Vec<_> = counts.ends.into_iter().collect();
    for rows in ends.chunks(ROWS_MAX) {
        let columns = [
            number("seconds", rows, |((hour, ..), _)| hour.seconds()),
            number("start", rows, |((_, start, _), _)| *start),
            text("tenant", rows, |((.., group), _)| group.tenant.clone()),
            text("strategy", rows, |((.., group), _)| group.strategy.clone()),
            text("ended", rows, |((.., group), _)| group.ended.to_string()),
            text("cause", rows, |((.., group), _)| group.cause.clone()),
            number("turns", rows, |(_, turns)| signed(*turns)),
        ];
        tx.execute_raw(ADD_ENDS.with(tx, [], columns)).await?;
    }
    let responses: Vec<_> = counts.responses.into_iter().collect();
    for rows in responses.chunks(ROWS_MAX) {
        let columns = [
            number("seconds", rows, |((hour, ..), _)| hour.seconds()),
            number("start", rows, |((_, start, _), _)| *start),
            text("tenant", rows, |((.., group), _)| group.tenant.clone()),
            text("strategy", rows, |((.., group), _)| group.strategy.clone()),
            text("model", rows, |((.., group), _)| group.model.clone()),
            number("responses", rows, |(_, sums)| signed(sums.responses)),
            number("input_tokens", rows, |(_, sums)| signed(sums.usage.input_tokens)),
            number("output_tokens", rows, |(_, sums)| signed(sums.usage.output_tokens)),
            number("micro_usd", rows, |(_, sums)| signed(sums.usage.micro_usd)),
            number("without_usage", rows, |(_, sums)| signed(sums.usage.responses_without_usage)),
            number("without_price", rows, |(_, sums)| signed(sums.usage.responses_without_price)),
        ];
        tx.execute_raw(ADD_RESPONSES.with(tx, [], columns)).await?;
    }
    Ok(())
}
