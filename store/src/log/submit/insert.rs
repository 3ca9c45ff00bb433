//! Inserting turns: one transaction and a fixed number of statements, however many turns.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use queue::clock;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _,
};
use shared::{Opened, Policy, Role, ThreadStatus, TurnStatus};

use crate::{
    Error, conversations,
    log::{
        attachments::rows::{self as attachments, AttachmentContent},
        batch::Batch,
        caller_column::caller_text,
        database::Database,
        head::Head,
        ids::{ThreadId, TurnId, corrupt, plain, signed, unsigned},
        insert_events::insert_events,
        pool::Transaction,
        reply_options_column::options_text,
        submit::{
            multitask::Way,
            new_turn::{Idempotency, NewTurn, Opening, Submitted, key_of},
        },
        tables::{events, threads, turns},
        turns::Turn,
    },
    sql_batch::{StatementText, id, number, text},
};

/// Outcomes in the order of the turns.
pub(crate) type Outcomes = Vec<Result<Submitted, Error>>;

/// A turn to insert.
struct Entry {
    /// The turn, without its position.
    turn: Turn,
    idempotency: Option<Idempotency>,
    attachments: Vec<AttachmentContent>,
    history_hash: Option<String>,
}

pub(crate) async fn insert_all(database: &Database, new: Vec<NewTurn>) -> Result<Outcomes, Error> {
    database.transact_hot(|tx| insert_many(tx, new).boxed()).await
}

/// Queues one turn.
pub(crate) async fn insert_one(tx: &Transaction, new: NewTurn) -> Result<Submitted, Error> {
    insert_many(tx, vec![new]).await?.pop().ok_or_else(lost)?
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
    let positions = queue(tx, &entries, now).await?;
    let is_fresh = |entry: &Entry| positions.contains_key(&entry.turn.id);
    let fresh = entries.iter().zip(openings).filter(|(entry, _)| is_fresh(entry));
    open_all(tx, fresh.collect(), now).await?;
    for entry in entries.iter().filter(|entry| is_fresh(entry)) {
        attachments::insert(tx, entry.turn.thread, &entry.attachments).await?;
    }
    let known = by_key(tx, entries.iter().filter(|entry| !is_fresh(entry))).await?;
    for (nth, entry) in nths.into_iter().zip(entries) {
        outcomes[nth] = Some(match positions.get(&entry.turn.id) {
            Some(position) => Ok(Submitted::New(Turn { position: *position, ..entry.turn })),
            None => recognised(&entry, &known),
        });
    }
    Ok(outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(|| Err(lost()))).collect())
}

fn lost() -> Error {
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
    let positions = queue(tx, [&entry], now).await?;
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
            let positions = queue(tx, [&entry], now).await?;
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
        conversations::clear_items(tx, id).await?;
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

impl Entry {
    fn new(new: NewTurn, thread: ThreadId, tenant: String, now: i64) -> Self {
        let NewTurn {
            thread: opening,
            policy,
            priority,
            messages,
            reply_options,
            metadata,
            author,
            caller,
            trace_parent: _,
            idempotency,
            due_at,
            attachments,
            multitask: _,
            in_doubt: _,
            conversation: _,
            history_hash,
        } = new;
        let answers_seq = match opening {
            Opening::Asking(_, seq) => Some(seq),
            Opening::New(_) | Opening::Existing(_) => None,
        };
        let turn = Turn {
            position: 0,
            id: clock::new_id(),
            thread,
            status: TurnStatus::Queued,
            tenant,
            priority,
            policy,
            messages,
            reply_options,
            metadata,
            author: plain(&author),
            caller,
            started_seq: None,
            ended_seq: None,
            error: None,
            outcome: None,
            cause: None,
            answers_seq,
            due_at,
            created_at: now,
            updated_at: now,
        };
        Self { turn, idempotency, attachments, history_hash }
    }

    /// Returns the stored key, if the turn has one.
    fn key(&self) -> Option<String> {
        self.idempotency.as_ref().map(|idempotency| key_of(&self.turn.tenant, &idempotency.key))
    }

    /// Returns the messages as JSON.
    fn input(&self) -> Result<String, Error> {
        let unwritable = |error| {
            corrupt(
                self.turn.thread,
                format_args!("the messages of its next turn cannot be encoded as JSON: {error}"),
            )
        };
        serde_json::to_string(&self.turn.messages).map_err(unwritable)
    }
}

/// Queues the turns with new keys in order, and returns their positions.
async fn queue<'a>(
    tx: &Transaction,
    entries: impl IntoIterator<Item = &'a Entry>,
    now: i64,
) -> Result<BTreeMap<TurnId, i64>, Error> {
    const STATEMENT: StatementText = StatementText {
        postgres: "INSERT INTO turns (id, thread_id, status, policy, input, metadata, author, idempotency_key, \
                   request_hash, created_at, updated_at, tenant, priority, due_at, answers_seq, caller, reply_options, \
                   history_hash) SELECT id, thread_id, $1, policy, input, metadata, author, nullif(idempotency_key, ''), \
                   CASE idempotency_key WHEN '' THEN NULL ELSE request_hash END, $2, $2, tenant, priority, \
                   nullif(due_at, -1), nullif(answers_seq, -1), nullif(caller, ''), nullif(reply_options, ''), \
                   nullif(history_hash, '') FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], \
                   $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::text[], $17::text[]) \
                   WITH ORDINALITY AS it (id, thread_id, policy, input, metadata, author, idempotency_key, request_hash, tenant, priority, due_at, \
                   answers_seq, caller, reply_options, history_hash, nth) \
                   ORDER BY nth ON CONFLICT (idempotency_key) DO NOTHING RETURNING id, position",
        sqlite: "INSERT INTO turns (id, thread_id, status, policy, input, metadata, author, idempotency_key, \
                 request_hash, created_at, updated_at, tenant, priority, due_at, answers_seq, caller, reply_options, \
                 history_hash) SELECT unhex(value ->> 'id'), unhex(value ->> 'thread_id'), ?1, value ->> 'policy', \
                 value ->> 'input', value ->> 'metadata', value ->> 'author', value ->> 'idempotency_key', \
                 value ->> 'request_hash', ?2, ?2, value ->> 'tenant', value ->> 'priority', value ->> 'due_at', \
                 value ->> 'answers_seq', value ->> 'caller', value ->> 'reply_options', value ->> 'history_hash' \
                 FROM json_each(?3) WHERE true ORDER BY key \
                 ON CONFLICT (idempotency_key) DO NOTHING RETURNING id, position",
    };
    let row = |entry: &'a Entry| Ok((entry, &entry.turn, entry.input()?));
    let rows = entries.into_iter().map(row).collect::<Result<Vec<_>, Error>>()?;
    if rows.is_empty() {
        return Ok(BTreeMap::new());
    }
    let columns = [
        id("id", &rows, |(_, turn, _)| turn.id),
        id("thread_id", &rows, |(_, turn, _)| turn.thread),
        text("policy", &rows, |(_, turn, _)| turn.policy.as_str().to_owned()),
        text("input", &rows, |(_, _, input)| input.clone()),
        text("metadata", &rows, |(_, turn, _)| turn.metadata.to_string()),
        text("author", &rows, |(_, turn, _)| turn.author.clone()),
        text("idempotency_key", &rows, |(entry, ..)| entry.key()),
        text("request_hash", &rows, |(entry, ..)| {
            entry.idempotency.as_ref().map(|idempotency| plain(&idempotency.request_hash))
        }),
        text("tenant", &rows, |(_, turn, _)| turn.tenant.clone()),
        number("priority", &rows, |(_, turn, _)| i64::from(turn.priority.rank())),
        number("due_at", &rows, |(_, turn, _)| turn.due_at),
        number("answers_seq", &rows, |(_, turn, _)| turn.answers_seq.map(signed)),
        text("caller", &rows, |(_, turn, _)| turn.caller.as_ref().map(caller_text)),
        text("reply_options", &rows, |(_, turn, _)| turn.reply_options.as_deref().map(options_text)),
        text("history_hash", &rows, |(entry, ..)| entry.history_hash.clone()),
    ];
    let statement = STATEMENT.with(tx, [TurnStatus::Queued.as_str().into(), now.into()], columns);
    let queued = tx.query_all_raw(statement).await?;
    queued.into_iter().map(|row| Ok((row.try_get("", "id")?, row.try_get("", "position")?))).collect()
}

