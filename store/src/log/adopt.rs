//! A whole log taken in at once: one that was kept elsewhere, or a copy of another thread's.
//!
//! **Invariant:** its rows are the fold of it, so nothing is left for a rebuild to find.

use std::collections::{BTreeMap, BTreeSet};

use futures::FutureExt as _;
use sea_orm::{DatabaseTransaction, EntityTrait};
use serde_json::Value;
use shared::{Doubted, Event, Forked};
use uuid::Uuid;

use super::{
    Head, Recorded, Store, ThreadId, TurnId,
    append::{Batch, Row},
    chain,
    differences::{write_thread, write_turn},
    tables::threads,
};
use crate::{
    Error, Strategies,
    rebuild::{Folded, fold},
    time,
};

/// How many events one statement inserts at most.
const EVENTS: usize = 500;

/// An event on its way into a log that is not there yet, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// When it was appended, in microseconds since the Unix epoch.
    pub at: i64,
    /// Which kind.
    pub kind: String,
    /// Its payload.
    pub payload: String,
}

/// A thread that begins with a copy of another's log.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFork {
    /// Which thread's.
    pub source: ThreadId,
    /// The last event that is copied.
    pub at: u64,
    /// What of the configuration is set from there on; null if it is as it was.
    pub config: Value,
    /// What a model is told first from there on, by node.
    pub prompts: BTreeMap<String, String>,
    /// Facts that are taken for concluded.
    pub learned: Vec<Value>,
    /// Who forks it.
    pub by: String,
}

impl Store {
    /// Takes in the log of a thread that is not here yet, with the rows that follow from it: all or nothing. Its hashes are
    /// taken anew over the same bytes, so they are what they were elsewhere.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadExists`] if it is here; [`Error::Unreadable`] and [`Error::Stuck`] if no turnfold of this version could
    /// have written it.
    pub async fn adopt(
        &self,
        strategies: &Strategies,
        thread: ThreadId,
        log: Vec<Foreign>,
    ) -> Result<Head, Error> {
        let (mut end, mut recorded, mut batches) = (Head::start(thread), Vec::new(), Vec::new());
        for Foreign { at, kind, payload } in log {
            let event = Event::decode(&kind, &payload).map_err(|error| Error::Unreadable {
                thread,
                seq: end.seq,
                error,
            })?;
            let hash = chain::link(&end.hash, end.seq, at, event.kind(), &payload);
            let (from, rows) = (end, vec![Row { kind: event.kind(), payload, hash }]);
            recorded.push(Recorded { seq: end.seq, at, event });
            end = Head { seq: end.seq + 1, hash, ..end };
            batches.push(Batch { from, end, at, rows });
        }
        let mut folded = fold(strategies, end, &recorded)?;
        // Retention counts from when it came here.
        folded.updated_at = time::now();
        self.database.transact(move |tx| write(tx, folded, batches).boxed()).await?;
        Ok(end)
    }

    /// Begins a thread with a copy of another's log, under names of its own for the turns of it, and `forked` after it.
    /// A turn that was under way there is under way here: ring for the thread.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if there is none to copy; [`Error::Stuck`] if it has no such event, or cannot take what is
    /// changed.
    pub async fn fork(&self, strategies: &Strategies, new: NewFork) -> Result<Head, Error> {
        let NewFork { source, at, config, prompts, learned, by } = new;
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
        let under_way = under_way(&events);
        events.push(Forked { thread: source, seq: at, hash, config, prompts, learned, by }.into());
        let doubted = |slot| {
            let reason = "it was under way in the thread that this one was forked from".to_owned();
            Doubted { slot, reason }.into()
        };
        events.extend(under_way.into_iter().map(doubted));
        let (thread, now) = (Uuid::now_v7(), time::now());
        let foreign = |event: &Event| {
            let payload = event.payload().map_err(|error| super::corrupt(source, error))?;
            Ok(Foreign { at: now, kind: event.kind().to_owned(), payload })
        };
        let log = events.iter().map(foreign).collect::<Result<_, Error>>()?;
        self.adopt(strategies, thread, log).await
    }
}

/// The requests that may change the world and were attempted, and of which nothing more is known.
fn under_way(log: &[Event]) -> BTreeSet<usize> {
    log.iter().fold(BTreeSet::new(), |mut slots, event| {
        match event {
            Event::Attempted(it) => drop(slots.insert(it.slot)),
            Event::Answered(_)
            | Event::Faltered(_)
            | Event::GaveUp(_)
            | Event::Doubted(_)
            | Event::Reconciled(_)
            | Event::Wanted(_)
            | Event::Supplied(_) => slots.retain(|it| Some(*it) != event.slot()),
            Event::Asked(_) | Event::Decided(_) | Event::Cancelled(_) | Event::Heard(_) => slots.clear(),
            Event::Opened(_) | Event::Failed(_) | Event::Retried(_) | Event::Forked(_) => (),
        }
        slots
    })
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

async fn write(tx: &DatabaseTransaction, folded: Folded, batches: Vec<Batch>) -> Result<(), Error> {
    let thread = folded.head.thread;
    if threads::Entity::find_by_id(thread).one(tx).await?.is_some() {
        return Err(Error::ThreadExists(thread));
    }
    for some in batches.chunks(EVENTS) {
        match Batch::insert(tx, &some.iter().collect::<Vec<_>>()).await {
            Err(Error::Stale { .. }) => return Err(Error::ThreadExists(thread)),
            inserted => inserted?,
        }
    }
    write_thread(tx, &folded, true).await?;
    for (id, turn) in &folded.turns {
        write_turn(tx, &folded, *id, turn, None).await?;
    }
    Ok(())
}
