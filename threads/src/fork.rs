//! Forks: new threads that start with a copy of another thread's log.

use std::{collections::BTreeMap, panic::AssertUnwindSafe};

use queue::clock;
use serde_json::Value;
use shared::{Budget, CallerId, Event, Forked, InDoubt, InputProvided, Message, Policy, TurnStarted};
use store::{Error, Fork, Idempotency, NewTurn, Opening, Store, ThreadId, TurnId};

use crate::{
    import::{ImportedEvent, new_thread},
    registry::{StrategyRegistry, begin},
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

/// Creates a thread with a copy of another thread's log, followed by a `forked` event, in one transaction. The copied turns
/// get new ids, and the first messages, if any, are submitted as a turn. A key creates one fork only. A turn that was
/// running in the source also runs in the fork, so the caller must enqueue the thread.
///
/// # Errors
///
/// [`Error::UnknownThread`] if the source does not exist; [`Error::Stuck`] if it has no event with this number, or cannot
/// accept the changes; [`Error::KeyReused`] if the key was used for another fork.
pub async fn fork(store: &Store, strategies: &StrategyRegistry, new: NewFork) -> Result<Fork, Error> {
    let NewFork { source, at, config, budget, prompts, facts, input, by, caller, idempotency } = new;
    let (mut events, hash) = copy(store, source, at).await?;
    rename_turns(&mut events);
    let (author, sender) = (by.clone(), caller.clone());
    let forked =
        Forked { thread: source, seq: at, hash, config, budget, prompts, facts, actor: by, caller }.into();
    let unresolved_writes = unresolved_writes(strategies, source, &events, &forked)?;
    events.push(forked);
    let doubted = |slot| {
        let reason = "the request was in progress in the source thread".to_owned();
        InDoubt::new(slot, reason).into()
    };
    events.extend(unresolved_writes.into_iter().map(doubted));
    let (thread, now) = (clock::new_id(), clock::now());
    let imported = |event: &Event| {
        let payload =
            event.payload().map_err(|error| Error::Corrupt { thread: source, what: error.to_string() })?;
        Ok(ImportedEvent { at: now, kind: event.kind().to_owned(), payload })
    };
    let log = events.iter().map(imported).collect::<Result<_, Error>>()?;
    let (fork, _) = new_thread(strategies, thread, log)?;
    let turn = input.map(|(policy, messages)| NewTurn {
        policy,
        caller: sender,
        ..NewTurn::of(Opening::Existing(thread), messages, author)
    });
    store.insert_fork(source, fork, turn, idempotency).await
}

/// Returns the events up to number `at`, and the hash of the last one in hexadecimal.
async fn copy(store: &Store, source: ThreadId, at: u64) -> Result<(Vec<Event>, String), Error> {
    let mut events = Vec::new();
    store
        .along(source, 0, Some(at), |recorded| {
            events.push(recorded.event);
            Ok::<_, Error>(())
        })
        .await?;
    let last = store.stored(source, at, 1).await?;
    let Some(last) = last.first().filter(|event| event.seq == at) else {
        store.head(source).await?;
        return Err(Error::Stuck { thread: source, what: format!("it has no event {at} to fork after") });
    };
    Ok((events, hex::encode(last.hash)))
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
    let mut thread = begin(strategies, source, log.first())?;
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

/// Replaces the turn ids in a copied log with new ones, and removes the hashes of conversations: the next request of their client
/// continues the original.
pub fn rename_turns(log: &mut [Event]) {
    let mut names = BTreeMap::<TurnId, TurnId>::new();
    for event in log {
        if let Event::Rated(rated) = event {
            rated.turn = names.get(&rated.turn).copied().unwrap_or(rated.turn);
        }
        let (Event::TurnStarted(TurnStarted { turn, history_hash, .. })
        | Event::InputProvided(InputProvided { turn, history_hash, .. })) = event
        else {
            continue;
        };
        *history_hash = None;
        // Handwritten logs contain nil turn ids.
        *turn =
            if turn.is_nil() { clock::new_id() } else { *names.entry(*turn).or_insert_with(clock::new_id) };
    }
}
