//! Failed turns, grouped and counted by cause.

use sea_orm::{
    ColumnTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Alias, CaseStatement, Expr, ExprTrait, Func, Order as Direction},
};

use crate::{
    Error,
    filter::sql::in_status,
    log::{
        Store,
        ids::{TurnId, at_most, unsigned},
        status::TurnStatus,
        tables::turns,
        turns::TurnFilter,
    },
};

/// Failed turns with the same cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Error without the parts that differ between occurrences.
    pub cause: String,
    /// Number of turns.
    pub turns: u64,
    /// Number of turns that never started and therefore cannot be retried.
    pub unheard: u64,
    /// Time of the first failure, in microseconds since the Unix epoch.
    pub first_at: i64,
    /// Time of the last failure, in microseconds since the Unix epoch.
    pub last_at: i64,
    /// Id of the turn that was submitted last.
    pub example: TurnId,
}

/// Failed turns that match a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Groups by cause, largest first.
    pub by_cause: Vec<Failure>,
    /// Number of turns, including those of omitted causes.
    pub turns: u64,
    /// Number of turns that never started.
    pub unheard: u64,
}

#[derive(FromQueryResult)]
struct Row {
    common: String,
    many: i64,
    unheard: i64,
    first_at: i64,
    last_at: i64,
    newest: i64,
}

impl Store {
    /// Groups the failed turns that match the filter, at most `limit` causes.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn failures(&self, filter: TurnFilter<'_>, limit: u64) -> Result<Failures, Error> {
        let db = &self.database.pool;
        let failed =
            || filter.rows(db.get_database_backend()).filter(in_status(TurnStatus::Failed)).select_only();
        let column = |it: turns::Column| Expr::col((turns::Entity, it));
        // Failures from before the introduction of causes are grouped by their full error.
        let common: Expr =
            Func::coalesce([column(turns::Column::Cause), column(turns::Column::Error), Expr::val("")])
                .into();
        let count = || column(turns::Column::Position).count();
        let unheard = || {
            let unheard: Expr =
                CaseStatement::new().case(turns::Column::StartedSeq.is_null(), Expr::val(1)).into();
            unheard.count()
        };
        let rows = failed()
            .expr_as(common, "common")
            .expr_as(count(), "many")
            .expr_as(unheard(), "unheard")
            .expr_as(column(turns::Column::UpdatedAt).min(), "first_at")
            .expr_as(column(turns::Column::UpdatedAt).max(), "last_at")
            .expr_as(column(turns::Column::Position).max(), "newest")
            .group_by(Expr::col(Alias::new("common")))
            .order_by(Expr::col(Alias::new("many")), Direction::Desc)
            .order_by(Expr::col(Alias::new("newest")), Direction::Desc)
            .limit(at_most(limit))
            .into_model::<Row>()
            .all(db)
            .await?;
        let whole: Option<(i64, i64)> =
            failed().expr_as(count(), "many").expr_as(unheard(), "unheard").into_tuple().one(db).await?;
        let (turns, unheard) = whole.unwrap_or_default();
        let newest = turns::Column::Position.is_in(rows.iter().map(|it| it.newest));
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
            by_cause.push(Failure {
                cause: row.common,
                turns: unsigned(row.many)?,
                unheard: unsigned(row.unheard)?,
                first_at: row.first_at,
                last_at: row.last_at,
                example: *example,
            });
        }
        Ok(Failures { by_cause, turns: unsigned(turns)?, unheard: unsigned(unheard)? })
    }
}
