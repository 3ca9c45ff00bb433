//! The append of one thread's events in a distributed database, without a change of the read model.
//!
//! ## Why it is not the insert of a batch
//!
//! The insert of a batch passes its rows by `COPY` and commits in two phases: 3.0 ms for four events, where one statement with
//! these values takes 1.1 ms. All rows have one thread, so Citus sends the statement to one node, which commits it by itself. Rows of the
//! coordinator are not part of the transaction.

use sea_orm::sqlx::{self, Arguments as _, AssertSqlSafe, postgres::PgArguments};

use crate::log::{ids::signed, pool::Pool, step::Step};

/// Maximum events: each number of events is a statement of its own, which every connection prepares.
const EVENTS_MAX: usize = 16;

const IS_TO_BE_CANCELLED: &str = "SELECT 1 FROM cancel_requests WHERE thread_id = $1";

/// Outcome of [`append`].
pub(super) enum Appended {
    /// The events are committed.
    Yes,
    /// Nothing was written, because the turn of the thread is to be cancelled.
    ToBeCancelled,
}

/// Returns the only step, if it can be appended by [`append`].
pub(super) fn only_step(steps: &[(usize, Step)]) -> Option<&Step> {
    match steps {
        [(_, step)] if step.update.is_none() && step.batch.rows.len() <= EVENTS_MAX => Some(step),
        _ => None,
    }
}

/// Appends the events of a step.
///
/// A request to cancel that is committed after the look at the table is found by the next append, as one that is committed after
/// the beginning of a single statement.
pub(super) async fn append(hot: &Pool, step: &Step) -> Result<Appended, sqlx::Error> {
    let batch = &step.batch;
    let mut is_to_be_cancelled = false;
    let look = sqlx::query(IS_TO_BE_CANCELLED).bind(batch.from.thread);
    hot.for_each_row(look, |_| {
        is_to_be_cancelled = true;
        Ok(())
    })
    .await?;
    if is_to_be_cancelled {
        return Ok(Appended::ToBeCancelled);
    }
    let mut values = PgArguments::default();
    values.add(batch.from.thread).map_err(sqlx::Error::Encode)?;
    values.add(batch.at).map_err(sqlx::Error::Encode)?;
    for (_, seq, row) in batch.numbered() {
        values.add(signed(seq)).map_err(sqlx::Error::Encode)?;
        values.add(row.kind).map_err(sqlx::Error::Encode)?;
        values.add(&*row.payload).map_err(sqlx::Error::Encode)?;
        values.add(&row.hash[..]).map_err(sqlx::Error::Encode)?;
    }
    hot.execute(sqlx::query_with(AssertSqlSafe(insert(batch.rows.len())), values)).await?;
    Ok(Appended::Yes)
}

/// Returns the insert of some events: the thread, the time, and four values per event.
fn insert(events: usize) -> String {
    let row = |nth: usize| {
        let [seq, kind, payload, hash] = [3, 4, 5, 6].map(|value| value + 4 * nth);
        format!("($1, $2, 'json', ${seq}, ${kind}, ${payload}, ${hash})")
    };
    let rows = (0..events).map(row).collect::<Vec<_>>().join(", ");
    format!("INSERT INTO events (thread_id, at, codec, seq, kind, payload, hash) VALUES {rows}")
}
