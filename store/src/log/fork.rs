//! Forks: new threads that start with a copy of another thread's log. Repeating the request creates no second fork.

use std::{collections::BTreeMap, panic::AssertUnwindSafe};

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, TryInsertResult};
use serde_json::Value;
use shared::{Budget, CallerId, Event, Forked, InDoubt, Message, Policy};
use uuid::Uuid;

use crate::{
    Error, StrategyRegistry,
    log::{
        Store, attachments,
        ids::{ThreadId, TurnId, corrupt, plain},
        import::{Arrived, ImportedEvent},
        pool::Transaction,
        submit::{self, Idempotency, NewTurn, Opening, key_of},
        tables::forks,
        writer::begin as begin_log,
    },
};

/// Parameters of a fork.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFork {
    /// Thread to copy from.
    pub source: ThreadId,
    /// Number of the last event to copy.
    pub at: u64,
    /// Configuration overrides for the fork; null keeps the configuration.
    pub config: Value,
    /// Budget of the fork and of each of its turns; `None` keeps the budget.
    pub budget: Option<Budget>,
    /// System prompts for the fork, by node.
    pub prompts: BTreeMap<String, String>,
    /// Facts to add, as if the thread had derived them.
    pub facts: Vec<Value>,
    /// First messages of the fork, and their input policy.
    pub input: Option<(Policy, Vec<Message>)>,
    /// Author of the fork.
    pub by: String,
    /// Authenticated author; `None` if no key was required.
    pub caller: Option<CallerId>,
    /// Idempotency key of the request.
    pub idempotency: Option<Idempotency>,
}

/// Outcome of a fork request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fork {
    /// A new thread, which the caller must enqueue.
    New(ThreadId),
    /// Thread of an earlier request with the same key.
    Known(ThreadId),
}

impl Fork {
    /// Returns the thread, for both outcomes.
    pub fn thread(self) -> ThreadId {
        match self {
            Fork::New(thread) | Fork::Known(thread) => thread,
        }
    }
}

impl Store {
    /// Creates a thread with a copy of another thread's log, followed by a `forked` event, in one transaction. The
    /// copied turns get new ids, and the first messages, if any, are submitted as a turn. A key creates one fork only.
    /// A turn that was running in the source also runs in the fork, so the caller must enqueue the thread.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if the source does not exist; [`Error::Stuck`] if it has no event with this number, or
    /// cannot accept the changes; [`Error::KeyReused`] if the key was used for another fork.
    pub async fn fork(&self, strategies: &StrategyRegistry, new: NewFork) -> Result<Fork, Error> {
        let NewFork { source, at, config, budget, prompts, facts, input, by, caller, idempotency } = new;
        let mut events = Vec::new();
        self.along(source, 0, Some(at), |recorded| {
            events.push(recorded.event);
            Ok::<_, Error>(())
        })
        .await?;
        let last = self.stored(source, at, 1).await?;
        let Some(last) = last.first().filter(|row| row.seq == at) else {
            self.head(source).await?;
            return Err(Error::Stuck { thread: source, what: format!("it has no event {at} to fork after") });
        };
        rename_turns(&mut events);
        let hash = hex::encode(last.hash);
        let (author, sender) = (by.clone(), caller.clone());
        let forked =
            Forked { thread: source, seq: at, hash, config, budget, prompts, facts, actor: by, caller }
                .into();
        let unresolved_writes = unresolved_writes(strategies, source, &events, &forked)?;
        events.push(forked);
        let doubted = |slot| {
            let reason = "the request was in progress in the source thread".to_owned();
            InDoubt { slot, reason }.into()
        };
        events.extend(unresolved_writes.into_iter().map(doubted));
        let (thread, now) = (Uuid::now_v7(), clock::now());
        let foreign = |event: &Event| {
            let payload = event.payload().map_err(|error| corrupt(source, error))?;
            Ok(ImportedEvent { at: now, kind: event.kind().to_owned(), payload })
        };
        let log = events.iter().map(foreign).collect::<Result<_, Error>>()?;
        let arrived = Arrived::of(strategies, thread, log)?;
        let turn = input.map(|(policy, messages)| NewTurn {
            policy,
            caller: sender,
            ..NewTurn::of(Opening::Existing(thread), messages, author)
        });
        self.database.transact(move |tx| begin(tx, source, arrived, turn, idempotency).boxed()).await
    }

    /// Returns the thread that was forked with this key in this tenant, if any.
    ///
    /// # Errors
    ///
    /// [`Error::KeyReused`] if the key was used for another fork.
    pub async fn forked(&self, tenant: &str, idempotency: &Idempotency) -> Result<Option<ThreadId>, Error> {
        of_key(&self.database.pool, tenant, idempotency).await
    }
}

async fn begin(
    tx: &Transaction,
    source: ThreadId,
    arrived: Arrived,
    turn: Option<NewTurn>,
    idempotency: Option<Idempotency>,
) -> Result<Fork, Error> {
    let thread = arrived.folded.head.thread;
    // The row that may already exist is written first, before anything else.
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
                let vanished =
                    || Error::Database("a fork was rejected as known but cannot be found".to_owned());
                return of_key(tx, tenant, &idempotency).await?.map(Fork::Known).ok_or_else(vanished);
            }
        }
    }
    arrived.write(tx).await?;
    attachments::copy(tx, source, thread).await?;
    if let Some(turn) = turn {
        submit::insert_one(tx, turn).await?;
    }
    Ok(Fork::New(thread))
}

/// Returns the thread that was forked with this key in this tenant.
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

/// Returns the requests whose effect on the outside world is unknown.
///
/// # Errors
///
/// [`Error::Stuck`] if the strategy cannot continue from the changed state: facts that can be folded may still be
/// invalid for it.
fn unresolved_writes(
    strategies: &StrategyRegistry,
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
            return Err(stuck("its strategy cannot continue from the given facts".to_owned()));
        }
    };
    Ok(thread.unresolved_writes())
}

/// Replaces the turn ids in a copied log with new ones.
pub fn rename_turns(log: &mut [Event]) {
    let mut names = BTreeMap::<TurnId, TurnId>::new();
    for event in log {
        let turn = match event {
            Event::TurnStarted(started) => &mut started.turn,
            Event::InputProvided(provided) => &mut provided.turn,
            Event::Opened(_)
            | Event::Asked(_)
            | Event::Attempted(_)
            | Event::Answered(_)
            | Event::AttemptFailed(_)
            | Event::Abandoned(_)
            | Event::InDoubt(_)
            | Event::Reconciled(_)
            | Event::TaskStarted(_)
            | Event::InputRequired(_)
            | Event::Summarised(_)
            | Event::Decided(_)
            | Event::Failed(_)
            | Event::Retried(_)
            | Event::Cancelled(_)
            | Event::Forked(_) => continue,
        };
        // Handwritten logs contain nil turn ids.
        *turn = if turn.is_nil() { Uuid::now_v7() } else { *names.entry(*turn).or_insert_with(Uuid::now_v7) };
    }
}
