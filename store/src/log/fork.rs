//! A thread that begins with a copy of another's log: forked once, however often that is asked for.

use std::{collections::BTreeMap, panic::AssertUnwindSafe};

use futures::FutureExt as _;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter,
    TryInsertResult,
};
use serde_json::Value;
use shared::{Budget, Doubted, Event, Forked, Message, Policy};
use uuid::Uuid;

use super::{
    Idempotency, NewTurn, Opening, Store, ThreadId, TurnId,
    adopt::{Arrived, Foreign},
    corrupt, key_of, plain, submit,
    tables::forks,
};
use crate::{Error, Strategies, thread_log::begin as begin_log, time};

/// A thread that begins with a copy of another's log.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFork {
    /// Which thread's.
    pub source: ThreadId,
    /// The last event that is copied.
    pub at: u64,
    /// What of the configuration is set from there on; null if it is as it was.
    pub config: Value,
    /// What it and each of its turns may take from there on; as it was, if nothing is said.
    pub budget: Option<Budget>,
    /// What a model is told first from there on, by node.
    pub prompts: BTreeMap<String, String>,
    /// Facts that are taken for concluded.
    pub learned: Vec<Value>,
    /// The words that it hears first, and how they are to be taken.
    pub hears: Option<(Policy, Vec<Message>)>,
    /// Who forks it.
    pub by: String,
    /// What makes a repeated wish for it the same one.
    pub idempotency: Option<Idempotency>,
}

/// What became of the wish to fork a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// The thread begins: ring for it.
    New(ThreadId),
    /// It was forked before.
    Known(ThreadId),
}

impl Fork {
    /// The thread, whichever way it went.
    pub fn thread(self) -> ThreadId {
        match self {
            Fork::New(thread) | Fork::Known(thread) => thread,
        }
    }
}

impl Store {
    /// Begins a thread with a copy of another's log, under names of its own for the turns of it, and `forked` after it;
    /// a turn with the words that it hears first waits for it. All of it or nothing, and once for a key. A turn that was
    /// under way there is under way here: ring for the thread.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if there is none to copy; [`Error::Stuck`] if it has no such event, or cannot take what is
    /// changed; [`Error::KeyReused`] if the key was used for another fork.
    pub async fn fork(&self, strategies: &Strategies, new: NewFork) -> Result<Fork, Error> {
        let NewFork { source, at, config, budget, prompts, learned, hears, by, idempotency } = new;
        let mut events = Vec::new();
        self.along(source, 0, Some(at), |it| {
            events.push(it.event);
            Ok::<_, Error>(())
        })
        .await?;
        let last = self.stored(source, at, 1).await?;
        let Some(last) = last.first().filter(|it| it.seq == at) else {
            self.head(source).await?;
            return Err(Error::Stuck {
                thread: source,
                what: format!("it has no event {at} to fork it after"),
            });
        };
        rename_turns(&mut events);
        let hash = hex::encode(last.hash);
        let author = by.clone();
        let forked = Forked { thread: source, seq: at, hash, config, budget, prompts, learned, by }.into();
        let at_stake = at_stake(strategies, source, &events, &forked)?;
        events.push(forked);
        let doubted = |slot| {
            let reason = "it was under way in the thread that this one was forked from".to_owned();
            Doubted { slot, reason }.into()
        };
        events.extend(at_stake.into_iter().map(doubted));
        let (thread, now) = (Uuid::now_v7(), time::now());
        let foreign = |event: &Event| {
            let payload = event.payload().map_err(|error| corrupt(source, error))?;
            Ok(Foreign { at: now, kind: event.kind().to_owned(), payload })
        };
        let log = events.iter().map(foreign).collect::<Result<_, Error>>()?;
        let arrived = Arrived::of(strategies, thread, log)?;
        let turn = hears.map(|(policy, messages)| first(thread, author, policy, messages));
        self.database.transact(move |tx| begin(tx, arrived, turn, idempotency).boxed()).await
    }

