//! Group commit: the steps that all threads of a process want written, as many at once as have gathered while the
//! last batch was written.
//!
//! ## Why a batch that is refused is halved
//!
//! One step whose number is taken, or whose turn was withdrawn, makes the engine refuse the statement, and nothing of
//! the batch is kept. It is then written in two halves, and so on, until the one at fault stands alone and hears why;
//! all others are kept. That happens only where something went wrong, so it may cost a few statements more.
//!
//! ## How a write whose answer was lost is found again
//!
//! When the connection breaks during a commit, nobody knows whether it happened. The batch is written again from
//! memory, so that no answer of a model is paid twice. If it had happened after all, its numbers are taken: then the
//! hash that stands at its end tells whether they were taken by these very events.

use std::{collections::BTreeSet, time::Duration};

use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, DatabaseTransaction, DbBackend, EntityTrait as _,
    QueryFilter as _, Statement,
};
use serde_json::{Value, json};
use shared::Event;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{
    Mark, ThreadId, TurnId,
    append::{Batch, Insert, alone},
    database::{Database, settle},
    plain, postgres, signed,
    tables::events,
};
use crate::{
    Error,
    gather::{Gather, Lone},
    time,
};

/// How many steps one transaction writes at most. A larger batch costs no less a step, and leaves the database or the worker
/// without work for longer while it is made ready or written.
const STEPS_MAX: usize = 128;

/// How many batches are on their way at once: while one waits for the disk, one is written and the next is made ready.
const HANDS: usize = 3;

/// How long a batch is tried again while the database is away, and how long after each try.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(250);

/// All that one step of one thread wants written.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) batch: Batch,
    pub(super) mark: Option<Mark>,
    /// The number of the event by which the marked turn is heard, if this step holds it.
    pub(super) heard: Option<u64>,
}

impl Step {
    pub(super) fn new(batch: Batch, events: &[Event], mark: Option<&Mark>) -> Self {
        let turn = mark.and_then(|it| it.turn.as_ref()).map(|it| it.turn);
        let hears = |event: &Event| turn.is_some() && heard_by(event) == turn;
        let heard = (batch.from.seq..).zip(events).find(|(_, event)| hears(event)).map(|(seq, _)| seq);
        Self { batch, mark: mark.cloned(), heard }
    }

    fn thread(&self) -> ThreadId {
        self.batch.from.thread
    }

    /// The number of the event that ended the marked turn, or after which it waits for a person.
    pub(super) fn ended(&self) -> Option<i64> {
        let over = self.mark.as_ref()?.turn.as_ref()?.status.is_over();
        over.then_some(signed(self.batch.end.seq.saturating_sub(1)))
    }
}

/// The turn that is heard by this event.
pub(crate) fn heard_by(event: &Event) -> Option<TurnId> {
    match event {
        Event::Heard(it) => Some(it.turn),
        Event::Supplied(it) => Some(it.turn),
        Event::Opened(_)
        | Event::Asked(_)
        | Event::Attempted(_)
        | Event::Answered(_)
        | Event::Faltered(_)
        | Event::GaveUp(_)
        | Event::Doubted(_)
        | Event::Reconciled(_)
        | Event::Wanted(_)
        | Event::Decided(_)
        | Event::Failed(_)
        | Event::Retried(_)
        | Event::Cancelled(_)
        | Event::Forked(_) => None,
    }
}

/// Writes steps as they gather.
pub(super) type Committer = Gather<Step, Result<(), Error>>;

pub(super) fn committer(database: &Database) -> Committer {
    let database = database.clone();
    Gather::new(HANDS, STEPS_MAX, Lone::Leaves, move |steps| {
        let database = database.clone();
        async move { commit(&database, steps).await }
    })
}

/// Writes steps, at most one of each thread at a time: of two that race for one number, the second must not pull the
/// first down.
async fn commit(database: &Database, steps: Vec<Step>) -> Vec<Result<(), Error>> {
    let mut outcomes: Vec<Option<Result<(), Error>>> = steps.iter().map(|_| None).collect();
    let mut left: Vec<(usize, Step)> = steps.into_iter().enumerate().collect();
    while !left.is_empty() {
        let mut threads = BTreeSet::new();
        let (round, rest): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(_, step)| threads.insert(step.thread()));
        write(database, &round, &mut outcomes).await;
        left = rest;
    }
    let lost = || Err(Error::Database("a step was not written".to_owned()));
    outcomes.into_iter().map(|it| it.unwrap_or_else(lost)).collect()
}

async fn write(database: &Database, steps: &[(usize, Step)], outcomes: &mut [Option<Result<(), Error>>]) {
    let began = Instant::now();
    let mut halves = vec![steps];
    let mut in_doubt = false;
    while let Some(steps) = halves.pop() {
        match try_once(database, steps, in_doubt).await {
            Ok(()) => steps.iter().for_each(|(nth, _)| outcomes[*nth] = Some(Ok(()))),
            Err(Error::Unavailable(words)) if began.elapsed() < PATIENCE => {
                warn!(steps = steps.len(), error = words, "cannot write; trying again");
                in_doubt = true;
                sleep(PAUSE).await;
                halves.push(steps);
            }
            Err(Error::Unavailable(words)) => {
                steps
                    .iter()
                    .for_each(|(nth, _)| outcomes[*nth] = Some(Err(Error::Unavailable(words.clone()))));
            }
            Err(error) => match steps {
                [] => {}
                [(nth, _)] => outcomes[*nth] = Some(Err(error)),
                _ => {
                    let (first, second) = steps.split_at(steps.len() / 2);
                    halves.extend([second, first]);
                }
            },
        }
    }
}

