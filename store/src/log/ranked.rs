//! Lists in the order of a value: last change, cost, tokens or time, the highest or the lowest first.
//!
//! ## Why only the newest rows are put in order
//!
//! No index has these values: a turn that is worked on changes them at each step, and each change would be written to the index. So
//! the newest rows that match are read and sorted. Older ones are not in the list; a filter or a period brings them in.

use std::collections::HashMap;

use queue::clock;
use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, ExprTrait as _, FromQueryResult,
    QueryFilter as _, QueryOrder as _, QuerySelect as _, QueryTrait as _, Value,
    sea_query::{Alias, Expr, Order as Direction, Query, SelectStatement},
};
use uuid::Uuid;

use super::{
    Store, Thread, ThreadFilter, Turn, TurnFilter,
    ids::{ThreadId, TurnId, at_most},
    replanned::Replanned,
    tables::{threads, turns},
};
use crate::{Conditions, Error};

/// Maximum number of matching turns or threads that are put in order, the newest ones.
pub const RANKED_MAX: u64 = 10_000;

/// Value by which a list is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Time of the last change.
    Updated,
    /// Cost so far; zero if none is known.
    MicroUsd,
    /// Tokens so far.
    Tokens,
    /// Time from the submission of a turn to its end, or until now; of a thread, from its first event to the last change.
    Took,
}

/// Order of a list by a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankOrder<R = Rank> {
    pub(crate) rank: R,
    /// True if the lowest value is first.
    pub(crate) is_ascending: bool,
}

impl<R> RankOrder<R> {
    /// Highest value first; of equal values, the newest row.
    pub fn highest_first(rank: R) -> Self {
        Self { rank, is_ascending: false }
    }

    /// Lowest value first; of equal values, the oldest row: the reverse of [`RankOrder::highest_first`].
    pub fn lowest_first(rank: R) -> Self {
        Self { rank, is_ascending: true }
    }
}

impl Rank {
    /// Returns true if the search index has the value.
    fn is_indexed(self) -> bool {
        match self {
            Rank::MicroUsd | Rank::Tokens => true,
            Rank::Updated | Rank::Took => false,
        }
    }

    fn of_turn(self, now: i64) -> Expr {
        let used = |column: &str| {
            format!(
                "COALESCE((SELECT {column} FROM search_usage WHERE search_usage.thread_id = turns.thread_id \
                 AND search_usage.turn_seq = turns.started_seq), 0)"
            )
        };
        match self {
            Rank::Updated => Expr::cust("turns.updated_at"),
            Rank::MicroUsd => Expr::cust(used("micro_usd")),
            Rank::Tokens => Expr::cust(used("tokens")),
            Rank::Took => {
                let is_open = Expr::cust("turns.status IN ('queued', 'running')");
                let until_now = Expr::val(now).sub(Expr::cust("turns.created_at"));
                let took = Expr::cust("turns.updated_at - turns.created_at");
                Expr::case(is_open, until_now).finally(took).into()
            }
        }
    }

    fn of_thread(self) -> Expr {
        let used = |column: &str| {
            format!(
                "CAST(COALESCE((SELECT SUM({column}) FROM search_usage \
                 WHERE search_usage.thread_id = threads.id), 0) AS BIGINT)"
            )
        };
        Expr::cust(match self {
            Rank::Updated => "threads.updated_at".to_owned(),
            Rank::MicroUsd => used("micro_usd"),
            Rank::Tokens => used("tokens"),
            Rank::Took => "threads.updated_at - threads.created_at".to_owned(),
        })
    }
}

#[derive(FromQueryResult)]
struct Id {
    id: Uuid,
}

