//! Threads as rows: lists, the threads that the sweeper enqueues, and counts.

use std::collections::BTreeMap;

use queue::{Lane, Priority, clock};
use sea_orm::{
    ColumnTrait, ConnectionTrait as _, DbBackend, EntityTrait, ExprTrait, FromQueryResult, QueryFilter,
    QueryOrder, QuerySelect, QueryTrait, Select, Value,
};
use shared::{ThreadStatus, TurnStatus};

use crate::{
    Error,
    filter::{
        conditions::Conditions,
        sql::{has_turn, thread_in_status},
    },
    log::{
        Store,
        database::{looked_up, statement},
        ids::{ThreadId, at_most, corrupt, signed, unsigned},
        order::Order,
        replanned::Replanned,
        tables::{events, threads, turns},
    },
};

/// A thread in the read model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Id of the thread.
    pub id: ThreadId,
    /// Name of the strategy.
    pub strategy: String,
    /// Status in the read model.
    pub status: ThreadStatus,
    /// Time of the first event, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// Time of the last status change, in microseconds since the Unix epoch.
    pub updated_at: i64,
    /// Owner of the thread.
    pub tenant: String,
}

/// Filter for lists of threads; empty fields match all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadFilter<'a> {
    /// Threads of this tenant.
    pub tenant: Option<&'a str>,
    /// Threads in this status.
    pub status: Option<ThreadStatus>,
    /// Threads with a turn that matches these conditions.
    pub turns: Option<&'a Conditions>,
    /// Order of the list, by the first event.
    pub order: Order,
}

impl ThreadFilter<'_> {
    /// Selects the matching rows.
    pub(crate) fn rows(self, backend: DbBackend) -> Select<threads::Entity> {
        threads::Entity::find()
            .apply_if(self.tenant, |rows, tenant| rows.filter(threads::Column::Tenant.eq(tenant)))
            .apply_if(self.status, |rows, status| rows.filter(thread_in_status(status)))
            .apply_if(self.turns, |rows, turns| rows.filter(has_turn(backend, turns, self.tenant)))
    }
}

/// A thread that may be runnable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runnable {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Lane of its job.
    pub lane: Lane,
    /// True if a turn of the thread is running: a worker may then hold it although no job is visible.
    pub is_running: bool,
}

/// Counts of turns and events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Turns by status, without statuses that no turn has.
    pub turns: BTreeMap<TurnStatus, u64>,
    /// Events of all threads.
    pub events: u64,
}

impl Store {
    /// Returns the thread with this id.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if turnfold cannot have written its row.
    pub async fn thread(&self, id: ThreadId) -> Result<Option<Thread>, Error> {
        threads::Entity::find_by_id(id).one(&self.database.pool).await?.map(Thread::try_from).transpose()
    }

    /// Lists at most `limit` threads that match the filter and follow `after` in its order.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if turnfold cannot have written a row.
    pub async fn threads(
        &self,
        filter: ThreadFilter<'_>,
        after: Option<ThreadId>,
        limit: u64,
    ) -> Result<Vec<Thread>, Error> {
        let rows = filter.rows(self.database.pool.get_database_backend());
        let rows = filter.order.page(rows, threads::Column::Id, after).limit(at_most(limit));
        rows.all(&Replanned(&self.database.pool)).await?.into_iter().map(Thread::try_from).collect()
    }

    /// Lists at most `limit` threads that wait for a person, most recently changed first. `after` is the `updated_at`
    /// and `id` of the last thread of the previous page.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if turnfold cannot have written a row.
    pub async fn waiting(
        &self,
        tenant: Option<&str>,
        after: Option<(i64, ThreadId)>,
        limit: u64,
    ) -> Result<Vec<Thread>, Error> {
        let before = |(at, id): (i64, ThreadId)| {
            let at_once = threads::Column::UpdatedAt.eq(at).and(threads::Column::Id.lt(id));
            threads::Column::UpdatedAt.lt(at).or(at_once)
        };
        let rows = threads::Entity::find()
            .filter(thread_in_status(ThreadStatus::Interrupted))
            .apply_if(tenant, |rows, tenant| rows.filter(threads::Column::Tenant.eq(tenant)))
            .apply_if(after, |rows, row| rows.filter(before(row)))
            .order_by_desc(threads::Column::UpdatedAt)
            .order_by_desc(threads::Column::Id)
            .limit(at_most(limit));
        rows.all(&Replanned(&self.database.pool)).await?.into_iter().map(Thread::try_from).collect()
    }

