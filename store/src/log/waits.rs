//! Turns that are not over, and what they wait for as far as the rows tell: the queue knows the rest.

use std::collections::BTreeMap;

use sea_orm::{FromQueryResult, Value};

use super::{BETWEEN, Store, ThreadId, TurnId, at_most, corrupt, database::statement, signed, unsigned};
use crate::{Error, queue::Priority, time};

/// What the rows tell of a turn that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stance {
    /// Its thread could go on with it: it is under way, or it is heard next.
    Could,
    /// Another turn of its thread is under way or comes before it.
    Behind,
    /// It is not due yet.
    NotDue,
    /// It asked a person.
    Person,
}

impl Stance {
    /// Every one there is.
    const ALL: [Self; 4] = [Self::Could, Self::Behind, Self::NotDue, Self::Person];

    /// What the statement calls it.
    fn as_str(self) -> &'static str {
        match self {
            Self::Could => "could",
            Self::Behind => "behind",
            Self::NotDue => "not due",
            Self::Person => "person",
        }
    }
}

/// A turn that is not over, as the rows tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Which.
    pub turn: TurnId,
    /// The thread that hears it.
    pub thread: ThreadId,
    /// Whom that belongs to.
    pub tenant: String,
    /// The thread's strategy.
    pub strategy: String,
    /// How urgent it is.
    pub priority: Priority,
    /// When it was submitted, heard, or asked, in microseconds since the Unix epoch.
    pub since: i64,
    /// When it may be heard, in microseconds since the Unix epoch, if that was said.
    pub due_at: Option<i64>,
    /// Whether its thread waits for a person, and this is not known to be their answer. As an answer it is heard; but nothing
    /// is, while the person is to say whether a call has happened, and the rows do not tell the two apart.
    pub is_asked: bool,
}

/// How many turns have a stance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// How many.
    pub turns: u64,
    /// Since when the first of them has it, in microseconds since the Unix epoch.
    pub since: i64,
    /// When the first of them may be heard, in microseconds since the Unix epoch, if that was said of any.
    pub due_at: Option<i64>,
}

/// Every turn that is not over, with its stance. `$1` is the time, `$2` the tenant or nothing, for all.
///
/// A thread that asked a person has many turns that did so, one for each question: the last is meant.
const UNFINISHED: &str = "\
    SELECT turns.id AS turn, turns.thread_id AS thread, turns.tenant AS tenant, threads.strategy AS strategy, \
    turns.priority AS priority, turns.position AS position, turns.due_at AS due_at, \
    CASE WHEN threads.status = 'interrupted' AND turns.answers_seq IS NULL THEN 1 ELSE 0 END AS asked, \
    CASE WHEN turns.status = 'queued' THEN turns.created_at ELSE turns.updated_at END AS since, \
    CASE WHEN turns.status = 'interrupted' THEN 'person' \
    WHEN turns.status = 'running' THEN 'could' \
    WHEN turns.due_at > $1 THEN 'not due' \
    WHEN threads.status = 'busy' OR EXISTS (SELECT 1 FROM open_turns AS open JOIN turns AS ahead ON ahead.position = open.position \
      WHERE open.thread_id = turns.thread_id AND ahead.status = 'queued' \
      AND (ahead.due_at IS NULL OR ahead.due_at <= $1) AND (open.priority < turns.priority \
      OR open.priority = turns.priority AND open.position < turns.position)) THEN 'behind' \
    ELSE 'could' END AS stance \
    FROM (SELECT position FROM open_turns UNION ALL \
      SELECT position FROM turns AS asking WHERE stuck = 'interrupted' AND NOT EXISTS \
      (SELECT 1 FROM turns AS later WHERE later.thread_id = asking.thread_id \
      AND later.stuck = 'interrupted' AND later.position > asking.position)) AS unfinished \
    JOIN turns ON turns.position = unfinished.position JOIN threads ON threads.id = turns.thread_id \
    WHERE ($2 = '' OR turns.tenant = $2) AND (turns.stuck IS NULL OR threads.stuck = 'interrupted')";

impl Store {
    /// How many turns that are not over have which stance: of this tenant, or of all.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn stances(&self, tenant: Option<&str>) -> Result<BTreeMap<Stance, Crowd>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            stance: String,
            many: i64,
            since: i64,
            due_at: Option<i64>,
        }
        let sql = format!(
            "SELECT stance, count(*) AS many, min(since) AS since, min(due_at) AS due_at \
             FROM ({UNFINISHED}) AS it GROUP BY stance"
        );
        let rows = Row::find_by_statement(statement(&self.database.pool, &sql, values(tenant)));
        let mut stances = BTreeMap::new();
        for row in rows.all(&self.database.pool).await? {
            if let Some(stance) = Stance::ALL.into_iter().find(|it| it.as_str() == row.stance) {
                stances.insert(
                    stance,
                    Crowd { turns: unsigned(row.many)?, since: row.since, due_at: row.due_at },
                );
            }
        }
        Ok(stances)
    }

    /// Turns of this stance, at most `limit`, the first submitted first: of this tenant, or of all.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn unfinished(
        &self,
        stance: Stance,
        tenant: Option<&str>,
        limit: u64,
    ) -> Result<Vec<Unfinished>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            turn: TurnId,
            thread: ThreadId,
            tenant: String,
            strategy: String,
            priority: i32,
            since: i64,
            due_at: Option<i64>,
            asked: i32,
        }
        let sql = format!(
            "SELECT * FROM ({UNFINISHED}) AS it WHERE stance = '{}' ORDER BY position LIMIT {}",
            stance.as_str(),
            signed(at_most(limit))
        );
        let rows = Row::find_by_statement(statement(&self.database.pool, &sql, values(tenant)));
        let rows = rows.all(&self.database.pool).await?.into_iter().map(|row| {
            let Row { turn, thread, tenant, strategy, priority, since, due_at, asked } = row;
            let unread = || corrupt(thread, format_args!("a turn's priority {priority} is unknown"));
            let priority = Priority::ranked(priority.into()).ok_or_else(unread)?;
            Ok(Unfinished { turn, thread, tenant, strategy, priority, since, due_at, is_asked: asked == 1 })
        });
        rows.collect()
    }

    /// How many turns are queued that were submitted one by one, of this tenant or of all; from `enough` on nobody counts.
    /// Those that batches have fed do not count, as each batch keeps to its window by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn queued(&self, tenant: Option<&str>, enough: u64) -> Result<u64, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            many: i64,
        }
        let enough = signed(at_most(enough));
        let sql = |of: &str| {
            format!(
                "SELECT count(*) AS many FROM (SELECT 1 FROM open_turns AS open JOIN turns ON turns.position = open.position \
                 WHERE {of}status = 'queued' AND coalesce(idempotency_key, '') NOT LIKE $1 LIMIT {enough}) AS it"
            )
        };
        let db = &self.database.pool;
        let fed = format!("%{BETWEEN}");
        let statement = match tenant {
            Some(tenant) => statement(db, &sql("open.tenant = $2 AND "), [fed.into(), tenant.into()]),
            None => statement(db, &sql(""), [fed.into()]),
        };
        unsigned(Row::find_by_statement(statement).one(db).await?.map_or(0, |it| it.many))
    }
}

fn values(tenant: Option<&str>) -> [Value; 2] {
    [time::now().into(), tenant.unwrap_or_default().into()]
}
