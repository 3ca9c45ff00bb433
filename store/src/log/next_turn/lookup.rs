//! Lookup of the turn that a thread starts next, batched over many threads.

use std::{collections::BTreeMap, sync::Arc};

use queue::{Batcher, Priority, WhenAlone, clock};
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Statement};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::{CallerId, Message, Policy, ReplyOptions};

use crate::{
    Error,
    error::share_outcome,
    log::{
        caller_column::caller_of,
        database::Database,
        ids::{ThreadId, TurnId, corrupt, unsigned},
        reply_options_column::options_of,
    },
};

/// A queued turn that can start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queued {
    /// Id of the turn.
    pub id: TurnId,
    /// Priority within the tenant.
    pub priority: Priority,
    /// Treatment of the messages: as an answer or as a new request.
    pub policy: Policy,
    /// Messages of the turn.
    pub messages: Vec<Message>,
    /// Demands of the client on the reply.
    pub reply_options: Option<Box<ReplyOptions>>,
    /// Author of the turn.
    pub author: String,
    /// Authenticated submitter; `None` if no key was required.
    pub caller: Option<CallerId>,
    /// Length of the log that ends with the question which this turn answers; the turn starts at no other length.
    pub answers_seq: Option<u64>,
    /// Time of submission, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Hash of the whole conversation that ends with the messages, if the client sent it.
    pub history_hash: Option<String>,
    /// Metadata of the client.
    #[serde(default)]
    pub metadata: Value,
}

/// The columns of a turn that are needed to start it.
#[derive(Debug, FromQueryResult)]
pub(crate) struct Row {
    id: TurnId,
    thread_id: ThreadId,
    priority: i32,
    policy: String,
    input: String,
    reply_options: Option<String>,
    author: String,
    caller: Option<String>,
    answers_seq: Option<i64>,
    created_at: i64,
    history_hash: Option<String>,
    metadata: String,
}

/// The same columns as SQL, of a table named `turns`.
const COLUMNS: &str = "turns.id, turns.thread_id, turns.priority, turns.policy, turns.input, turns.author, \
                       turns.caller, turns.answers_seq, turns.created_at, turns.reply_options, turns.history_hash, turns.metadata";

impl TryFrom<&Row> for Queued {
    type Error = Error;

    fn try_from(row: &Row) -> Result<Self, Error> {
        let unread = |what: &str, error: &dyn std::fmt::Display| {
            corrupt(row.thread_id, format_args!("turn {}: {what}: {error}", row.id))
        };
        Ok(Self {
            id: row.id,
            priority: Priority::from_rank(row.priority.into())
                .ok_or_else(|| unread("its priority is unknown", &row.priority))?,
            policy: row.policy.parse().map_err(|error| unread("its policy", &error))?,
            messages: serde_json::from_str(&row.input).map_err(|error| unread("its words", &error))?,
            reply_options: options_of(row.reply_options.as_deref())
                .map_err(|error| unread("its reply options", &error))?,
            author: row.author.clone(),
            caller: caller_of(row.caller.as_deref()).map_err(|error| unread("its caller", &error))?,
            answers_seq: row.answers_seq.map(unsigned).transpose()?,
            created_at: row.created_at,
            history_hash: row.history_hash.clone(),
            metadata: serde_json::from_str(&row.metadata).map_err(|error| unread("its metadata", &error))?,
        })
    }
}

/// Batches lookups of next turns. Each caller receives the results of its whole batch.
pub(crate) type Waiters = Batcher<ThreadId, Result<Arc<BTreeMap<ThreadId, Row>>, Error>>;

/// Maximum number of threads per query.
const THREADS: usize = 256;

pub(crate) fn waiters(database: &Database) -> Waiters {
    let pool = database.hot.clone();
    Batcher::new(1, THREADS, WhenAlone::SendNow, move |threads: Vec<ThreadId>| {
        let pool = pool.clone();
        async move { share_outcome(first_waiting(&pool, &threads).await, threads.len()) }
    })
}

async fn first_waiting(
    db: &impl ConnectionTrait,
    threads: &[ThreadId],
) -> Result<BTreeMap<ThreadId, Row>, Error> {
    let (backend, now) = (db.get_database_backend(), clock::now());
    let statement = if backend == DbBackend::Postgres {
        let sql = format!(
            "SELECT turn.* FROM unnest($1::uuid[]) AS it (id) CROSS JOIN LATERAL \
             (SELECT {COLUMNS} FROM open_turns AS open JOIN turns ON turns.position = ANY (ARRAY[open.position]) \
             WHERE open.thread_id = it.id AND turns.status = 'queued' \
             AND (turns.due_at IS NULL OR turns.due_at <= $2) \
             ORDER BY open.priority, open.position LIMIT 1) AS turn"
        );
        Statement::from_sql_and_values(backend, sql, [threads.to_vec().into(), now.into()])
    } else {
        let ids: serde_json::Value = threads.iter().map(|thread| thread.simple().to_string()).collect();
        let sql = format!(
            "SELECT {COLUMNS} FROM json_each(?1) AS it CROSS JOIN turns ON turns.position = \
             (SELECT open.position FROM open_turns AS open JOIN turns AS waiting ON waiting.position = open.position \
             WHERE open.thread_id = unhex(it.value) AND waiting.status = 'queued' \
             AND (waiting.due_at IS NULL OR waiting.due_at <= ?2) \
             ORDER BY open.priority, open.position LIMIT 1)"
        );
        Statement::from_sql_and_values(backend, sql, [ids.to_string().into(), now.into()])
    };
    let rows = Row::find_by_statement(statement).all(db).await?;
    Ok(rows.into_iter().map(|row| (row.thread_id, row)).collect())
}
