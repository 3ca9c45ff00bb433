//! Group commit in PostgreSQL: the events of many steps and their read-model changes, in one statement.
//!
//! ## Why one statement
//!
//! A statement is atomic: one round trip where a transaction takes five, and the next batch need not wait for them. A
//! statement can undo its own effects only by failing, so it divides by zero if a row was not as expected, or if the turn
//! of a thread is to be cancelled. That condition is evaluated once per statement, by a lookup in a table that is nearly
//! always empty.
//!
//! ## Why a distributed database has two statements
//!
//! Citus does not plan an insert into shards and updates of local tables as one statement without planning it anew each time. Both
//! then form a transaction. The insert passes its rows to the nodes by `COPY`, and Citus commits every transaction with a `COPY` in
//! two phases, also if one node alone has rows: events and read models are committed together or not at all.
//!
//! ## Why the arrays of events are unnested in the select list
//!
//! `FROM unnest(…)` copies all rows before it returns the first, and writes a large batch to a file. In the select
//! list each row is passed on as it is produced, which takes a fifth less time. All arrays have the same length.
//!
//! ## Why neither a thread nor a turn is looked up by `=`
//!
//! `looked_up` explains it: the planner would keep a plan that scans all rows. The thread of a turn is compared in
//! yet another way: with a young table, the planner may otherwise search for a turn among all turns of its thread,
//! which in a long conversation are many. Only the lookup by the turn's own key remains.
//!
//! ## Why values are bound without sea-orm
//!
//! The connection is sea-orm's. But sea-orm boxes every element of an array and collects them into a vector again,
//! which was a seventh of the cost of a step; the driver below it takes vectors of borrowed text.

use sea_orm::sqlx::{self, Arguments as _, Postgres, postgres::PgArguments, query::Query};

use crate::{
    Error,
    error::is_taken,
    log::{
        database::Database,
        ids::{plain, signed},
        one_shard::{self, Appended, only_step},
        step::{Step, unexpected},
    },
};

/// The insert of a batch. Its text does not depend on the number of events, so each connection prepares it once.
macro_rules! insert {
    ($threads:literal, $ats:literal, $seqs:literal, $kinds:literal, $payloads:literal, $hashes:literal) => {
        concat!(
            "INSERT INTO events (thread_id, at, codec, seq, kind, payload, hash) SELECT unnest(",
            $threads,
            "::uuid[]), unnest(",
            $ats,
            "::bigint[]), 'json', unnest(",
            $seqs,
            "::bigint[]), unnest(",
            $kinds,
            "::text[]), unnest(",
            $payloads,
            "::text[]), unnest(",
            $hashes,
            "::bytea[]) WHERE 1 / CASE WHEN EXISTS \
             (SELECT 1 FROM cancel_requests WHERE thread_id = ANY (",
            $threads,
            "::uuid[])) THEN 0 ELSE 1 END = 1"
        )
    };
}

/// The updates of the read models, and a division by zero if a row was not as expected.
macro_rules! update {
    () => {
        "updated_threads AS (UPDATE threads SET status = it.status, updated_at = it.at \
         FROM unnest($1::bigint[], $2::uuid[], $3::text[]) AS it (at, id, status) WHERE threads.id = ANY (ARRAY[it.id]) RETURNING 1), \
         updated_turns AS (UPDATE turns SET status = it.status, error = it.error, cause = it.cause, outcome = it.outcome, \
         ended_seq = it.ended_seq, \
         started_seq = coalesce(it.started_seq, turns.started_seq), updated_at = it.at \
         FROM unnest($4::uuid[], $5::uuid[], $6::text[], $7::text[], $8::bigint[], $9::bigint[], $10::text[], $11::text[], \
         $12::bigint[]) AS it (id, thread_id, status, error, ended_seq, started_seq, cause, outcome, at) \
         WHERE turns.id = ANY (ARRAY[it.id]) AND turns.thread_id IS NOT DISTINCT FROM it.thread_id \
         AND (it.started_seq IS NULL OR turns.status = 'queued') RETURNING 1) \
         SELECT 1 / CASE WHEN (SELECT count(*) FROM updated_threads) = $13 AND (SELECT count(*) FROM updated_turns) = $14 \
         THEN 1 ELSE 0 END"
    };
}

pub(crate) const INSERT: &str = insert!("$1", "$2", "$3", "$4", "$5", "$6");

const UPDATE: &str = concat!("WITH ", update!());

const INSERT_AND_UPDATE: &str =
    concat!("WITH appended AS (", insert!("$15", "$16", "$17", "$18", "$19", "$20"), "), ", update!());

/// Approximate bytes of a row on the wire, without its payload.
const ROW_OVERHEAD: usize = 96;

/// PostgreSQL's error code for a division by zero.
const DIVISION_BY_ZERO: &str = "22012";

