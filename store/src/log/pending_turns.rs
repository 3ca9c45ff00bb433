//! Pending turns, and the reasons for their waiting that rows can show. The queue knows the other reasons.

use std::collections::BTreeMap;

use queue::{Priority, clock};
use sea_orm::{ConnectionTrait, FromQueryResult, Value};

use crate::{
    Error,
    log::{
        Store,
        database::{looked_up, statement},
        ids::{ThreadId, TurnId, at_most, corrupt, signed, unsigned},
        replanned::Replanned,
        submit::BETWEEN,
    },
};

/// Reason for which a pending turn waits, as far as rows can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// The turn is running or starts next.
    Runnable,
    /// Another turn of the thread is running or comes first.
    Behind,
    /// Its start time has not come.
    NotDue,
    /// The turn waits for a person's answer.
    AwaitingInput,
}

impl WaitReason {
    const ALL: [Self; 4] = [Self::Runnable, Self::Behind, Self::NotDue, Self::AwaitingInput];

    /// Returns the name of the reason in SQL.
    fn as_str(self) -> &'static str {
        match self {
            Self::Runnable => "runnable",
            Self::Behind => "behind",
            Self::NotDue => "not due",
            Self::AwaitingInput => "awaiting_input",
        }
    }
}

/// A turn that has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingTurn {
    /// Id of the turn.
    pub turn: TurnId,
    /// Id of the thread.
    pub thread: ThreadId,
    /// Tenant of the thread.
    pub tenant: String,
    /// Strategy of the thread.
    pub strategy: String,
    /// Priority within the tenant.
    pub priority: Priority,
    /// Time of submission, or of the last change once it has started, in microseconds since the Unix epoch.
    pub since: i64,
    /// Earliest start, in microseconds since the Unix epoch, if one was given.
    pub due_at: Option<i64>,
    /// True if the thread waits for a person and this turn is not known to be the answer. The turn may start as the
    /// answer, but not while the person must confirm whether a call happened; rows do not distinguish the two.
    pub is_asked: bool,
}

/// Count of the turns with one wait reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCount {
    /// Number of turns.
    pub turns: u64,
    /// Earliest `since` of the turns, in microseconds since the Unix epoch.
    pub since: i64,
    /// Earliest start of the turns, in microseconds since the Unix epoch, if one was given.
    pub due_at: Option<i64>,
}

/// Selects pending turns. Default: all.
#[derive(Clone, Copy, Debug, Default)]
pub struct PendingFilter<'a> {
    /// Only turns of this tenant.
    pub tenant: Option<&'a str>,
    /// Only turns of this thread.
    pub thread: Option<ThreadId>,
}

impl PendingFilter<'_> {
    /// Returns the query for the pending turns with their wait reasons. `$1` is the current time, `$2` the tenant, where an
    /// empty one selects all, and `$3` the thread, if there is one.
    ///
    /// A thread that asked a person several times has one interrupted turn per question; only the last counts.
    fn query(&self, db: &impl ConnectionTrait) -> String {
        let (open, asking) = match self.thread {
            Some(_) => ("WHERE thread_id = $3", "AND asking.thread_id = $3"),
            None => ("", ""),
        };
        let its_turn = looked_up(db, "turns.position", "unfinished.position");
        let its_thread = looked_up(db, "threads.id", "turns.thread_id");
        format!(
            "{PENDING} FROM (SELECT position FROM open_turns {open} UNION ALL \
            SELECT position FROM turns AS asking WHERE stuck = 'interrupted' {asking} AND NOT EXISTS \
            (SELECT 1 FROM turns AS later WHERE later.thread_id = asking.thread_id \
            AND later.stuck = 'interrupted' AND later.position > asking.position)) AS unfinished \
            JOIN turns ON {its_turn} JOIN threads ON {its_thread} \
            WHERE ($2 = '' OR turns.tenant = $2) AND (turns.stuck IS NULL OR threads.stuck = 'interrupted')"
        )
    }

    fn values(&self) -> Vec<Value> {
        let mut values = vec![clock::now().into(), self.tenant.unwrap_or_default().into()];
        values.extend(self.thread.map(Value::from));
        values
    }
}

