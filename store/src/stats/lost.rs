//! Counts that a killed process has not written, from the logs.
//!
//! ## Why differences are added
//!
//! Other processes count into the same intervals, and write every second. An interval is compared with the logs once it is
//! complete: every running process has written what it counted there. What the logs have more than the table is then what was
//! lost, whichever process lost it, so nothing is counted twice if two processes die or two others notice it.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use sea_orm::{ConnectionTrait as _, DbBackend, FromQueryResult, Value};
use uuid::Uuid;

use super::{
    CountedEnd, Intervals, Resolution, Tally,
    tally::{Ends, ResponseSums, Responses},
    write::{COMPLETE_AFTER, insert, never_started},
};
use crate::{
    Error, Store, ThreadId,
    log::{Transaction, statement, unsigned},
};

const SECOND: i64 = 1_000_000;

/// Time without a write after which a process was killed. A running one writes every ten seconds.
const MISSING_AFTER: i64 = 30 * SECOND;

/// Maximum time from an event to its count. An append takes at most twenty seconds.
const COUNTED_AFTER: i64 = 30 * SECOND;

/// Time for which no other process counts the same again.
const CLAIM: i64 = 60 * SECOND;

/// Threads per page.
const PAGE: u64 = 500;

/// Complete intervals in which killed processes may have counted something that they did not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostCounts {
    /// Rows of the processes, with the time of their last write.
    writers: BTreeMap<Uuid, i64>,
    resolution: Resolution,
    /// Start of the first interval, in microseconds since the Unix epoch.
    pub since: i64,
    /// End of the last interval.
    pub until: i64,
}

impl LostCounts {
    /// Selects the writers that stopped before the last complete interval at `now`.
    fn of(writers: impl Iterator<Item = (Uuid, i64)> + Clone, now: i64) -> Option<Self> {
        let first = writers.clone().map(|(_, written_at)| written_at).min()? - COUNTED_AFTER;
        // Where the minutes are no longer kept, nothing can be compared with them.
        let resolution = Resolution::ALL.into_iter().find(|length| length.kept_since(now) <= first);
        let resolution = resolution.unwrap_or(Resolution::Hour);
        let since = resolution.start(first).max(resolution.kept_since(now));
        let until = resolution.start(now - COMPLETE_AFTER);
        let writers: BTreeMap<_, _> =
            writers.filter(|(_, written_at)| *written_at < until - MISSING_AFTER).collect();
        (!writers.is_empty()).then_some(Self { writers, resolution, since, until })
    }
}

#[derive(FromQueryResult)]
struct Writer {
    id: Uuid,
    written_at: i64,
}

#[derive(FromQueryResult)]
struct Changed {
    id: ThreadId,
}

impl Store {
    /// Finds processes that were killed before they wrote what they counted, and claims their counts for a minute. Returns `None` if
    /// there is none, another process counts for them, or their intervals are not complete at `now`.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn lost_counts(&self, now: i64) -> Result<Option<LostCounts>, Error> {
        const CLAIMED: &str = "UPDATE count_writers SET claimed_until = $1 \
                               WHERE written_at < $2 AND claimed_until < $3 RETURNING id, written_at";
        let missing = Resolution::Minute.start(now - COMPLETE_AFTER) - MISSING_AFTER;
        let values: [Value; 3] = [(now + CLAIM).into(), missing.into(), now.into()];
        let claim = |tx: &Transaction| Writer::find_by_statement(statement(tx, CLAIMED, values));
        let claimed = self.database.transact(|tx| async move { Ok(claim(tx).all(tx).await?) }.boxed());
        let claimed = claimed.await?;
        Ok(LostCounts::of(claimed.iter().map(|row| (row.id, row.written_at)), now))
    }

    /// Returns the next threads after `after` that may have events since this time, at most 500, in the order of their ids.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn threads_changed_since(
        &self,
        since: i64,
        after: Option<ThreadId>,
    ) -> Result<Vec<ThreadId>, Error> {
        // The row of a busy thread is as old as its turn.
        let sql = format!(
            "SELECT id FROM threads WHERE (updated_at >= $1 OR status = 'busy') AND id > $2 ORDER BY id LIMIT {PAGE}"
        );
        let pool = &self.database.pool;
        let values: [Value; 2] = [since.into(), after.unwrap_or_default().into()];
        let rows = Changed::find_by_statement(statement(pool, &sql, values)).all(pool).await?;
        Ok(rows.into_iter().map(|row| row.id).collect())
    }

    /// Adds what the logs have more than the counts in these intervals. Returns false, and adds nothing, if the intervals are not
    /// complete after all or another process was faster.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn add_lost_counts(&self, lost: LostCounts, mut logs: Tally, now: i64) -> Result<bool, Error> {
        let LostCounts { writers, resolution, since, until } = lost;
        logs.merge(never_started(&self.database.pool, since, until).await?);
        let mut expected = Intervals::default();
        expected.add(&logs, now);
        self.database
            .transact(move |tx| {
                async move {
                    alone(tx).await?;
                    if !take_over(tx, writers, until).await? {
                        return Ok(false);
                    }
                    let mut missing = Intervals::default();
                    missing.add(&missing_counts(tx, resolution, since, until, expected).await?, now);
                    missing.retain(|length, _| resolution <= length);
                    insert(tx, missing).await?;
                    Ok(true)
                }
                .boxed()
            })
            .await
    }
}