/// Writes all steps or none.
///
/// # Errors
///
/// [`Error::Stale`] of the first step if a number of any step is taken; [`Error::Database`] if a row of a read model
/// does not match its step; either [`Error::Database`] or, of the first step, [`Error::CancelRequested`] if the turn of any
/// thread is to be cancelled.
pub(crate) async fn write(database: &Database, steps: &[(usize, Step)]) -> Result<(), Error> {
    let Some((_, first)) = steps.first() else { return Ok(()) };
    if let Some(step) = only_step(steps).filter(|_| database.is_distributed) {
        return match one_shard::append(&database.hot, step).await {
            Ok(Appended::Yes) => Ok(()),
            Ok(Appended::ToBeCancelled) => Err(step.cancel_requested()),
            Err(sqlx::Error::Database(error)) if is_taken(error.as_ref()) => Err(step.stale()),
            Err(error) => Err((&error).into()),
        };
    }
    let mut rows = Events::default();
    let mut updates = Updates::default();
    for (_, step) in steps {
        rows.add(step);
        updates.add(step);
    }
    let hot = &database.hot;
    let outcome = match (updates.threads.is_empty(), database.is_distributed) {
        (true, _) => hot.execute(rows.bind(query(INSERT, rows.bytes()))).await,
        (false, false) => {
            let update = updates.bind(query(INSERT_AND_UPDATE, rows.bytes() + updates.bytes()));
            hot.execute(rows.bind(update)).await
        }
        (false, true) => {
            let insert = rows.bind(query(INSERT, rows.bytes()));
            hot.execute_all([insert, updates.bind(query(UPDATE, updates.bytes()))]).await
        }
    };
    match outcome {
        Ok(()) => Ok(()),
        Err(sqlx::Error::Database(error)) if is_taken(error.as_ref()) => Err(first.stale()),
        Err(sqlx::Error::Database(error)) if error.code().is_some_and(|code| code == DIVISION_BY_ZERO) => {
            Err(if updates.threads.is_empty() { first.cancel_requested() } else { unexpected() })
        }
        Err(error) => Err((&error).into()),
    }
}

type PgQuery<'q> = Query<'q, Postgres, PgArguments>;

/// Begins a query whose values take about this many bytes.
fn query<'q>(sql: &'static str, bytes: usize) -> PgQuery<'q> {
    let mut arguments = PgArguments::default();
    arguments.reserve(0, bytes);
    sqlx::query_with(sql, arguments)
}

fn count<T>(rows: &[T]) -> i64 {
    i64::try_from(rows.len()).unwrap_or(i64::MAX)
}

/// Rows of `events`, one vector per column.
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

    fn bind<'q>(&'q self, query: PgQuery<'q>) -> PgQuery<'q> {
        query
            .bind(&self.threads)
            .bind(&self.ats)
            .bind(&self.seqs)
            .bind(&self.kinds)
            .bind(&self.payloads)
            .bind(&self.hashes)
    }

    /// Returns the approximate size on the wire, in bytes.
    fn bytes(&self) -> usize {
        let payloads: usize = self.payloads.iter().map(|payload| payload.len()).sum();
        payloads + self.threads.len() * ROW_OVERHEAD
    }
}

/// Changes of the read models, one vector per column: of threads, and of the turns that changed.
#[derive(Default)]
struct Updates {
    threads: Vec<uuid::Uuid>,
    thread_ats: Vec<i64>,
    thread_statuses: Vec<&'static str>,
    turns: Vec<uuid::Uuid>,
    turn_ats: Vec<i64>,
    turn_threads: Vec<uuid::Uuid>,
    statuses: Vec<&'static str>,
    errors: Vec<Option<String>>,
    causes: Vec<Option<String>>,
    outcomes: Vec<Option<&'static str>>,
    ended: Vec<Option<i64>>,
    started: Vec<Option<i64>>,
}

impl Updates {
    fn add(&mut self, step: &Step) {
        let Some(update) = &step.update else { return };
        let thread = step.batch.from.thread;
        self.threads.push(thread);
        self.thread_ats.push(step.batch.at);
        self.thread_statuses.push(update.status.as_str());
        if let Some(turn) = &update.turn {
            self.turns.push(turn.turn);
            self.turn_ats.push(step.batch.at);
            self.turn_threads.push(thread);
            self.statuses.push(turn.status.as_str());
            self.errors.push(turn.error.as_deref().map(plain));
            self.causes.push(turn.cause());
            self.outcomes.push(turn.outcome());
            self.ended.push(step.ended());
            self.started.push(step.started.map(signed));
        }
    }

    fn bind<'q>(&'q self, query: PgQuery<'q>) -> PgQuery<'q> {
        query
            .bind(&self.thread_ats)
            .bind(&self.threads)
            .bind(&self.thread_statuses)
            .bind(&self.turns)
            .bind(&self.turn_threads)
            .bind(&self.statuses)
            .bind(&self.errors)
            .bind(&self.ended)
            .bind(&self.started)
            .bind(&self.causes)
            .bind(&self.outcomes)
            .bind(&self.turn_ats)
            .bind(count(&self.threads))
            .bind(count(&self.turns))
    }

    /// Returns the approximate size on the wire in bytes, without errors.
    fn bytes(&self) -> usize {
        (self.threads.len() + self.turns.len()) * ROW_OVERHEAD
    }
}