impl Store {
    /// Lists at most `limit` of the newest [`RANKED_MAX`] turns that match the filter, in this order, from the one that follows
    /// `after` on. The order of the filter is ignored.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownTurn`] if `after` does not exist; [`Error::SearchOff`] or [`Error::SearchBehind`] if the index lacks the values.
    pub async fn ranked_turns(
        &self,
        filter: TurnFilter<'_>,
        order: RankOrder,
        after: Option<TurnId>,
        limit: u64,
    ) -> Result<Vec<Turn>, Error> {
        let rank = order.rank;
        self.check_rank(rank, filter.conditions).await?;
        let (db, now) = (&self.database.pool, clock::now());
        let after = match after {
            Some(id) => {
                let row = turns::Entity::find()
                    .filter(turns::Column::Id.eq(id))
                    .select_only()
                    .expr_as(rank.of_turn(now), "rank");
                let row = row.column(turns::Column::Position).into_tuple::<(i64, i64)>();
                let (rank, place) = row.one(db).await?.ok_or(Error::UnknownTurn(id))?;
                Some((rank, Value::from(place)))
            }
            None => None,
        };
        let newest = filter
            .rows(db.get_database_backend())
            .select_only()
            .column(turns::Column::Id)
            .column_as(turns::Column::Position, "place")
            .expr_as(rank.of_turn(now), "rank")
            .order_by_desc(turns::Column::Position)
            .limit(RANKED_MAX);
        let ids = self.in_order(newest.into_query(), order.is_ascending, after, limit).await?;
        let rows = turns::Entity::find().filter(turns::Column::Id.is_in(ids.clone())).all(db).await?;
        let rows = rows.into_iter().map(|row| (row.id, row)).collect();
        placed(&ids, rows).map(Turn::try_from).collect()
    }

    /// Lists at most `limit` of the newest [`RANKED_MAX`] threads that match the filter, in this order, from the one that follows
    /// `after` on. The order of the filter is ignored.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownThread`] if `after` does not exist; [`Error::SearchOff`] or [`Error::SearchBehind`] if the index lacks the values.
    pub async fn ranked_threads(
        &self,
        filter: ThreadFilter<'_>,
        order: RankOrder,
        after: Option<ThreadId>,
        limit: u64,
    ) -> Result<Vec<Thread>, Error> {
        // The values of a thread are those of all its turns, also of the ones that do not match.
        let rank = order.rank;
        self.check_rank(rank, None).await?;
        let db = &self.database.pool;
        let after = match after {
            Some(id) => {
                let row = threads::Entity::find_by_id(id).select_only().expr_as(rank.of_thread(), "rank");
                let rank = row.into_tuple::<i64>().one(db).await?.ok_or(Error::UnknownThread(id))?;
                Some((rank, Value::from(id)))
            }
            None => None,
        };
        let newest = filter
            .rows(db.get_database_backend())
            .select_only()
            .column(threads::Column::Id)
            .column_as(threads::Column::Id, "place")
            .expr_as(rank.of_thread(), "rank")
            .order_by_desc(threads::Column::Id)
            .limit(RANKED_MAX);
        let ids = self.in_order(newest.into_query(), order.is_ascending, after, limit).await?;
        let rows = threads::Entity::find().filter(threads::Column::Id.is_in(ids.clone())).all(db).await?;
        let rows = rows.into_iter().map(|row| (row.id, row)).collect();
        placed(&ids, rows).map(Thread::try_from).collect()
    }

    async fn check_rank(&self, rank: Rank, conditions: Option<&Conditions>) -> Result<(), Error> {
        if rank.is_indexed() { self.check_indexed(conditions).await } else { Ok(()) }
    }

    /// Returns the ids of the rows that follow a rank and a place. The rows have the columns `id`, `rank` and `place`.
    pub(crate) async fn in_order(
        &self,
        newest: SelectStatement,
        is_ascending: bool,
        after: Option<(i64, Value)>,
        limit: u64,
    ) -> Result<Vec<Uuid>, Error> {
        let newest_rows = Alias::new("newest");
        let column = |name: &'static str| Expr::col((newest_rows.clone(), Alias::new(name)));
        let direction = || if is_ascending { Direction::Asc } else { Direction::Desc };
        let mut query = Query::select();
        query
            .expr_as(column("id"), Alias::new("id"))
            .from_subquery(newest, newest_rows.clone())
            .order_by_expr(column("rank"), direction())
            .order_by_expr(column("place"), direction())
            .limit(at_most(limit));
        if let Some((rank, place)) = after {
            let follows = |name: &'static str, value: Value| {
                if is_ascending { column(name).gt(value) } else { column(name).lt(value) }
            };
            let equal = column("rank").eq(rank).and(follows("place", place));
            query.and_where(follows("rank", rank.into()).or(equal));
        }
        let db = Replanned(&self.database.pool);
        let statement = db.get_database_backend().build(&query);
        Ok(Id::find_by_statement(statement).all(&db).await?.into_iter().map(|row| row.id).collect())
    }
}

/// Returns the rows in the order of these ids. A row that was deleted meanwhile is left out.
pub(crate) fn placed<Row>(ids: &[Uuid], mut rows: HashMap<Uuid, Row>) -> impl Iterator<Item = Row> {
    ids.iter().filter_map(move |id| rows.remove(id))
}