    /// Lists at most `limit` runnable threads opened after `after`, oldest first, with their lanes: threads that are
    /// busy or have a due queued turn, if neither their strategy nor their tenant is paused. A sweeper that pages
    /// through all of them starves none.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn runnable_after(&self, after: Option<ThreadId>, limit: u64) -> Result<Vec<Runnable>, Error> {
        let which = "open.thread_id > $2 AND (due_at IS NULL OR due_at <= $1 OR status = 'running') \
                     AND NOT EXISTS (SELECT 1 FROM pauses WHERE kind = 'tenant' AND name = open.tenant \
                     OR kind = 'strategy' AND name = (SELECT strategy FROM threads WHERE id = open.thread_id)) \
                     GROUP BY open.thread_id ORDER BY open.thread_id LIMIT $3";
        // The nil id is no thread's id and precedes all others.
        let after = after.unwrap_or_default();
        self.lanes(which, vec![after.into(), signed(at_most(limit)).into()]).await
    }

    /// Returns the lane for a job of this thread: its tenant, and the priority of its running turn or of the next one.
    /// `None` if the thread is unknown.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn lane(&self, thread: ThreadId) -> Result<Option<Lane>, Error> {
        let which = "open.thread_id = $2 AND (due_at IS NULL OR due_at <= $1 OR status = 'running') \
                     GROUP BY open.thread_id";
        if let Some(due) = self.lanes(which, vec![thread.into()]).await?.pop() {
            return Ok(Some(due.lane));
        }
        Ok(self.thread(thread).await?.map(|row| Lane::new(&row.tenant, Priority::Normal)))
    }

    /// Returns the lanes of threads with open turns. `$1` is the current time, followed by `values`. All turns of a
    /// thread have its tenant.
    async fn lanes(&self, which: &str, values: Vec<Value>) -> Result<Vec<Runnable>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            id: ThreadId,
            tenant: String,
            priority: i32,
            running: i32,
        }
        let db = &self.database.hot;
        let its_turn = looked_up(db, "turns.position", "open.position");
        let sql = format!(
            "SELECT open.thread_id AS id, MIN(open.tenant) AS tenant, \
             COALESCE(MIN(CASE WHEN status = 'running' THEN open.priority END), MIN(open.priority)) AS priority, \
             MAX(CASE WHEN status = 'running' THEN 1 ELSE 0 END) AS running \
             FROM open_turns AS open JOIN turns ON {its_turn} WHERE {which}"
        );
        let values = std::iter::once(clock::now().into()).chain(values);
        let rows = Row::find_by_statement(statement(db, &sql, values)).all(db).await?;
        let lane = |row: Row| {
            let unread = || corrupt(row.id, format_args!("a turn's priority {} is unknown", row.priority));
            let priority = Priority::from_rank(row.priority.into()).ok_or_else(unread)?;
            let lane = Lane::new(&row.tenant, priority);
            Ok(Runnable { thread: row.id, lane, is_running: row.running == 1 })
        };
        rows.into_iter().map(lane).collect()
    }

    /// Counts turns by status, and events. Reads both tables completely: meant for displays, not for loops.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn counts(&self) -> Result<Counts, Error> {
        let by_status: Vec<(String, i64)> = turns::Entity::find()
            .select_only()
            .column(turns::Column::Status)
            .column_as(turns::Column::Position.count(), "turns")
            .group_by(turns::Column::Status)
            .into_tuple()
            .all(&self.database.pool)
            .await?;
        let events: Option<i64> = events::Entity::find()
            .select_only()
            .column_as(events::Column::Seq.count(), "events")
            .into_tuple()
            .one(&self.database.pool)
            .await?;
        let count = |(status, turns): (String, i64)| {
            let status = status.parse().map_err(|error| Error::Database(format!("a turn's {error}")))?;
            Ok((status, unsigned(turns)?))
        };
        let turns = by_status.into_iter().map(count).collect::<Result<_, Error>>()?;
        Ok(Counts { turns, events: unsigned(events.unwrap_or_default())? })
    }
}

impl TryFrom<threads::Model> for Thread {
    type Error = Error;

    fn try_from(row: threads::Model) -> Result<Self, Error> {
        let threads::Model { id, strategy, status, created_at, updated_at, tenant } = row;
        let status = status.parse().map_err(|error| corrupt(id, error))?;
        Ok(Self { id, strategy, status, created_at, updated_at, tenant })
    }
}