    /// The thread that was forked from one of this tenant with this key before, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another fork.
    pub async fn forked(&self, tenant: &str, idempotency: &Idempotency) -> Result<Option<ThreadId>, Error> {
        of_key(&self.database.pool, tenant, idempotency).await
    }
}

/// The turn that a fork begins with.
fn first(thread: ThreadId, author: String, policy: Policy, messages: Vec<Message>) -> NewTurn {
    NewTurn { policy, ..NewTurn::of(Opening::Existing(thread), messages, author) }
}

async fn begin(
    tx: &DatabaseTransaction,
    arrived: Arrived,
    turn: Option<NewTurn>,
    idempotency: Option<Idempotency>,
) -> Result<Fork, Error> {
    let thread = arrived.folded.head.thread;
    // First the row that may turn out to exist: then nothing else was written yet.
    if let Some(idempotency) = idempotency {
        let tenant = &arrived.folded.tenant;
        let row = forks::ActiveModel {
            idempotency_key: Set(key_of(tenant, &idempotency.key)),
            request_hash: Set(plain(&idempotency.request_hash)),
            thread_id: Set(thread),
        };
        let insert = forks::Entity::insert(row).on_conflict_do_nothing_on([forks::Column::IdempotencyKey]);
        match insert.exec_without_returning(tx).await? {
            TryInsertResult::Inserted(1..) => {}
            TryInsertResult::Inserted(0) | TryInsertResult::Conflicted | TryInsertResult::Empty => {
                let vanished = || Error::Database("a fork was refused as known and is not there".to_owned());
                return of_key(tx, tenant, &idempotency).await?.map(Fork::Known).ok_or_else(vanished);
            }
        }
    }
    arrived.write(tx).await?;
    if let Some(turn) = turn {
        submit::insert_one(tx, turn).await?;
    }
    Ok(Fork::New(thread))
}

/// The thread that was forked from one of this tenant with this key.
async fn of_key(
    db: &impl ConnectionTrait,
    tenant: &str,
    Idempotency { key, request_hash }: &Idempotency,
) -> Result<Option<ThreadId>, Error> {
    let rows = forks::Entity::find().filter(forks::Column::IdempotencyKey.eq(key_of(tenant, key)));
    match rows.one(db).await? {
        Some(row) if row.request_hash == plain(request_hash) => Ok(Some(row.thread_id)),
        Some(_) => Err(Error::KeyReused),
        None => Ok(None),
    }
}

/// The requests that may have changed the world there, and nobody knows.
///
/// # Errors
///
/// [`Error::Stuck`] if the code cannot go on from what is changed: facts that fold may still make no sense to it.
fn at_stake(
    strategies: &Strategies,
    source: ThreadId,
    log: &[Event],
    forked: &Event,
) -> Result<Vec<usize>, Error> {
    let stuck = |what: String| Error::Stuck { thread: source, what };
    let mut thread = begin_log(strategies, source, log.first())?;
    for event in log.iter().chain([forked]) {
        thread.apply(event).map_err(|error| stuck(error.to_string()))?;
    }
    match std::panic::catch_unwind(AssertUnwindSafe(|| thread.next())) {
        Ok(next) => next.map_err(|error| stuck(error.to_string()))?,
        Err(_) => {
            return Err(stuck("its strategy cannot go on from the facts that are given to it".to_owned()));
        }
    };
    Ok(thread.at_stake())
}

/// Gives the turns of a copied log names of their own.
pub fn rename_turns(log: &mut [Event]) {
    let mut names = BTreeMap::<TurnId, TurnId>::new();
    for event in log {
        let turn = match event {
            Event::Heard(it) => &mut it.turn,
            Event::Supplied(it) => &mut it.turn,
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
            | Event::Forked(_) => continue,
        };
        // Logs that were written by hand name none.
        *turn = if turn.is_nil() { Uuid::now_v7() } else { *names.entry(*turn).or_insert_with(Uuid::now_v7) };
    }
}
