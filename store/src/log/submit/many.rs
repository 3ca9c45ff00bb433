//! How many turns come in at once: in one transaction, and a few statements however many there are.

use std::collections::BTreeMap;

use futures::FutureExt as _;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, DatabaseTransaction, EntityTrait as _, QueryFilter as _,
};
use serde_json::{Value, json};
use shared::Opened;
use uuid::Uuid;

use super::{Idempotency, NewTurn, Opening, Submitted, insert, key_of};
use crate::{
    Error, Head, Store, ThreadId, ThreadStatus, Turn, TurnId, TurnStatus,
    log::{append::Batch, corrupt, database::Database, plain, tables::turns, turns::policy_text},
    time,
    words::{
        Column::{Number, Text},
        Words, name,
    },
};

/// How many turns go well together in one [`Store::submit_many`]: more cost no less each, and hold up other writers.
pub const MOST_SUBMITTED: usize = 500;

/// What became of each, in their order.
type Outcomes = Vec<Result<Submitted, Error>>;

/// A turn that opens its thread, on its way in.
struct Entry {
    nth: usize,
    turn: TurnId,
    thread: ThreadId,
    tenant: String,
    opened: Opened,
    idempotency: Option<Idempotency>,
    row: Value,
}

impl Store {
    /// Queues many turns in one transaction, each as [`Store::submit`] does, and says of each what became of it, in
    /// their order. One that repeats another is known, also if that is of the same call.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer; then none is queued. What is wrong with a single turn
    /// stands in its place.
    #[tracing::instrument(level = "debug", skip_all, fields(turns = new.len()))]
    pub async fn submit_many(&self, new: Vec<NewTurn>) -> Result<Outcomes, Error> {
        if new.is_empty() {
            return Ok(Vec::new());
        }
        queue_all(&self.database, new).await
    }
}

pub(super) async fn queue_all(database: &Database, new: Vec<NewTurn>) -> Result<Outcomes, Error> {
    database.transact_hot(|tx| insert_many(tx, new).boxed()).await
}

async fn insert_many(tx: &DatabaseTransaction, new: Vec<NewTurn>) -> Result<Outcomes, Error> {
    let mut outcomes: Vec<Option<Result<Submitted, Error>>> = new.iter().map(|_| None).collect();
    let mut entries = Vec::new();
    for (nth, new) in new.into_iter().enumerate() {
        match new.thread {
            Opening::New(_) => match entry(tx, nth, new) {
                Ok(entry) => entries.push(entry),
                Err(error) => outcomes[nth] = Some(Err(error)),
            },
            // Those are asked for one by one: each waits for its thread's row.
            Opening::Existing(_) => match insert(tx, new).await {
                Err(error @ (Error::UnknownThread(_) | Error::KeyReused)) => outcomes[nth] = Some(Err(error)),
                outcome => outcomes[nth] = Some(Ok(outcome?)),
            },
        }
    }
    let mut queued = queue(tx, &mut entries).await?;
    let (fresh, repeated): (Vec<_>, Vec<_>) =
        entries.into_iter().partition(|it| queued.contains_key(&it.turn));
    open_all(tx, &fresh).await?;
    for entry in fresh {
        let row = queued.remove(&entry.turn).ok_or(Error::UnknownTurn(entry.turn))?;
        outcomes[entry.nth] = Some(Turn::try_from(row).map(Submitted::New));
    }
    let mut known = by_key(tx, &repeated).await?;
    for entry in repeated {
        outcomes[entry.nth] = Some(recognised(&entry, &mut known));
    }
    let lost = || Err(Error::Database("a turn was neither queued nor known".to_owned()));
    Ok(outcomes.into_iter().map(|it| it.unwrap_or_else(lost)).collect())
}

fn entry(tx: &DatabaseTransaction, nth: usize, new: NewTurn) -> Result<Entry, Error> {
    let Opening::New(opened) = new.thread else {
        return Err(Error::Database("a turn of a thread that is there opens none".to_owned()));
    };
    let (turn, thread, tenant) = (Uuid::now_v7(), Uuid::now_v7(), plain(&opened.tenant));
    let input = serde_json::to_string(&new.messages).map_err(|error| {
        corrupt(thread, format_args!("the words of its first turn have no JSON: {error}"))
    })?;
    let row = json!({
        "nth": nth,
        "id": name(tx, turn),
        "thread_id": name(tx, thread),
        "policy": policy_text(new.policy),
        "input": input,
        "metadata": new.metadata.to_string(),
        "author": plain(&new.author),
        "idempotency_key": new.idempotency.as_ref().map(|it| key_of(&tenant, &it.key)),
        "request_hash": new.idempotency.as_ref().map(|it| plain(&it.request_hash)),
        "tenant": tenant,
        "priority": new.priority.rank(),
    });
    Ok(Entry { nth, turn, thread, tenant, opened, idempotency: new.idempotency, row })
}

