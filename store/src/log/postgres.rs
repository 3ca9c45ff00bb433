//! The one hot statement, as PostgreSQL takes it: the events of many steps, and what the read models say after them.
//!
//! ## Why one statement
//!
//! It is all or nothing by itself: one round trip where a transaction takes five, and the next batch need not wait for
//! them. A statement can take back what it did only by failing, so it divides by zero where a row was not as expected.
//!
//! ## Why the events' arrays are taken apart in the list of columns
//!
//! `FROM unnest(…)` makes a copy of all rows before it gives out the first, and of a large batch a file. In the list each
//! row goes on as it is made, which takes a fifth less. All arrays are of one length.
//!
//! ## Why neither a thread nor a turn is looked up by `=`
//!
//! `looked_up` says why: the plan would be kept that walks over all of them. And the thread of a turn is compared otherwise
//! still: whoever plans over a young table may else look for a turn among all of its thread, which for a long conversation
//! are many. This leaves only the way by the turn's own key.
//!
//! ## Why its values do not go through sea-orm
//!
//! The connection is sea-orm's. But sea-orm boxes every element of an array and makes a vector of them again, which
//! was a seventh of all that a step costs; its driver takes vectors of borrowed text as they are.

use sea_orm::sqlx::{self, Arguments as _, PgPool, postgres::PgArguments};

use super::{
    commit::{Step, unexpected},
    plain, signed,
};
use crate::{Error, time};

/// What a batch inserts. Its text does not depend on how many events there are, so it is prepared once a connection.
macro_rules! insert {
    () => {
        "INSERT INTO events (thread_id, at, codec, seq, kind, payload, hash) \
         SELECT unnest($1::uuid[]), unnest($2::bigint[]), 'json', unnest($3::bigint[]), unnest($4::text[]), \
         unnest($5::text[]), unnest($6::bytea[])"
    };
}

pub(super) const INSERT: &str = insert!();

const INSERT_AND_MARK: &str = concat!(
    "WITH appended AS (",
    insert!(),
    "), standing AS (UPDATE threads SET status = it.status, updated_at = $7 \
     FROM unnest($8::uuid[], $9::text[]) AS it (id, status) WHERE threads.id = ANY (ARRAY[it.id]) RETURNING 1), \
     told AS (UPDATE turns SET status = it.status, error = it.error, cause = it.cause, ended_seq = it.ended_seq, \
     heard_seq = coalesce(it.heard_seq, turns.heard_seq), updated_at = $7 \
     FROM unnest($10::uuid[], $11::uuid[], $12::text[], $13::text[], $14::bigint[], $15::bigint[], $18::text[]) \
     AS it (id, thread_id, status, error, ended_seq, heard_seq, cause) \
     WHERE turns.id = ANY (ARRAY[it.id]) AND turns.thread_id IS NOT DISTINCT FROM it.thread_id \
     AND (it.heard_seq IS NULL OR turns.status = 'queued') RETURNING 1) \
     SELECT 1 / CASE WHEN (SELECT count(*) FROM standing) = $16 AND (SELECT count(*) FROM told) = $17 \
     THEN 1 ELSE 0 END"
);

/// How many bytes a row takes on its way besides its words, about.
const EACH: usize = 96;

/// What PostgreSQL calls a division by zero.
const DIVIDED: &str = "22012";

/// Writes all of these steps or none.
///
/// # Errors
///
/// [`Error::Stale`] of one of them, nobody knows which, if a number is taken; [`Error::Database`] if a row of a read
/// model is not as its step expects it.
pub(super) async fn write(pool: &PgPool, steps: &[(usize, Step)]) -> Result<(), Error> {
    let Some((_, first)) = steps.first() else { return Ok(()) };
    let mut rows = Events::default();
    let mut marks = Marks::default();
    for (_, step) in steps {
        rows.add(step);
        marks.add(step);
    }
    let sql = if marks.threads.is_empty() { INSERT } else { INSERT_AND_MARK };
    let mut arguments = PgArguments::default();
    arguments.reserve(0, rows.bytes() + marks.bytes());
    let mut query = sqlx::query_with(sql, arguments)
        .bind(&rows.threads)
        .bind(&rows.ats)
        .bind(&rows.seqs)
        .bind(&rows.kinds)
        .bind(&rows.payloads)
        .bind(&rows.hashes);
    if !marks.threads.is_empty() {
        query = query
            .bind(time::now())
            .bind(&marks.threads)
            .bind(&marks.standings)
            .bind(&marks.turns)
            .bind(&marks.turn_threads)
            .bind(&marks.statuses)
            .bind(&marks.errors)
            .bind(&marks.ended)
            .bind(&marks.heard)
            .bind(count(&marks.threads))
            .bind(count(&marks.turns))
            .bind(&marks.causes);
    }
    match query.execute(pool).await {
        Ok(_) => Ok(()),
        Err(sqlx::Error::Database(it)) if it.is_unique_violation() => Err(first.stale()),
        Err(sqlx::Error::Database(it)) if it.code().is_some_and(|it| it == DIVIDED) => Err(unexpected()),
        Err(it) => Err((&it).into()),
    }
}

fn count<T>(rows: &[T]) -> i64 {
    i64::try_from(rows.len()).unwrap_or(i64::MAX)
}

/// Rows of `events`, a vector a column.
#[derive(Default)]
struct Events<'a> {
    threads: Vec<uuid::Uuid>,
    ats: Vec<i64>,
    seqs: Vec<i64>,
    kinds: Vec<&'a str>,
    payloads: Vec<&'a str>,
    hashes: Vec<&'a [u8]>,
}

impl<'a> Events<'a> {
    fn add(&mut self, step: &'a Step) {
        let batch = &step.batch;
        for (seq, row) in (batch.from.seq..).zip(&batch.rows) {
            self.threads.push(batch.from.thread);
            self.ats.push(batch.at);
            self.seqs.push(signed(seq));
            self.kinds.push(row.kind);
            self.payloads.push(&row.payload);
            self.hashes.push(&row.hash);
        }
    }

    /// How many bytes they take on their way, about.
    fn bytes(&self) -> usize {
        let words: usize = self.payloads.iter().map(|it| it.len()).sum();
        words + self.threads.len() * EACH
    }
}

/// What the read models are to say: of threads, and of those turns that changed.
#[derive(Default)]
struct Marks {
    threads: Vec<uuid::Uuid>,
    standings: Vec<&'static str>,
    turns: Vec<uuid::Uuid>,
    turn_threads: Vec<uuid::Uuid>,
    statuses: Vec<&'static str>,
    errors: Vec<Option<String>>,
    causes: Vec<Option<String>>,
    ended: Vec<Option<i64>>,
    heard: Vec<Option<i64>>,
}

impl Marks {
    fn add(&mut self, step: &Step) {
        let Some(mark) = &step.mark else { return };
        let thread = step.batch.from.thread;
        self.threads.push(thread);
        self.standings.push(mark.status.as_str());
        if let Some(turn) = &mark.turn {
            self.turns.push(turn.turn);
            self.turn_threads.push(thread);
            self.statuses.push(turn.status.as_str());
            self.errors.push(turn.error.as_deref().map(plain));
            self.causes.push(turn.cause());
            self.ended.push(step.ended());
            self.heard.push(step.heard.map(signed));
        }
    }

    /// How many bytes they take on their way, about, where none failed.
    fn bytes(&self) -> usize {
        (self.threads.len() + self.turns.len()) * EACH
    }
}
