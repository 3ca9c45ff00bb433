//! Turns that failed or got no full answer, grouped and counted by cause.

use sea_orm::{
    ColumnTrait, ConnectionTrait as _, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Alias, CaseStatement, Expr, ExprTrait, Func, Order as Direction},
};
use shared::TurnEnd;

use crate::{
    Error,
    log::{
        Store,
        ids::{TurnId, at_most, unsigned},
        replanned::Replanned,
        tables::turns,
        turns::TurnFilter,
    },
};

/// Turns that ended the same way with the same cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// End of the turns.
    pub ended: TurnEnd,
    /// Error without the parts that differ between occurrences, or causes of the outcome.
    pub cause: String,
    /// Number of turns.
    pub turns: u64,
    /// Number of turns that never started and therefore cannot be retried.
    pub never_started: u64,
    /// Time of the first of these ends, in microseconds since the Unix epoch.
    pub first_at: i64,
    /// Time of the last of these ends, in microseconds since the Unix epoch.
    pub last_at: i64,
    /// Id of the turn that was submitted last.
    pub example: TurnId,
}

/// Turns that failed or got no full answer, and match a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Groups by cause, largest first.
    pub by_cause: Vec<Failure>,
    /// Number of turns, including those of omitted causes.
    pub turns: u64,
    /// Number of turns that never started.
    pub never_started: u64,
}

#[derive(FromQueryResult)]
struct Row {
    ended: String,
    common: String,
    many: i64,
    never_started: i64,
    first_at: i64,
    last_at: i64,
    newest: i64,
}

impl Store {
    /// Groups the turns that match the filter and failed or got no full answer, at most `limit` causes.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn failures(&self, filter: TurnFilter<'_>, limit: u64) -> Result<Failures, Error> {
        let db = &Replanned(&self.database.pool);
        let stuck = || Expr::col((turns::Entity, Alias::new("stuck")));
        let ends = || stuck().is_in(TurnEnd::ALL.map(TurnEnd::as_str));
        let ended = || filter.rows(db.get_database_backend()).filter(ends()).select_only();
        let column = |column: turns::Column| Expr::col((turns::Entity, column));
        // Failures from before the introduction of causes are grouped by their full error.
        let common: Expr =
            Func::coalesce([column(turns::Column::Cause), column(turns::Column::Error), Expr::val("")])
                .into();
        let count = || column(turns::Column::Position).count();
        let never_started = || {
            let never_started: Expr =
                CaseStatement::new().case(turns::Column::StartedSeq.is_null(), Expr::val(1)).into();
            never_started.count()
        };
        let rows = ended()
            .expr_as(stuck(), "ended")
            .expr_as(common, "common")
            .expr_as(count(), "many")
            .expr_as(never_started(), "never_started")
            .expr_as(column(turns::Column::UpdatedAt).min(), "first_at")
            .expr_as(column(turns::Column::UpdatedAt).max(), "last_at")
            .expr_as(column(turns::Column::Position).max(), "newest")
            .group_by(Expr::col(Alias::new("ended")))
            .group_by(Expr::col(Alias::new("common")))
            .order_by(Expr::col(Alias::new("many")), Direction::Desc)
            .order_by(Expr::col(Alias::new("newest")), Direction::Desc)
            .limit(at_most(limit))
            .into_model::<Row>()
            .all(db)
            .await?;
        let whole: Option<(i64, i64)> = ended()
            .expr_as(count(), "many")
            .expr_as(never_started(), "never_started")
            .into_tuple()
            .one(db)
            .await?;
        let (turns, never_started) = whole.unwrap_or_default();
        let newest = turns::Column::Position.is_in(rows.iter().map(|row| row.newest));
        let examples: std::collections::BTreeMap<i64, TurnId> = turns::Entity::find()
            .select_only()
            .columns([turns::Column::Position, turns::Column::Id])
            .filter(newest)
            .into_tuple::<(i64, TurnId)>()
            .all(db)
            .await?
            .into_iter()
            .collect();
        let mut by_cause = Vec::new();
        for row in rows {
            // A turn that was deleted with its thread in the meantime cannot serve as an example.
            let Some(example) = examples.get(&row.newest) else { continue };
            let unknown = |error| Error::Database(format!("the end of a turn: {error}"));
            by_cause.push(Failure {
                ended: row.ended.parse().map_err(unknown)?,
                cause: row.common,
                turns: unsigned(row.many)?,
                never_started: unsigned(row.never_started)?,
                first_at: row.first_at,
                last_at: row.last_at,
                example: *example,
            });
        }
        Ok(Failures { by_cause, turns: unsigned(turns)?, never_started: unsigned(never_started)? })
    }
}
