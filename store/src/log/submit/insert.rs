//! Inserting turns: one transaction and a fixed number of statements, however many turns.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _,
};
use shared::{Policy, Role, ThreadStatus};

use crate::{
    Error, conversations,
    log::{
        attachments::rows as attachments,
        database::{Database, uninterrupted},
        ids::{ThreadId, TurnId, plain, unsigned},
        pool::{Pool, Transaction},
        submit::{
            multitask::Way,
            new_turn::{NewTurn, Opening, Submitted},
            turn_rows::{Entry, open_all, queue_all, queue_and_open},
        },
        tables::{events, threads, turns},
        turns::Turn,
    },
};

/// Outcomes in the order of the turns.
pub(crate) type Outcomes = Vec<Result<Submitted, Error>>;

/// Queues turns, all in one statement or transaction.
pub(crate) async fn insert_all(database: &Database, new: Vec<NewTurn>) -> Result<Outcomes, Error> {
    if database.postgres().is_some() && !database.is_distributed && new.iter().all(NewTurn::is_plain) {
        let hot = database.hot.clone();
        return uninterrupted(async move { insert_plain(&hot, new).await }.boxed()).await;
    }
    database.transact_hot(|tx| insert_many(tx, new).boxed()).await
}

/// Queues one turn.
pub(crate) async fn insert_one(tx: &Transaction, new: NewTurn) -> Result<Submitted, Error> {
    insert_many(tx, vec![new]).await?.pop().ok_or_else(lost)?
}

/// Queues turns that create threads, in one statement of PostgreSQL, which is a transaction of its own.
async fn insert_plain(hot: &Pool, new: Vec<NewTurn>) -> Result<Outcomes, Error> {
    let now = clock::now();
    let open = |new: NewTurn| match new.thread.clone() {
        Opening::New(opened) => Ok((Entry::new(new, clock::new_id(), plain(&opened.tenant), now), opened)),
        Opening::Existing(_) | Opening::Asking(..) => Err(lost()),
    };
    let opened = new.into_iter().map(open).collect::<Result<Vec<_>, _>>()?;
    let positions = queue_and_open(hot, &opened, now).await?;
    let repeated =
        opened.iter().map(|(entry, _)| entry).filter(|entry| !positions.contains_key(&entry.turn.id));
    let known = by_key(hot, repeated).await?;
    Ok(opened.into_iter().map(|(entry, _)| outcome_of(entry, &positions, &known)).collect())
}

async fn insert_many(tx: &Transaction, new: Vec<NewTurn>) -> Result<Outcomes, Error> {
    let now = clock::now();
    let mut outcomes: Vec<Option<Result<Submitted, Error>>> = new.iter().map(|_| None).collect();
    let (mut nths, mut entries, mut openings) = (Vec::new(), Vec::new(), Vec::new());
    for (nth, new) in new.into_iter().enumerate() {
        match new.thread.clone() {
            Opening::New(opened) => {
                entries.push(Entry::new(new, clock::new_id(), plain(&opened.tenant), now));
                openings.push(opened);
                nths.push(nth);
            }
            // One at a time: each locks the row of its thread.
            Opening::Existing(thread) | Opening::Asking(thread, _) => match follow(tx, new, thread).await {
                Err(error @ (Error::UnknownThread(_) | Error::KeyReused)) => outcomes[nth] = Some(Err(error)),
                outcome => outcomes[nth] = Some(Ok(outcome?.submitted)),
            },
        }
    }
    // The rows that may already exist come first.
    let positions = queue_all(tx, &entries, now).await?;
    let is_fresh = |entry: &Entry| positions.contains_key(&entry.turn.id);
    let fresh = entries.iter().zip(openings).filter(|(entry, _)| is_fresh(entry));
    open_all(tx, fresh.collect(), now).await?;
    for entry in entries.iter().filter(|entry| is_fresh(entry)) {
        attachments::insert(tx, entry.turn.thread, &entry.attachments).await?;
    }
    let known = by_key(tx, entries.iter().filter(|entry| !is_fresh(entry))).await?;
    for (nth, entry) in nths.into_iter().zip(entries) {
        outcomes[nth] = Some(outcome_of(entry, &positions, &known));
    }
    Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(lost()))).collect())
}

/// Returns the outcome of a submission: a new turn with its position, or the earlier one that it repeats.
fn outcome_of(
    entry: Entry,
    positions: &BTreeMap<TurnId, i64>,
    known: &BTreeMap<String, turns::Model>,
) -> Result<Submitted, Error> {
    match positions.get(&entry.turn.id) {
        Some(position) => Ok(Submitted::New(Turn { position: *position, ..entry.turn })),
        None => recognised(&entry, known),
    }
}

pub(super) fn lost() -> Error {
    Error::Database("a turn was neither inserted nor found".to_owned())
}

/// A turn of an existing thread, queued.
pub(crate) struct Following {
    pub(crate) submitted: Submitted,
    /// Turns that were queued before it, and never start because of it.
    pub(crate) withdrawn: Vec<TurnId>,
}

impl From<Submitted> for Following {
    fn from(submitted: Submitted) -> Self {
        Self { submitted, withdrawn: Vec::new() }
    }
}

