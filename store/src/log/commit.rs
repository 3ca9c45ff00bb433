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

use sea_orm::{ColumnTrait as _, EntityTrait as _, QueryFilter as _};
use shared::Event;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{
    Mark, ThreadId, TurnId,
    append::{Batch, alone},
    database::{Database, settle},
    postgres, signed, sqlite,
    tables::events,
};
use crate::{
    Error,
    gather::{Gather, Lone},
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

    /// That its first number is taken, or that of another of its batch.
    pub(super) fn stale(&self) -> Error {
        let from = self.batch.from;
        Error::Stale { thread: from.thread, seq: from.seq }
    }

    /// The number of the event that ended the marked turn, or after which it waits for a person.
    pub(super) fn ended(&self) -> Option<i64> {
        let over = self.mark.as_ref()?.turn.as_ref()?.status.is_over();
        over.then_some(signed(self.batch.end.seq.saturating_sub(1)))
    }
}

/// That a row of a read model is not as one step of a batch expects it.
pub(super) fn unexpected() -> Error {
    Error::Database("not every row was as a batch expected it".to_owned())
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
    let outcome = match database.postgres() {
        Some(pool) => postgres::write(pool, steps).await,
        None => sqlite::write(database.writer.get_sqlite_connection_pool(), steps).await,
    };
    let [(_, step)] = steps else { return outcome };
    let outcome = match (outcome, &step.mark) {
        (Err(Error::Stale { .. } | Error::Database(_)), Some(mark)) => one(database, step, mark).await,
        (outcome, _) => outcome,
    };
    match outcome {
        Err(Error::Stale { .. }) if in_doubt && stands(database, &step.batch).await? => Ok(()),
        outcome => outcome,
    }
}

/// A step that stands alone hears exactly what is wrong with it.
async fn one(database: &Database, step: &Step, mark: &Mark) -> Result<(), Error> {
    let tx = database.begin().await?;
    let outcome = alone(&tx, &step.batch, step.heard, mark).await;
    settle(tx, outcome).await
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
