//! The turn that a thread should hear next: what whoever hears it needs, looked up for many threads at once.

use std::{collections::BTreeMap, sync::Arc};

use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Statement};
use shared::{Message, Policy};

use super::{Store, ThreadId, TurnId, corrupt, database::Database, turns::policy_of, unsigned};
use crate::{
    Error,
    gather::{Gather, Lone, told_of_all},
    queue::Priority,
    time,
};

/// A turn that its thread should hear next.
#[derive(Clone, Debug, PartialEq)]
pub struct Queued {
    /// Which.
    pub id: TurnId,
    /// How urgent it is.
    pub priority: Priority,
    /// How its words are to be taken.
    pub policy: Policy,
    /// Its words.
    pub messages: Vec<Message>,
    /// Who submitted it.
    pub author: String,
    /// The end of its thread's log that it answers, as a number of events: it is not heard at any other.
    pub answers_seq: Option<u64>,
    /// When it was submitted, in microseconds since the Unix epoch.
    pub created_at: i64,
}

impl Store {
    /// The turn that a thread should hear next: of the most urgent ones that which has waited longest. Those that are not
    /// due yet are passed over.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if its row is none that turnfold wrote.
    pub async fn next_queued(&self, thread: ThreadId) -> Result<Option<Queued>, Error> {
        let rows = self.waiters.bring(thread).await.ok_or_else(Error::gone)??;
        rows.get(&thread).map(Queued::try_from).transpose()
    }
}

/// As much of a turn's row as is needed to hear it.
#[derive(Debug, FromQueryResult)]
pub(super) struct Row {
    id: TurnId,
    thread_id: ThreadId,
    priority: i32,
    policy: String,
    input: String,
    author: String,
    answers_seq: Option<i64>,
    created_at: i64,
}

/// The same as a list of columns, of a table called `turns`.
const COLUMNS: &str = "turns.id, turns.thread_id, turns.priority, turns.policy, turns.input, turns.author, \
                       turns.answers_seq, turns.created_at";

impl TryFrom<&Row> for Queued {
    type Error = Error;

    fn try_from(row: &Row) -> Result<Self, Error> {
        let unread = |what: &str, error: &dyn std::fmt::Display| {
            corrupt(row.thread_id, format_args!("turn {}: {what}: {error}", row.id))
        };
        Ok(Self {
            id: row.id,
            priority: Priority::ranked(row.priority.into())
                .ok_or_else(|| unread("its priority is unknown", &row.priority))?,
            policy: policy_of(&row.policy).ok_or_else(|| unread("its policy is unknown", &row.policy))?,
            messages: serde_json::from_str(&row.input).map_err(|error| unread("its words", &error))?,
            author: row.author.clone(),
            answers_seq: row.answers_seq.map(unsigned).transpose()?,
            created_at: row.created_at,
        })
    }
}

/// Looks for the turns that threads should hear next, for many threads at once: each is told of all.
pub(super) type Waiters = Gather<ThreadId, Result<Arc<BTreeMap<ThreadId, Row>>, Error>>;

/// How many threads one query looks at at most.
const THREADS: usize = 256;

pub(super) fn waiters(database: &Database) -> Waiters {
    let pool = database.hot.clone();
    Gather::new(1, THREADS, Lone::Leaves, move |threads: Vec<ThreadId>| {
        let pool = pool.clone();
        async move { told_of_all(first_waiting(&pool, &threads).await, threads.len()) }
    })
}

async fn first_waiting(
    db: &impl ConnectionTrait,
    threads: &[ThreadId],
) -> Result<BTreeMap<ThreadId, Row>, Error> {
    let (backend, now) = (db.get_database_backend(), time::now());
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
        let ids: serde_json::Value = threads.iter().map(|it| it.simple().to_string()).collect();
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
