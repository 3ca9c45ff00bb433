//! The hot transaction, as SQLite takes it: the events of many steps, and what the read models say after them.
//!
//! ## Why one text, from `BEGIN` to `COMMIT`
//!
//! A connection has a thread of its own, and whatever it is told apart costs two threads a turn on a core that others want:
//! told all at once, it writes a tenth more steps. So nobody can look at what one statement did before the next, and where a
//! row was not as expected, the last one inserts what no table may hold.
//!
//! ## Why there are more values than rows
//!
//! SQLite has no arrays, so the text depends on how many rows there are. What is left over of a round number is NULL, and
//! makes no row: so there are few texts, and a connection prepares each once. To pass rows as JSON costs more.

use sea_orm::sqlx::{
    self, Arguments as _, AssertSqlSafe, SqlitePool, error::ErrorKind, sqlite::SqliteArguments,
};

use super::{
    commit::{Step, unexpected},
    plain, signed,
};
use crate::{Error, time};

/// How many events one statement inserts at most: SQLite allows 32,766 values.
const ROWS_MAX: usize = 256;

/// From here on, row numbers are round if this divides them; below, if they are a power of two.
const ROUND: usize = 32;

/// Writes all of these steps or none.
///
/// # Errors
///
/// [`Error::Stale`] of one of them, nobody knows which, if a number is taken; [`Error::Database`] if a row of a read
/// model is not as its step expects it.
pub(super) async fn write(pool: &SqlitePool, steps: &[(usize, Step)]) -> Result<(), Error> {
    let Some((_, first)) = steps.first() else { return Ok(()) };
    let mut text = Text::default();
    text.say("BEGIN IMMEDIATE");
    insert(&mut text, steps)?;
    mark(&mut text, steps)?;
    text.say("; COMMIT");
    let mut connection = pool.acquire().await.map_err(|it| Error::from(&it))?;
    let written = sqlx::query_with(AssertSqlSafe(text.sql), text.values).execute(&mut *connection).await;
    let Err(error) = written else { return Ok(()) };
    // A taken number or a wrong row has undone all of it, and then there is nothing left to undo.
    let _ = sqlx::query("ROLLBACK").execute(&mut *connection).await;
    let kind = error.as_database_error().map(|it| it.kind());
    Err(match kind {
        Some(ErrorKind::UniqueViolation) => first.stale(),
        Some(ErrorKind::NotNullViolation) => unexpected(),
        _ => (&error).into(),
    })
}

fn insert(text: &mut Text, steps: &[(usize, Step)]) -> Result<(), Error> {
    let rows: Vec<_> = steps.iter().flat_map(|(_, it)| it.batch.numbered()).collect();
    for rows in rows.chunks(ROWS_MAX) {
        text.say(
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
        text.say(" WHERE column1 IS NOT NULL");
    }
    Ok(())
}

/// The turns are marked only if all threads were, and the last statement fails unless all turns were too.
fn mark(text: &mut Text, steps: &[(usize, Step)]) -> Result<(), Error> {
    let threads: Vec<_> =
        steps.iter().filter_map(|(_, it)| Some((it.batch.from.thread, it.mark.as_ref()?))).collect();
    if threads.is_empty() {
        return Ok(());
    }
    let now = time::now();
    text.say("; UPDATE OR ROLLBACK threads SET status = column2, updated_at = ").value(now)?;
    text.say(" FROM ");
    text.rows(&threads, 2, |values, (thread, mark)| {
        values.add(*thread)?;
        values.add(mark.status.as_str())
    })?;
    text.say(" WHERE threads.id = column1");
    let mut marked = threads.len();
    let turns: Vec<_> =
        steps.iter().filter_map(|(_, it)| Some((it, it.mark.as_ref()?.turn.as_ref()?))).collect();
    if !turns.is_empty() {
        text.say(
            "; UPDATE OR ROLLBACK turns SET status = column3, error = column4, cause = column5, ended_seq = column6, \
             heard_seq = coalesce(column7, turns.heard_seq), updated_at = ",
        );
        text.value(now)?;
        text.say(" FROM ");
        text.rows(&turns, 7, |values, (step, turn)| {
            values.add(turn.turn)?;
            values.add(step.batch.from.thread)?;
            values.add(turn.status.as_str())?;
            values.add(turn.error.as_deref().map(plain))?;
            values.add(turn.cause())?;
            values.add(step.ended())?;
            values.add(step.heard.map(signed))
        })?;
        text.say(
            " WHERE turns.id = column1 AND turns.thread_id = column2 \
             AND (column7 IS NULL OR turns.status = 'queued') AND changes() = ",
        );
        text.value(signed(marked as u64))?;
        marked = turns.len();
    }
    text.say("; INSERT OR ROLLBACK INTO threads (id) SELECT NULL WHERE changes() <> ");
    text.value(signed(marked as u64))
}

/// Several statements, and their values in the order of their places.
#[derive(Default)]
struct Text {
    sql: String,
    values: SqliteArguments,
}

impl Text {
    fn say(&mut self, words: &str) -> &mut Self {
        self.sql.push_str(words);
        self
    }

    fn value(&mut self, value: i64) -> Result<(), Error> {
        self.sql.push('?');
        self.values.add(value).map_err(unbound)
    }

    /// A table of these rows, and of empty ones up to a round number.
    fn rows<T>(
        &mut self,
        rows: &[T],
        columns: usize,
        mut add: impl FnMut(&mut SqliteArguments, &T) -> Result<(), Unbound>,
    ) -> Result<(), Error> {
        for row in rows {
            add(&mut self.values, row).map_err(unbound)?;
        }
        let all = round(rows.len());
        for _ in rows.len() * columns..all * columns {
            self.values.add(None::<i64>).map_err(unbound)?;
        }
        let row = format!("({})", vec!["?"; columns].join(", "));
        self.say("(VALUES ").say(&vec![&*row; all].join(", ")).say(")");
        Ok(())
    }
}

fn round(rows: usize) -> usize {
    if rows < ROUND { rows.next_power_of_two() } else { rows.next_multiple_of(ROUND) }
}

type Unbound = sqlx::error::BoxDynError;

fn unbound(error: Unbound) -> Error {
    Error::Database(format!("a value cannot be handed to SQLite: {error}"))
}