/// Excludes other processes that write counts or compare them, until the transaction ends.
pub(super) async fn alone(tx: &Transaction) -> Result<(), Error> {
    if tx.get_database_backend() == DbBackend::Postgres {
        tx.execute_raw(statement(tx, "LOCK TABLE count_writers IN SHARE ROW EXCLUSIVE MODE", [])).await?;
    }
    Ok(())
}

/// Deletes the rows of these writers. Returns false if one of them wrote since, or another has not yet written what it counted
/// before `until`.
async fn take_over(tx: &Transaction, writers: BTreeMap<Uuid, i64>, until: i64) -> Result<bool, Error> {
    let rows = Writer::find_by_statement(statement(tx, "SELECT id, written_at FROM count_writers", []));
    let rows = rows.all(tx).await?;
    let (dead, others): (Vec<_>, Vec<_>) =
        rows.into_iter().partition(|row| writers.get(&row.id) == Some(&row.written_at));
    if dead.len() < writers.len() || others.iter().any(|row| row.written_at < until + COUNTED_AFTER) {
        return Ok(false);
    }
    for row in dead {
        let sql = "DELETE FROM count_writers WHERE id = $1";
        tx.execute_raw(statement(tx, sql, [row.id.into()])).await?;
    }
    Ok(true)
}

/// Returns how much more is expected than was counted in intervals of this length. Less is never taken away: the log of a deleted thread
/// is gone.
pub(super) async fn missing_counts(
    tx: &Transaction,
    resolution: Resolution,
    since: i64,
    until: i64,
    mut expected: Intervals,
) -> Result<Tally, Error> {
    expected.retain(|length, start| length == resolution && (since..until).contains(&start));
    let values: [Value; 3] = [resolution.seconds().into(), since.into(), until.into()];
    let within = "WHERE seconds = $1 AND start >= $2 AND start < $3";
    let sql = format!("SELECT start, tenant, strategy, ended, cause, turns FROM ended_turn_counts {within}");
    for row in EndsRow::find_by_statement(statement(tx, &sql, values.clone())).all(tx).await? {
        let (start, ends, turns) = row.count()?;
        if let Some(more) = expected.ends.get_mut(&(resolution, start, ends)) {
            *more = more.saturating_sub(turns);
        }
    }
    let sql = format!("SELECT * FROM model_response_counts {within}");
    for row in ResponsesRow::find_by_statement(statement(tx, &sql, values)).all(tx).await? {
        let (start, subject, counted) = row.count()?;
        if let Some(more) = expected.responses.get_mut(&(resolution, start, subject)) {
            more.subtract(&counted);
        }
    }
    let ends = expected.ends.into_iter().filter(|(_, turns)| 0 < *turns);
    let responses = expected.responses.into_iter().filter(|(_, sums)| *sums != ResponseSums::default());
    Ok(Tally {
        ends: ends.map(|((_, start, ends), turns)| ((start, ends), turns)).collect(),
        responses: responses.map(|((_, start, subject), sums)| ((start, subject), sums)).collect(),
        ..Tally::default()
    })
}

/// Turns that ended in one interval.
#[derive(FromQueryResult)]
pub(super) struct EndsRow {
    start: i64,
    tenant: String,
    strategy: String,
    ended: String,
    cause: String,
    turns: i64,
}

impl EndsRow {
    pub(super) fn count(self) -> Result<(i64, Ends, u64), Error> {
        let Self { start, tenant, strategy, ended, cause, turns } = self;
        let ended = ended.parse::<CountedEnd>().map_err(|error| Error::Database(error.to_string()))?;
        Ok((start, Ends { tenant, strategy, ended, cause }, unsigned(turns)?))
    }
}

#[derive(FromQueryResult)]
struct ResponsesRow {
    start: i64,
    tenant: String,
    strategy: String,
    model: String,
    responses: i64,
    input_tokens: i64,
    output_tokens: i64,
    micro_usd: i64,
    without_usage: i64,
    without_price: i64,
}

impl ResponsesRow {
    fn count(self) -> Result<(i64, Responses, ResponseSums), Error> {
        let Self { start, tenant, strategy, model, .. } = self;
        let mut sums = ResponseSums { responses: unsigned(self.responses)?, ..ResponseSums::default() };
        sums.usage.input_tokens = unsigned(self.input_tokens)?;
        sums.usage.output_tokens = unsigned(self.output_tokens)?;
        sums.usage.micro_usd = unsigned(self.micro_usd)?;
        sums.usage.responses_without_usage = unsigned(self.without_usage)?;
        sums.usage.responses_without_price = unsigned(self.without_price)?;
        Ok((start, Responses { tenant, strategy, model }, sums))
    }
}
