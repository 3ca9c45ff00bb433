//! Group commit in SQLite: the events of many steps and their read-model changes, in one transaction.
//!
//! ## Why one text, from `BEGIN` to `COMMIT`
//!
//! Each connection runs in a thread of its own, and every separate statement costs two thread switches. As one text,
//! a tenth more steps are written. The caller therefore cannot look at the outcome of one statement before the next;
//! if a row is not as expected, the last statement inserts a NULL that the table rejects.
//!
//! ## Why there are more values than rows
//!
//! SQLite has no arrays, so the text depends on the number of rows. It is rounded up with NULL values, which insert
//! no row: so there are few different texts, and a connection prepares each once. Passing the rows as JSON costs
//! more.

use sea_orm::sqlx::{
    self, Arguments as _, AssertSqlSafe, SqlitePool, error::ErrorKind, sqlite::SqliteArguments,
};

use crate::{
    Error,
    log::{
        ids::{plain, signed},
        step::{Step, unexpected},
    },
};

/// Maximum events per insert statement: SQLite allows 32,766 values.
const ROWS_MAX: usize = 256;

/// Row counts from here on are rounded up to a multiple of this, lower ones to a power of two.
const ROUND: usize = 32;

/// Writes all steps or none.
///
/// # Errors
///
/// [`Error::Stale`] of the first step if a number of any step is taken; [`Error::Database`] if a row of a read model
/// does not match its step; either [`Error::Database`] or, of the first step, [`Error::CancelRequested`] if the turn of any
/// thread is to be cancelled.
pub(crate) async fn write(pool: &SqlitePool, steps: &[(usize, Step)]) -> Result<(), Error> {
    let Some((_, first)) = steps.first() else { return Ok(()) };
    let mut text = Text::default();
    text.push("BEGIN IMMEDIATE");
    insert(&mut text, steps)?;
    reject_if_to_be_cancelled(&mut text, steps)?;
    update_read_models(&mut text, steps)?;
    text.push("; COMMIT");
    let mut connection = pool.acquire().await.map_err(|error| Error::from(&error))?;
    let written = sqlx::query_with(AssertSqlSafe(text.sql), text.values).execute(&mut *connection).await;
    let Err(error) = written else { return Ok(()) };
    // A taken number or a mismatched row has rolled the transaction back already; this then does nothing.
    let _ = sqlx::query("ROLLBACK").execute(&mut *connection).await;
    let kind = error.as_database_error().map(|error| error.kind());
    Err(match kind {
        Some(ErrorKind::UniqueViolation) => first.stale(),
        Some(ErrorKind::NotNullViolation) if steps.iter().all(|(_, step)| step.update.is_none()) => {
            first.cancel_requested()
        }
        Some(ErrorKind::NotNullViolation) => unexpected(),
        _ => (&error).into(),
    })
}

fn insert(text: &mut Text, steps: &[(usize, Step)]) -> Result<(), Error> {
    let rows: Vec<_> = steps.iter().flat_map(|(_, step)| step.batch.numbered()).collect();
    for rows in rows.chunks(ROWS_MAX) {
        text.push(
            "; INSERT OR ROLLBACK INTO events (thread_id, at, codec, seq, kind, payload, hash) \
             SELECT column1, column2, 'json', column3, column4, column5, column6 FROM ",
        );
        text.rows(rows, 6, |values, (batch, seq, row)| {
            values.add(batch.from.thread)?;
            values.add(batch.at)?;
            values.add(signed(*seq))?;
            values.add(row.kind)?;
            values.add(&*row.payload)?;
            values.add(&row.hash[..])
        })?;
        text.push(" WHERE column1 IS NOT NULL");
    }
    Ok(())
}

