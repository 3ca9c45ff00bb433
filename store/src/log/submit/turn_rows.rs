//! The statements that insert turns and the threads that they create.

use std::collections::BTreeMap;

use queue::clock;
use sea_orm::{ConnectionTrait as _, QueryResult, Statement};
use shared::{Opened, ThreadStatus, TurnStatus};

use crate::{
    Error,
    log::{
        attachments::rows::AttachmentContent,
        batch::Batch,
        caller_column::caller_text,
        head::Head,
        ids::{ThreadId, TurnId, corrupt, plain, signed},
        insert_events::insert_events,
        pool::{Pool, Transaction},
        reply_options_column::options_text,
        submit::new_turn::{Idempotency, NewTurn, Opening, key_of},
        turns::Turn,
    },
    sql_batch::{Column, StatementText, id, number, text},
};

/// A turn to insert.
pub(super) struct Entry {
    /// The turn, without its position.
    pub(super) turn: Turn,
    pub(super) idempotency: Option<Idempotency>,
    pub(super) attachments: Vec<AttachmentContent>,
    history_hash: Option<String>,
}

impl Entry {
    pub(super) fn new(new: NewTurn, thread: ThreadId, tenant: String, now: i64) -> Self {
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
    pub(super) fn key(&self) -> Option<String> {
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

/// The insert of turns in PostgreSQL, from rows named `it`.
macro_rules! queue_turns {
    ($rows:literal) => {
        concat!(
            "INSERT INTO turns (id, thread_id, status, policy, input, metadata, author, idempotency_key, \
             request_hash, created_at, updated_at, tenant, priority, due_at, answers_seq, caller, reply_options, \
             history_hash) SELECT id, thread_id, $1, policy, input, metadata, author, nullif(idempotency_key, ''), \
             CASE idempotency_key WHEN '' THEN NULL ELSE request_hash END, $2, $2, tenant, priority, \
             nullif(due_at, -1), nullif(answers_seq, -1), nullif(caller, ''), nullif(reply_options, ''), \
             nullif(history_hash, '') FROM ",
            $rows,
            " ORDER BY nth ON CONFLICT (idempotency_key) DO NOTHING RETURNING id, position"
        )
    };
}

/// A turn with its encoded messages.
type Row<'a> = (&'a Entry, &'a Turn, String);

fn turn_rows<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Result<Vec<Row<'a>>, Error> {
    entries.into_iter().map(|entry| Ok((entry, &entry.turn, entry.input()?))).collect()
}

fn turn_columns(rows: &[Row<'_>]) -> [Column; 15] {
    [
        id("id", rows, |(_, turn, _)| turn.id),
        id("thread_id", rows, |(_, turn, _)| turn.thread),
        text("policy", rows, |(_, turn, _)| turn.policy.as_str().to_owned()),
        text("input", rows, |(_, _, input)| input.clone()),
        text("metadata", rows, |(_, turn, _)| turn.metadata.to_string()),
        text("author", rows, |(_, turn, _)| turn.author.clone()),
        text("idempotency_key", rows, |(entry, ..)| entry.key()),
        text("request_hash", rows, |(entry, ..)| {
            entry.idempotency.as_ref().map(|idempotency| plain(&idempotency.request_hash))
        }),
        text("tenant", rows, |(_, turn, _)| turn.tenant.clone()),
        number("priority", rows, |(_, turn, _)| i64::from(turn.priority.rank())),
        number("due_at", rows, |(_, turn, _)| turn.due_at),
        number("answers_seq", rows, |(_, turn, _)| turn.answers_seq.map(signed)),
        text("caller", rows, |(_, turn, _)| turn.caller.as_ref().map(caller_text)),
        text("reply_options", rows, |(_, turn, _)| turn.reply_options.as_deref().map(options_text)),
        text("history_hash", rows, |(entry, ..)| entry.history_hash.clone()),
    ]
}

fn positions(queued: Vec<QueryResult>) -> Result<BTreeMap<TurnId, i64>, Error> {
    queued.into_iter().map(|row| Ok((row.try_get("", "id")?, row.try_get("", "position")?))).collect()
}

/// Returns the event with which the thread of a turn begins.
fn first_event(entry: &Entry, opened: Opened, now: i64) -> Result<Batch, Error> {
    Batch::new(&Head::start(entry.turn.thread), &[opened.into()], now)
}

/// Queues the turns with new keys in order, creates their threads, and returns their positions.
///
/// `IS TRUE` keeps the planner from a join: the hot connections have only nested loops, which would compare every row with
/// every other.
pub(super) async fn queue_and_open(
    hot: &Pool,
    opened: &[(Entry, Opened)],
    now: i64,
) -> Result<BTreeMap<TurnId, i64>, Error> {
    const STATEMENT: &str = concat!(
        "WITH it AS (SELECT * FROM unnest($4::uuid[], $5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[], \
         $10::text[], $11::text[], $12::text[], $13::bigint[], $14::bigint[], $15::bigint[], $16::text[], $17::text[], \
         $18::text[], $19::text[], $20::text[], $21::text[], $22::text[]) WITH ORDINALITY AS it (id, thread_id, policy, \
         input, metadata, author, idempotency_key, request_hash, tenant, priority, due_at, answers_seq, caller, \
         reply_options, history_hash, strategy, kind, payload, hash, nth)), queued AS (",
        queue_turns!("it"),
        "), opened AS (INSERT INTO threads (id, strategy, status, created_at, updated_at, tenant) \
         SELECT thread_id, strategy, $3, $2, $2, tenant FROM it WHERE (id IN (SELECT id FROM queued)) IS TRUE), \
         begun AS (INSERT INTO events (thread_id, at, codec, seq, kind, payload, hash) \
         SELECT thread_id, $2, 'json', 0, kind, payload, decode(hash, 'hex') FROM it \
         WHERE (id IN (SELECT id FROM queued)) IS TRUE) SELECT id, position FROM queued"
    );
    if opened.is_empty() {
        return Ok(BTreeMap::new());
    }
    let batches = opened.iter().map(|(entry, opened)| first_event(entry, opened.clone(), now));
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    let events: Vec<_> = batches.iter().flat_map(Batch::numbered).collect();
    let rows = turn_rows(opened.iter().map(|(entry, _)| entry))?;
    let more = [
        text("strategy", opened, |(_, opened)| plain(&opened.strategy)),
        text("kind", &events, |(_, _, row)| row.kind.to_owned()),
        text("payload", &events, |(_, _, row)| row.payload.clone()),
        text("hash", &events, |(_, _, row)| hex::encode(row.hash)),
    ];
    let values = [TurnStatus::Queued.as_str().into(), now.into(), ThreadStatus::Idle.as_str().into()];
    let values = values.into_iter().chain(turn_columns(&rows).into_iter().chain(more).map(Column::array));
    let statement = Statement::from_sql_and_values(hot.get_database_backend(), STATEMENT, values);
    positions(hot.query_all_raw(statement).await?)
}

/// Queues the turns with new keys in order, and returns their positions.
pub(super) async fn queue_all<'a>(
    tx: &Transaction,
    entries: impl IntoIterator<Item = &'a Entry>,
    now: i64,
) -> Result<BTreeMap<TurnId, i64>, Error> {
    const STATEMENT: StatementText = StatementText {
        postgres: queue_turns!(
            "unnest($3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], \
             $10::text[], $11::text[], $12::bigint[], $13::bigint[], $14::bigint[], $15::text[], $16::text[], $17::text[]) \
             WITH ORDINALITY AS it (id, thread_id, policy, input, metadata, author, idempotency_key, request_hash, tenant, \
             priority, due_at, answers_seq, caller, reply_options, history_hash, nth)"
        ),
        sqlite: "INSERT INTO turns (id, thread_id, status, policy, input, metadata, author, idempotency_key, \
                 request_hash, created_at, updated_at, tenant, priority, due_at, answers_seq, caller, reply_options, \
                 history_hash) SELECT unhex(value ->> 'id'), unhex(value ->> 'thread_id'), ?1, value ->> 'policy', \
                 value ->> 'input', value ->> 'metadata', value ->> 'author', value ->> 'idempotency_key', \
                 value ->> 'request_hash', ?2, ?2, value ->> 'tenant', value ->> 'priority', value ->> 'due_at', \
                 value ->> 'answers_seq', value ->> 'caller', value ->> 'reply_options', value ->> 'history_hash' \
                 FROM json_each(?3) WHERE true ORDER BY key \
                 ON CONFLICT (idempotency_key) DO NOTHING RETURNING id, position",
    };
    let rows = turn_rows(entries)?;
    if rows.is_empty() {
        return Ok(BTreeMap::new());
    }
    let statement = STATEMENT.with(tx, [TurnStatus::Queued.as_str().into(), now.into()], turn_columns(&rows));
    positions(tx.query_all_raw(statement).await?)
}

/// Creates the threads of queued turns.
pub(super) async fn open_all(
    tx: &Transaction,
    entries: Vec<(&Entry, Opened)>,
    now: i64,
) -> Result<(), Error> {
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
    let batches = entries.into_iter().map(|(entry, opened)| first_event(entry, opened, now));
    let batches = batches.collect::<Result<Vec<_>, _>>()?;
    insert_events(tx, &batches.iter().collect::<Vec<_>>()).await
}