/// Queues a turn of an existing thread.
pub(crate) async fn follow(tx: &Transaction, new: NewTurn, thread: ThreadId) -> Result<Following, Error> {
    let now = clock::now();
    // The lock keeps the thread from being deleted, and makes the next writer of its status see the queued turn.
    let row = threads::Entity::find_by_id(thread).lock_exclusive().one(tx).await?;
    let row = row.ok_or(Error::UnknownThread(thread))?;
    let under_way = row.status == ThreadStatus::Busy.as_str();
    let is_asked = row.status == ThreadStatus::Interrupted.as_str();
    let new = bound(tx, new, is_asked).await?;
    let way = Way::of(&new, thread, is_asked);
    let entry = Entry::new(new, thread, row.tenant, now);
    let mut withdrawn = Vec::new();
    if let Some(way) = way {
        // A repetition makes no way, and is not refused because of its own turn.
        let known = by_key(tx, [&entry]).await?;
        if !known.is_empty() {
            return recognised(&entry, &known).map(Following::from);
        }
        withdrawn = way.make(tx).await?;
    }
    let positions = queue_all(tx, [&entry], now).await?;
    let Some(position) = positions.get(&entry.turn.id) else {
        return recognised(&entry, &by_key(tx, [&entry]).await?).map(Following::from);
    };
    attachments::insert(tx, thread, &entry.attachments).await?;
    let turn = Turn { position: *position, ..entry.turn };
    let submitted = if under_way { Submitted::Behind(turn) } else { Submitted::New(turn) };
    Ok(Following { submitted, withdrawn })
}

/// Queues a turn of a conversation, after the items that it has. The first turn creates the thread, with the id of the conversation.
pub(crate) async fn converse(tx: &Transaction, new: NewTurn, id: ThreadId) -> Result<Following, Error> {
    // The lock orders the turns of a conversation, so that only one of them creates the thread.
    let items = conversations::locked_items(tx, id).await?.ok_or(Error::UnknownThread(id))?;
    let mut new = new;
    // Instructions come first.
    let at = new.messages.iter().take_while(|message| message.role == Role::System).count();
    new.messages.splice(at..at, items);
    let has_thread = threads::Entity::find_by_id(id).one(tx).await?.is_some();
    let following = match new.thread.clone() {
        Opening::New(opened) => {
            let now = clock::now();
            let entry = Entry::new(new, id, plain(&opened.tenant), now);
            if has_thread {
                let known = by_key(tx, [&entry]).await?;
                return match known.is_empty() {
                    true => Err(Error::ThreadExists(id)),
                    false => recognised(&entry, &known).map(Following::from),
                };
            }
            let positions = queue_all(tx, [&entry], now).await?;
            let Some(position) = positions.get(&entry.turn.id) else {
                return recognised(&entry, &by_key(tx, [&entry]).await?).map(Following::from);
            };
            open_all(tx, vec![(&entry, opened)], now).await?;
            attachments::insert(tx, id, &entry.attachments).await?;
            Following::from(Submitted::New(Turn { position: *position, ..entry.turn }))
        }
        Opening::Existing(_) | Opening::Asking(..) => follow(tx, new, id).await?,
    };
    if !matches!(following.submitted, Submitted::Known(_)) {
        conversations::begin(tx, id).await?;
    }
    Ok(following)
}

/// Binds a turn of an existing thread to the question that is open now. `is_asked` is true if one is.
///
/// **Invariant:** a message never answers a question that was asked after it was submitted, unless it names the question.
/// No person agrees to what they have not seen.
async fn bound(tx: &Transaction, new: NewTurn, is_asked: bool) -> Result<NewTurn, Error> {
    match (new.thread.clone(), new.policy) {
        (Opening::Existing(_), Policy::Auto) if !is_asked => Ok(NewTurn { policy: Policy::Replan, ..new }),
        (Opening::Existing(id), Policy::Auto | Policy::Answer) => {
            let last = events::Entity::find()
                .select_only()
                .column(events::Column::Seq)
                .filter(events::Column::ThreadId.eq(id))
                .order_by_desc(events::Column::Seq);
            let last: Option<i64> = last.into_tuple().one(tx).await?;
            let length = last.map_or(Ok(0), |last| unsigned(last).map(|last| last + 1))?;
            Ok(NewTurn { thread: Opening::Asking(id, length), ..new })
        }
        (Opening::New(_) | Opening::Existing(_) | Opening::Asking(..), _) => Ok(new),
    }
}

/// Returns the earlier turns with the same keys.
async fn by_key(
    db: &impl ConnectionTrait,
    entries: impl IntoIterator<Item = &Entry>,
) -> Result<BTreeMap<String, turns::Model>, Error> {
    let keys: Vec<String> = entries.into_iter().filter_map(Entry::key).collect();
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = turns::Entity::find().filter(turns::Column::IdempotencyKey.is_in(keys)).all(db).await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.idempotency_key.clone()?, row))).collect())
}

/// Returns the earlier turn that a submission repeats.
fn recognised(entry: &Entry, known: &BTreeMap<String, turns::Model>) -> Result<Submitted, Error> {
    let row = entry.key().and_then(|key| known.get(&key)).cloned().ok_or_else(lost)?;
    let same =
        entry.idempotency.as_ref().map(|idempotency| plain(&idempotency.request_hash)) == row.request_hash;
    if same { Ok(Submitted::Known(row.try_into()?)) } else { Err(Error::KeyReused) }
}