/// The columns of a pending turn.
const PENDING: &str = "\
    SELECT turns.id AS turn, turns.thread_id AS thread, turns.tenant AS tenant, threads.strategy AS strategy, \
    turns.priority AS priority, turns.position AS position, turns.due_at AS due_at, \
    CASE WHEN threads.status = 'interrupted' AND (turns.answers_seq IS NULL OR turns.policy = 'auto') THEN 1 ELSE 0 END AS asked, \
    CASE WHEN turns.status = 'queued' THEN turns.created_at ELSE turns.updated_at END AS since, \
    CASE WHEN turns.status = 'interrupted' THEN 'awaiting_input' \
    WHEN turns.status = 'running' THEN 'runnable' \
    WHEN turns.due_at > $1 THEN 'not due' \
    WHEN threads.status = 'busy' OR EXISTS (SELECT 1 FROM open_turns AS open JOIN turns AS ahead ON ahead.position = open.position \
      WHERE open.thread_id = turns.thread_id AND ahead.status = 'queued' \
      AND (ahead.due_at IS NULL OR ahead.due_at <= $1) AND (open.priority < turns.priority \
      OR open.priority = turns.priority AND open.position < turns.position)) THEN 'behind' \
    ELSE 'runnable' END AS stance";

impl Store {
    /// Counts the selected pending turns by wait reason.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn count_pending(
        &self,
        filter: PendingFilter<'_>,
    ) -> Result<BTreeMap<WaitReason, PendingCount>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            stance: String,
            many: i64,
            since: i64,
            due_at: Option<i64>,
        }
        let sql = format!(
            "SELECT stance, count(*) AS many, min(since) AS since, min(due_at) AS due_at \
             FROM ({}) AS it GROUP BY stance",
            filter.query(&self.database.pool)
        );
        let rows = Row::find_by_statement(statement(&self.database.pool, &sql, filter.values()));
        let mut stances = BTreeMap::new();
        for row in rows.all(&Replanned(&self.database.pool)).await? {
            if let Some(stance) = WaitReason::ALL.into_iter().find(|reason| reason.as_str() == row.stance) {
                stances.insert(
                    stance,
                    PendingCount { turns: unsigned(row.many)?, since: row.since, due_at: row.due_at },
                );
            }
        }
        Ok(stances)
    }

    /// Lists at most `limit` of the selected pending turns with this wait reason, earliest submission first.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn pending_turns(
        &self,
        stance: WaitReason,
        filter: PendingFilter<'_>,
        limit: u64,
    ) -> Result<Vec<PendingTurn>, Error> {
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
            "SELECT * FROM ({}) AS it WHERE stance = '{}' ORDER BY position LIMIT {}",
            filter.query(&self.database.pool),
            stance.as_str(),
            signed(at_most(limit))
        );
        let rows = Row::find_by_statement(statement(&self.database.pool, &sql, filter.values()));
        let rows = rows.all(&Replanned(&self.database.pool)).await?.into_iter().map(|row| {
            let Row { turn, thread, tenant, strategy, priority, since, due_at, asked } = row;
            let unread = || corrupt(thread, format_args!("a turn's priority {priority} is unknown"));
            let priority = Priority::from_rank(priority.into()).ok_or_else(unread)?;
            Ok(PendingTurn { turn, thread, tenant, strategy, priority, since, due_at, is_asked: asked == 1 })
        });
        rows.collect()
    }

    /// Counts queued turns that were submitted individually, of one tenant or of all, up to `enough`. Turns of batch
    /// items do not count, because each batch limits its own.
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
        unsigned(Row::find_by_statement(statement).one(db).await?.map_or(0, |row| row.many))
    }
}