/// Queues those whose keys are new, and returns their rows.
async fn queue(
    tx: &DatabaseTransaction,
    entries: &mut [Entry],
) -> Result<BTreeMap<TurnId, turns::Model>, Error> {
    const WORDS: Words = Words {
        postgres: "INSERT INTO turns (id, thread_id, status, policy, input, metadata, author, idempotency_key, \
                   request_hash, created_at, updated_at, tenant, priority) \
                   SELECT id::uuid, thread_id::uuid, $1, policy, input, metadata, author, nullif(idempotency_key, ''), \
                   CASE idempotency_key WHEN '' THEN NULL ELSE request_hash END, $2, $2, tenant, priority \
                   FROM unnest($3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], \
                   $10::text[], $11::text[], $12::text[], $13::bigint[]) AS it (nth, id, thread_id, policy, input, \
                   metadata, author, idempotency_key, request_hash, tenant, priority) ORDER BY nth \
                   ON CONFLICT (idempotency_key) DO NOTHING RETURNING *",
        sqlite: "INSERT INTO turns (id, thread_id, status, policy, input, metadata, author, idempotency_key, \
                 request_hash, created_at, updated_at, tenant, priority) \
                 SELECT unhex(value ->> 'id'), unhex(value ->> 'thread_id'), ?1, value ->> 'policy', \
                 value ->> 'input', value ->> 'metadata', value ->> 'author', value ->> 'idempotency_key', \
                 value ->> 'request_hash', ?2, ?2, value ->> 'tenant', value ->> 'priority' \
                 FROM json_each(?3) WHERE true ORDER BY key \
                 ON CONFLICT (idempotency_key) DO NOTHING RETURNING *",
        columns: &[
            Number("nth"),
            Text("id"),
            Text("thread_id"),
            Text("policy"),
            Text("input"),
            Text("metadata"),
            Text("author"),
            Text("idempotency_key"),
            Text("request_hash"),
            Text("tenant"),
            Number("priority"),
        ],
    };
    if entries.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = entries.iter_mut().map(|it| it.row.take()).collect();
    let statement = WORDS.with(tx, [TurnStatus::Queued.as_str().into(), time::now().into()], rows);
    let rows = turns::Entity::find().from_raw_sql(statement).all(tx).await?;
    Ok(rows.into_iter().map(|row| (row.id, row)).collect())
}

/// Opens the threads of turns that are queued.
async fn open_all(tx: &DatabaseTransaction, entries: &[Entry]) -> Result<(), Error> {
    const WORDS: Words = Words {
        postgres: "INSERT INTO threads (id, strategy, status, created_at, updated_at, tenant) \
                   SELECT thread_id::uuid, strategy, $1, $2, $2, tenant \
                   FROM unnest($3::text[], $4::text[], $5::text[]) AS it (thread_id, strategy, tenant)",
        sqlite: "INSERT INTO threads (id, strategy, status, created_at, updated_at, tenant) \
                 SELECT unhex(value ->> 'thread_id'), value ->> 'strategy', ?1, ?2, ?2, value ->> 'tenant' \
                 FROM json_each(?3)",
        columns: &[Text("thread_id"), Text("strategy"), Text("tenant")],
    };
    if entries.is_empty() {
        return Ok(());
    }
    let now = time::now();
    let row = |it: &Entry| {
        let (thread, strategy) = (name(tx, it.thread), plain(&it.opened.strategy));
        json!({"thread_id": thread, "strategy": strategy, "tenant": it.tenant})
    };
    let rows = entries.iter().map(row).collect();
    tx.execute_raw(WORDS.with(tx, [ThreadStatus::Idle.as_str().into(), now.into()], rows)).await?;
    let first = |it: &Entry| Batch::new(&Head::start(it.thread), &[it.opened.clone().into()], now);
    let batches = entries.iter().map(first).collect::<Result<Vec<_>, _>>()?;
    Batch::insert(tx, &batches.iter().collect::<Vec<_>>()).await
}

/// The turns that were submitted with the keys of these before.
async fn by_key(
    tx: &DatabaseTransaction,
    entries: &[Entry],
) -> Result<BTreeMap<String, turns::Model>, Error> {
    let keys = entries.iter().filter_map(|it| Some(key_of(&it.tenant, &it.idempotency.as_ref()?.key)));
    let keys: Vec<String> = keys.collect();
    if keys.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows = turns::Entity::find().filter(turns::Column::IdempotencyKey.is_in(keys)).all(tx).await?;
    Ok(rows.into_iter().filter_map(|row| Some((row.idempotency_key.clone()?, row))).collect())
}

fn recognised(entry: &Entry, known: &mut BTreeMap<String, turns::Model>) -> Result<Submitted, Error> {
    let vanished = || Error::Database("a turn was refused as known and is not there".to_owned());
    let idempotency = entry.idempotency.as_ref().ok_or_else(vanished)?;
    let row = known.get(&key_of(&entry.tenant, &idempotency.key)).cloned().ok_or_else(vanished)?;
    if row.request_hash.as_deref() != Some(&plain(&idempotency.request_hash)) {
        return Err(Error::KeyReused);
    }
    Ok(Submitted::Known(row.try_into()?))
}
