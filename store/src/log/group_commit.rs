//! Group commit: the steps of all threads of a process that arrived while the previous batch was being written form
//! the next batch.
//!
//! ## Why a rejected batch is halved
//!
//! One step whose number is taken, or whose turn was or is to be cancelled, makes the database reject the whole statement. The
//! batch is then written in two halves, and so on, until the faulty step is alone and gets its error; all others are
//! kept. This happens only after a fault, so it may cost a few more statements.
//!
//! ## How a write whose answer was lost is recognized
//!
//! When the connection breaks during a commit, the outcome is unknown. The batch is written again from memory, so
//! that no answer of a model is paid for twice. If the first commit did happen, its numbers are taken; the hash at
//! the end of the log then shows whether these very events took them.

use std::{collections::BTreeSet, time::Duration};

use metrics::metrics;
use queue::{Batcher, WhenAlone};
use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::{
    Error,
    log::{
        batch::Batch,
        cancel_requests::rows,
        database::{Database, settle},
        ids::signed,
        pool::Transaction,
        postgres,
        read_model_update::ReadModelUpdate,
        sqlite,
        step::Step,
        tables::events,
        write_step::write_one,
    },
    webhooks::announce_turn,
};

/// Maximum steps per transaction. A larger batch costs no less per step, and leaves the database or the worker idle
/// for longer while it is prepared or written.
const STEPS_MAX: usize = 128;

/// Maximum batches in flight: one waits for the disk, one is being written, and one is being prepared.
const IN_FLIGHT: usize = 3;

/// Time during which a batch is retried while the database is unreachable, and the delay between attempts.
const RETRY_TIME: Duration = Duration::from_secs(20);
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Batches the steps of concurrent callers.
pub(crate) type Committer = Batcher<Step, Result<(), Error>>;

pub(crate) fn committer(database: &Database) -> Committer {
    let database = database.clone();
    Batcher::new(IN_FLIGHT, STEPS_MAX, WhenAlone::SendNow, move |steps| {
        let database = database.clone();
        async move { commit(&database, steps).await }
    })
}

/// Writes the steps, at most one per thread at a time: of two steps that compete for a number, the second must not make
/// the first fail.
async fn commit(database: &Database, steps: Vec<Step>) -> Vec<Result<(), Error>> {
    let mut outcomes: Vec<Option<Result<(), Error>>> = steps.iter().map(|_| None).collect();
    let mut remaining: Vec<(usize, Step)> = steps.into_iter().enumerate().collect();
    while !remaining.is_empty() {
        let mut threads = BTreeSet::new();
        let (batch, rest): (Vec<_>, Vec<_>) =
            remaining.into_iter().partition(|(_, step)| threads.insert(step.thread()));
        let (announced, silent): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|(_, step)| !step.notices.is_empty());
        for batch in [silent, announced].into_iter().filter(|batch| !batch.is_empty()) {
            write(database, &batch, &mut outcomes).await;
        }
        remaining = rest;
    }
    let lost = || Err(Error::Database("a step was not written".to_owned()));
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(lost)).collect()
}

async fn write(database: &Database, steps: &[(usize, Step)], outcomes: &mut [Option<Result<(), Error>>]) {
    let began = Instant::now();
    let (all, mut halves) = (steps.len(), vec![steps]);
    let mut in_doubt = false;
    while let Some(steps) = halves.pop() {
        match try_once(database, steps, in_doubt).await {
            Ok(()) => steps.iter().for_each(|(nth, _)| outcomes[*nth] = Some(Ok(()))),
            Err(Error::Unavailable(message)) if began.elapsed() < RETRY_TIME => {
                metrics().commits.errors.inc();
                warn!(steps = steps.len(), error = message, "cannot write; retrying in 250 ms");
                in_doubt = true;
                sleep(RETRY_DELAY).await;
                halves.push(steps);
            }
            // No part of the batch fares better.
            Err(error @ (Error::Unavailable(_) | Error::Unsupported(_))) => {
                steps.iter().for_each(|(nth, _)| outcomes[*nth] = Some(Err(error.again())));
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
    metrics().commits.add(all, began.elapsed());
}

async fn try_once(database: &Database, steps: &[(usize, Step)], in_doubt: bool) -> Result<(), Error> {
    let is_announced = steps.iter().any(|(_, step)| !step.notices.is_empty());
    let outcome = match database.writer.sqlite() {
        Some(_) | None if is_announced => write_announced(database, steps).await,
        Some(pool) => {
            database.writer.check_file()?;
            sqlite::write(pool, steps).await
        }
        None => postgres::write(database, steps).await,
    };
    let [(_, step)] = steps else { return outcome };
    let outcome = match (outcome, &step.update) {
        (Err(Error::Stale { .. } | Error::ContentRejected(_) | Error::Database(_)), Some(update))
            if step.notices.is_empty() =>
        {
            write_alone(database, step, update).await
        }
        (outcome, _) => outcome,
    };
    match outcome {
        Err(Error::Stale { .. } | Error::CancelRequested { .. })
            if in_doubt && is_committed(database, &step.batch).await? =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

/// Writes steps together with what they tell webhooks, in one transaction.
///
/// ## Why they are written apart
///
/// A delivery needs the webhooks and the rows of its turn, which are read in the transaction. Other steps do not wait for that.
async fn write_announced(database: &Database, steps: &[(usize, Step)]) -> Result<(), Error> {
    let tx = database.begin().await?;
    let outcome = write_each_announced(&tx, steps).await;
    settle(tx, outcome).await
}

async fn write_each_announced(tx: &Transaction, steps: &[(usize, Step)]) -> Result<(), Error> {
    for (_, step) in steps {
        if rows::find(tx, step.thread()).await?.is_some() {
            return Err(step.cancel_requested());
        }
        // What is announced is the end of a turn, which changes the read model.
        let ended = step.update.as_ref().and_then(|update| Some((update, update.turn.as_ref()?)));
        let no_end = || Error::Database("a step with notices ends no turn".to_owned());
        let (update, turn) = ended.ok_or_else(no_end)?;
        write_one(tx, &step.batch, step.started, update).await?;
        announce_turn(tx, step.thread(), turn, &step.notices).await?;
    }
    Ok(())
}

/// Writes a single step to learn the exact reason of a rejection.
async fn write_alone(database: &Database, step: &Step, update: &ReadModelUpdate) -> Result<(), Error> {
    let tx = database.begin().await?;
    let outcome = match rows::find(&tx, step.thread()).await {
        Ok(None) => write_one(&tx, &step.batch, step.started, update).await,
        Ok(Some(_)) => Err(step.cancel_requested()),
        Err(error) => Err(error),
    };
    settle(tx, outcome).await
}

/// Returns true if the log contains exactly these events: the hash at their end covers all of them.
async fn is_committed(database: &Database, batch: &Batch) -> Result<bool, Error> {
    let Some(last) = batch.end.seq.checked_sub(1) else { return Ok(false) };
    let row = events::Entity::find()
        .filter(events::Column::ThreadId.eq(batch.end.thread))
        .filter(events::Column::Seq.eq(signed(last)))
        .one(&database.pool)
        .await?;
    Ok(row.is_some_and(|row| row.hash == batch.end.hash))
}
