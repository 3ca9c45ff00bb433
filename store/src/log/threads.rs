//! What reads threads as rows: lists, what the sweep rings, and counts.

use std::collections::BTreeMap;

use sea_orm::{
    ColumnTrait, EntityTrait, ExprTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    Value,
};

use super::{
    Store, ThreadId, ThreadStatus, TurnStatus, at_most, corrupt,
    database::{looked_up, statement},
    matching::stands,
    signed,
    tables::{events, threads, turns},
    unsigned,
};
use crate::{
    Error,
    queue::{Lane, Priority},
    time,
};

/// A thread, as the read model has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Which.
    pub id: ThreadId,
    /// The name of its strategy.
    pub strategy: String,
    /// Where it stands.
    pub status: ThreadStatus,
    /// When it was opened, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// When its status was last written, in microseconds since the Unix epoch.
    pub updated_at: i64,
    /// Whom it belongs to.
    pub tenant: String,
}

/// Which threads to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadFilter<'a> {
    /// Those of this tenant.
    pub tenant: Option<&'a str>,
    /// Those in this status.
    pub status: Option<ThreadStatus>,
}

/// A thread that may be able to move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runnable {
    /// Which.
    pub thread: ThreadId,
    /// Where a token for it waits.
    pub lane: Lane,
    /// Whether a turn of it is under way: then a worker may be at it, though no token is to be seen.
    pub is_running: bool,
}

/// How much there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Turns by status; a status that no turn has is left out.
    pub turns: BTreeMap<TurnStatus, u64>,
    /// Events of all threads.
    pub events: u64,
}

impl Store {
    /// A thread, if there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if its row is none that turnfold wrote.
    pub async fn thread(&self, id: ThreadId) -> Result<Option<Thread>, Error> {
        threads::Entity::find_by_id(id).one(&self.database.pool).await?.map(Thread::try_from).transpose()
    }

    /// Threads, newest first, at most `limit`; those opened before `after`, and that the filter lets through.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a row is none that turnfold wrote.
    pub async fn threads(
        &self,
        filter: ThreadFilter<'_>,
        after: Option<ThreadId>,
        limit: u64,
    ) -> Result<Vec<Thread>, Error> {
        let rows = threads::Entity::find()
            .apply_if(filter.tenant, |rows, it| rows.filter(threads::Column::Tenant.eq(it)))
            .apply_if(filter.status, |rows, it| rows.filter(stands(it)))
            .apply_if(after, |rows, it| rows.filter(threads::Column::Id.lt(it)))
            .order_by_desc(threads::Column::Id)
            .limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Thread::try_from).collect()
    }

    /// Threads, of this tenant or of all, that wait for a person, at most `limit`: the one asked last comes first. `after` is the
    /// `updated_at` and the `id` of the last thread of the page before.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a row is none that turnfold wrote.
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
            .filter(stands(ThreadStatus::Interrupted))
            .apply_if(tenant, |rows, it| rows.filter(threads::Column::Tenant.eq(it)))
            .apply_if(after, |rows, it| rows.filter(before(it)))
            .order_by_desc(threads::Column::UpdatedAt)
            .order_by_desc(threads::Column::Id)
            .limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Thread::try_from).collect()
    }

    /// Threads that may be able to move, oldest first, at most `limit`, opened after `after`, each with its lane: those
    /// that are busy, and those with a turn in the queue that is due, if neither their strategy nor
    /// their tenant is paused. A sweep that pages through all of them starves none.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn runnable_after(&self, after: Option<ThreadId>, limit: u64) -> Result<Vec<Runnable>, Error> {
        let which = "open.thread_id > $2 AND (due_at IS NULL OR due_at <= $1 OR status = 'running') \
                     AND NOT EXISTS (SELECT 1 FROM pauses WHERE kind = 'tenant' AND name = open.tenant \
                     OR kind = 'strategy' AND name = (SELECT strategy FROM threads WHERE id = open.thread_id)) \
                     GROUP BY open.thread_id ORDER BY open.thread_id LIMIT $3";
        // No thread has this name, and all others come after it.
        let after = after.unwrap_or_default();
        self.lanes(which, vec![after.into(), signed(at_most(limit)).into()]).await
    }

    /// The lane in which a token for this thread waits: that of its tenant, and of its turn that is under way, or is
    /// heard next. None, if there is no such thread.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn lane(&self, thread: ThreadId) -> Result<Option<Lane>, Error> {
        let which = "open.thread_id = $2 AND (due_at IS NULL OR due_at <= $1 OR status = 'running') \
                     GROUP BY open.thread_id";
        if let Some(it) = self.lanes(which, vec![thread.into()]).await?.pop() {
            return Ok(Some(it.lane));
        }
        Ok(self.thread(thread).await?.map(|it| Lane::new(&it.tenant, Priority::Normal)))
    }

    /// The lanes of threads with open turns; `$1` is the time, and the values follow. All turns of a thread are its tenant's.
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
        let values = std::iter::once(time::now().into()).chain(values);
        let rows = Row::find_by_statement(statement(db, &sql, values)).all(db).await?;
        let lane = |row: Row| {
            let unread = || corrupt(row.id, format_args!("a turn's priority {} is unknown", row.priority));
            let priority = Priority::ranked(row.priority.into()).ok_or_else(unread)?;
            let lane = Lane::new(&row.tenant, priority);
            Ok(Runnable { thread: row.id, lane, is_running: row.running == 1 })
        };
        rows.into_iter().map(lane).collect()
    }

    /// How many turns there are by status, and events. Reads all of both: for a display, not for a loop.
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