/// Fails if the turn of any thread is to be cancelled. The rows just inserted name the threads; their numbers are consecutive.
///
/// The table of requests is nearly always empty. The `+` makes SQLite read that table first, and nothing else if it is empty.
fn reject_if_to_be_cancelled(text: &mut Text, steps: &[(usize, Step)]) -> Result<(), Error> {
    let inserted: usize = steps.iter().map(|(_, step)| step.batch.rows.len()).sum();
    text.push(
        "; INSERT OR ROLLBACK INTO threads (id) SELECT NULL FROM cancel_requests \
         WHERE +thread_id IN (SELECT thread_id FROM events WHERE rowid > last_insert_rowid() - ",
    );
    text.value(signed(inserted as u64))?;
    text.push(")");
    Ok(())
}

/// Adds the updates of the read models. Turns are updated only if all threads were, and the last statement fails unless
/// all turns were too.
fn update_read_models(text: &mut Text, steps: &[(usize, Step)]) -> Result<(), Error> {
    let threads: Vec<_> =
        steps.iter().filter_map(|(_, step)| Some((&step.batch, step.update.as_ref()?))).collect();
    if threads.is_empty() {
        return Ok(());
    }
    text.push("; UPDATE OR ROLLBACK threads SET status = column2, updated_at = column3 FROM ");
    text.rows(&threads, 3, |values, (batch, update)| {
        values.add(batch.from.thread)?;
        values.add(update.status.as_str())?;
        values.add(batch.at)
    })?;
    text.push(" WHERE threads.id = column1");
    let mut updated = threads.len();
    let turns: Vec<_> =
        steps.iter().filter_map(|(_, step)| Some((step, step.update.as_ref()?.turn.as_ref()?))).collect();
    if !turns.is_empty() {
        text.push(
            "; UPDATE OR ROLLBACK turns SET status = column3, error = column4, cause = column5, ended_seq = column6, \
             started_seq = coalesce(column7, turns.started_seq), outcome = column8, updated_at = column9 FROM ",
        );
        text.rows(&turns, 9, |values, (step, turn)| {
            values.add(turn.turn)?;
            values.add(step.batch.from.thread)?;
            values.add(turn.status.as_str())?;
            values.add(turn.error.as_deref().map(plain))?;
            values.add(turn.cause())?;
            values.add(step.ended())?;
            values.add(step.started.map(signed))?;
            values.add(turn.outcome())?;
            values.add(step.batch.at)
        })?;
        text.push(
            " WHERE turns.id = column1 AND turns.thread_id = column2 \
             AND (column7 IS NULL OR turns.status = 'queued') AND changes() = ",
        );
        text.value(signed(updated as u64))?;
        updated = turns.len();
    }
    text.push("; INSERT OR ROLLBACK INTO threads (id) SELECT NULL WHERE changes() <> ");
    text.value(signed(updated as u64))
}

/// Several statements with their values, in order.
#[derive(Default)]
struct Text {
    sql: String,
    values: SqliteArguments,
}

impl Text {
    fn push(&mut self, sql: &str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    fn value(&mut self, value: i64) -> Result<(), Error> {
        self.sql.push('?');
        self.values.add(value).map_err(bind_error)
    }

    /// Writes a `VALUES` table of the rows, filled up with NULL rows to a rounded number.
    fn rows<T>(
        &mut self,
        rows: &[T],
        columns: usize,
        mut add: impl FnMut(&mut SqliteArguments, &T) -> Result<(), BindError>,
    ) -> Result<(), Error> {
        for row in rows {
            add(&mut self.values, row).map_err(bind_error)?;
        }
        let padded = padded_length(rows.len());
        for _ in rows.len() * columns..padded * columns {
            self.values.add(None::<i64>).map_err(bind_error)?;
        }
        let row = format!("({})", vec!["?"; columns].join(", "));
        self.push("(VALUES ").push(&vec![&*row; padded].join(", ")).push(")");
        Ok(())
    }
}

fn padded_length(rows: usize) -> usize {
    if rows < ROUND { rows.next_power_of_two() } else { rows.next_multiple_of(ROUND) }
}

type BindError = sqlx::error::BoxDynError;

fn bind_error(error: BindError) -> Error {
    Error::Database(format!("cannot bind a value for SQLite: {error}"))
}