async fn try_once(database: &Database, steps: &[(usize, Step)], in_doubt: bool) -> Result<(), Error> {
    let outcome = match (database.postgres(), steps) {
        (Some(pool), _) => postgres::write(pool, steps).await,
        (None, [(_, step)]) => one(database, step).await,
        (None, _) => many(database, steps).await,
    };
    let [(_, step)] = steps else { return outcome };
    let outcome = match outcome {
        Err(Error::Stale { .. } | Error::Database(_)) if step.mark.is_some() => one(database, step).await,
        outcome => outcome,
    };
    match outcome {
        Err(Error::Stale { .. }) if in_doubt && stands(database, &step.batch).await? => Ok(()),
        outcome => outcome,
    }
}

/// A step that stands alone hears exactly what is wrong with it.
async fn one(database: &Database, step: &Step) -> Result<(), Error> {
    match &step.mark {
        None => insert(database, &[&step.batch]).await,
        Some(mark) => {
            let tx = database.begin().await?;
            let outcome = alone(&tx, &step.batch, step.heard, mark).await;
            settle(tx, outcome).await
        }
    }
}

/// Whether these very events are in the log: the hash at their end chains all of them.
async fn stands(database: &Database, batch: &Batch) -> Result<bool, Error> {
    let Some(last) = batch.end.seq.checked_sub(1) else { return Ok(false) };
    let row = events::Entity::find()
        .filter(events::Column::ThreadId.eq(batch.end.thread))
        .filter(events::Column::Seq.eq(signed(last)))
        .one(&database.pool)
        .await?;
    Ok(row.is_some_and(|it| it.hash == batch.end.hash))
}

/// Events that change no status: all of them or none.
async fn insert(database: &Database, batches: &[&Batch]) -> Result<(), Error> {
    let insert = Insert::new(database.pool.get_database_backend(), batches);
    if insert.is_one_statement() {
        return insert.run(&database.writer).await;
    }
    let tx = database.begin().await?;
    let outcome = insert.run(&tx).await;
    settle(tx, outcome).await
}

/// All steps of a batch in SQLite.
///
/// **Invariant:** whatever can be made ready is, before it waits for the one connection that writes.
async fn many(database: &Database, steps: &[(usize, Step)]) -> Result<(), Error> {
    let batches: Vec<&Batch> = steps.iter().map(|(_, step)| &step.batch).collect();
    if steps.iter().all(|(_, step)| step.mark.is_none()) {
        return insert(database, &batches).await;
    }
    let insert = Insert::new(DbBackend::Sqlite, &batches);
    let marks = [mark_threads(steps), mark_turns(steps)];
    let tx = database.begin().await?;
    let outcome = async {
        insert.run(&tx).await?;
        for mark in marks {
            mark.run(&tx).await?;
        }
        Ok(())
    };
    let outcome = outcome.await;
    settle(tx, outcome).await
}

fn mark_threads(steps: &[(usize, Step)]) -> Marks {
    let row = |(_, step): &(usize, Step)| {
        let mark = step.mark.as_ref()?;
        Some(json!({ "id": bytes(step.thread()), "status": mark.status.as_str() }))
    };
    let sql = "UPDATE threads SET status = it.value ->> 'status', updated_at = ?1 \
               FROM json_each(?2) AS it WHERE threads.id = unhex(it.value ->> 'id')";
    Marks::new(sql, steps.iter().filter_map(row).collect())
}

fn mark_turns(steps: &[(usize, Step)]) -> Marks {
    let row = |(_, step): &(usize, Step)| {
        let mark = step.mark.as_ref()?.turn.as_ref()?;
        Some(json!({
            "id": bytes(mark.turn),
            "thread_id": bytes(step.thread()),
            "status": mark.status.as_str(),
            "error": mark.error.as_deref().map(plain),
            "cause": mark.cause(),
            "ended_seq": step.ended(),
            "heard_seq": step.heard,
        }))
    };
    let sql = "UPDATE turns SET status = it.value ->> 'status', error = it.value ->> 'error', \
               cause = it.value ->> 'cause', \
               ended_seq = it.value ->> 'ended_seq', \
               heard_seq = coalesce(it.value ->> 'heard_seq', turns.heard_seq), updated_at = ?1 \
               FROM json_each(?2) AS it \
               WHERE turns.id = unhex(it.value ->> 'id') AND turns.thread_id = unhex(it.value ->> 'thread_id') \
               AND (it.value ->> 'heard_seq' IS NULL OR turns.status = 'queued')";
    Marks::new(sql, steps.iter().filter_map(row).collect())
}

/// An identity as the statement's JSON holds it: SQLite keeps its bytes, and reads them from hexadecimal.
fn bytes(id: uuid::Uuid) -> String {
    id.simple().to_string()
}

/// Changes one row for each of its rows, or refuses.
struct Marks {
    statement: Statement,
    rows: u64,
}

impl Marks {
    fn new(sql: &str, rows: Vec<Value>) -> Self {
        let many = rows.len() as u64;
        let values = [time::now().into(), Value::Array(rows).to_string().into()];
        Self { statement: Statement::from_sql_and_values(DbBackend::Sqlite, sql, values), rows: many }
    }

    async fn run(self, tx: &DatabaseTransaction) -> Result<(), Error> {
        if self.rows == 0 || tx.execute_raw(self.statement).await?.rows_affected() == self.rows {
            return Ok(());
        }
        Err(Error::Database("not every row was as a batch expected it".to_owned()))
    }
}
