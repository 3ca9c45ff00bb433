//! What reads threads as rows: lists, what the sweep rings, and counts.

use std::collections::BTreeMap;

use sea_orm::{
    ColumnTrait, EntityTrait, ExprTrait, FromQueryResult, Order, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait,
    sea_query::{Alias, Expr, SelectStatement, UnionType},
};

use super::{
    Store, ThreadId, ThreadStatus, TurnStatus, at_most, corrupt,
    tables::{events, threads, turns},
    unsigned,
};
use crate::{
    Error,
    pauses::{PauseKind, table as pauses},
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

    /// Threads, newest first, at most `limit`; those opened before `after`, and in that status.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a row is none that turnfold wrote.
    pub async fn threads(
        &self,
        status: Option<ThreadStatus>,
        after: Option<ThreadId>,
        limit: u64,
    ) -> Result<Vec<Thread>, Error> {
        let rows = threads::Entity::find()
            .apply_if(status, |rows, it| rows.filter(threads::Column::Status.eq(it.as_str())))
            .apply_if(after, |rows, it| rows.filter(threads::Column::Id.lt(it)))
            .order_by_desc(threads::Column::Id)
            .limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Thread::try_from).collect()
    }

    /// Threads that wait for a person, at most `limit`: the one asked last comes first. `after` is the
    /// `updated_at` and the `id` of the last thread of the page before.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] if a row is none that turnfold wrote.
    pub async fn waiting(&self, after: Option<(i64, ThreadId)>, limit: u64) -> Result<Vec<Thread>, Error> {
        let before = |(at, id): (i64, ThreadId)| {
            let at_once = threads::Column::UpdatedAt.eq(at).and(threads::Column::Id.lt(id));
            threads::Column::UpdatedAt.lt(at).or(at_once)
        };
        let rows = threads::Entity::find()
            .filter(threads::Column::Status.eq(ThreadStatus::Interrupted.as_str()))
            .apply_if(after, |rows, it| rows.filter(before(it)))
            .order_by_desc(threads::Column::UpdatedAt)
            .order_by_desc(threads::Column::Id)
            .limit(at_most(limit));
        rows.all(&self.database.pool).await?.into_iter().map(Thread::try_from).collect()
    }

    /// Threads that may be able to move, at most `limit`: the first page of [`Store::runnable_after`].
    ///
    /// # Errors
    ///
    /// As that one.
    pub async fn runnable(&self, limit: u64) -> Result<Vec<ThreadId>, Error> {
        self.runnable_after(None, limit).await
    }

    /// Threads that may be able to move, oldest first, at most `limit`, opened after `after`: those that are
    /// busy, and those with a turn in the queue, if their strategy is not paused. A sweep that pages through all of
    /// them starves none.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn runnable_after(&self, after: Option<ThreadId>, limit: u64) -> Result<Vec<ThreadId>, Error> {
        #[derive(FromQueryResult)]
        struct Row {
            id: ThreadId,
        }
        let waited_for = turns::Entity::find()
            .select_only()
            .column_as(turns::Column::ThreadId, "id")
            .filter(turns::Column::Status.eq(TurnStatus::Queued.as_str()))
            .filter(Expr::exists(paused_thread()).not())
            .apply_if(after, |rows, it| rows.filter(turns::Column::ThreadId.gt(it)));
        let mut busy = threads::Entity::find()
            .select_only()
            .column_as(threads::Column::Id, "id")
            .filter(threads::Column::Status.eq(ThreadStatus::Busy.as_str()))
            .filter(threads::Column::Strategy.not_in_subquery(paused_strategies()))
            .apply_if(after, |rows, it| rows.filter(threads::Column::Id.gt(it)));
        QueryTrait::query(&mut busy)
            .union(UnionType::Distinct, waited_for.into_query())
            .order_by(Alias::new("id"), Order::Asc)
            .limit(at_most(limit));
        Ok(busy.into_model::<Row>().all(&self.database.pool).await?.into_iter().map(|it| it.id).collect())
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

/// The names of the strategies that are paused.
fn paused_strategies() -> SelectStatement {
    let paused = pauses::Entity::find().select_only().column(pauses::Column::Name);
    paused.filter(pauses::Column::Kind.eq(PauseKind::Strategy.as_str())).into_query()
}

/// The thread of a turn, if its strategy is paused.
fn paused_thread() -> SelectStatement {
    let its_own = Expr::col((turns::Entity, turns::Column::ThreadId));
    let thread = threads::Entity::find().select_only().column(threads::Column::Id);
    thread
        .filter(Expr::col((threads::Entity, threads::Column::Id)).eq(its_own))
        .filter(threads::Column::Strategy.in_subquery(paused_strategies()))
        .into_query()
}

impl TryFrom<threads::Model> for Thread {
    type Error = Error;

    fn try_from(row: threads::Model) -> Result<Self, Error> {
        let threads::Model { id, strategy, status, created_at, updated_at } = row;
        let status = status.parse().map_err(|error| corrupt(id, error))?;
        Ok(Self { id, strategy, status, created_at, updated_at })
    }
}