/// Creates the threads of queued turns.
async fn open_all(tx: &Transaction, entries: Vec<(&Entry, Opened)>, now: i64) -> Result<(), Error> {
    const STATEMENT: StatementText = StatementText {
        postgres: "INSERT INTO threads (id, strategy, status, created_at, updated_at, tenant) \
                   SELECT thread_id, strategy, $1, $2, $2, tenant \
                   FROM unnest($3::uuid[], $4::text[], $5::text[]) AS it (thread_id, strategy, tenant)",
        sqlite: "INSERT INTO threads (id, strategy, status, created_at, updated_at, tenant) \
                 SELECT unhex(value ->> 'thread_id'), value ->> 'strategy', ?1, ?2, ?2, value ->> 'tenant' \
                 FROM json_each(?3)",
    };
    if entries.is_empty() {
        return Ok(());
    }
    let columns = [
        id("thread_id", &entries, |(entry, _)| entry.turn.thread),
        text("strategy", &entries, |(_, opened)| plain(&opened.strategy)),
        text("tenant", &entries, |(entry, _)| entry.turn.tenant.clone()),
    ];
    tx.execute_raw(STATEMENT.with(tx, [ThreadStatus::Idle.as_str().into(), now.into()], columns)).await?;
    let first = |(entry, opened): (&Entry, Opened)| {
        Batch::new(&Head::start(entry.turn.thread), &[opened.into()], now)
    };
    let batches = entries.into_iter().map(first).collect::<Result<Vec<_>, _>>()?;
    insert_events(tx, &batches.iter().collect::<Vec<_>>()).await
}

/// Returns the earlier turns with the same keys.
async fn by_key(
    tx: &Transaction,
    entries: impl IntoIterator<Item = &Entry>,
) -> Result<BTreeMap<String, turns::Model>, Error> {
    let keys: Vec<String> = entries.into_iter().filter_map(Entry::key).collect();
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = turns::Entity::find().filter(turns::Column::IdempotencyKey.is_in(keys)).all(tx).await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.idempotency_key.clone()?, row))).collect())
}

/// Returns the earlier turn that a submission repeats.
fn recognised(entry: &Entry, known: &BTreeMap<String, turns::Model>) -> Result<Submitted, Error> {
    let row = entry.key().and_then(|key| known.get(&key)).cloned().ok_or_else(lost)?;
    let same =
        entry.idempotency.as_ref().map(|idempotency| plain(&idempotency.request_hash)) == row.request_hash;
    if same { Ok(Submitted::Known(row.try_into()?)) } else { Err(Error::KeyReused) }
}
