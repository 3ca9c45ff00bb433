//! Failed turns, counted by what they have in common.

use sea_orm::{
    ColumnTrait, EntityTrait, FromQueryResult, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Alias, CaseStatement, Expr, ExprTrait, Func, Order as Direction},
};

use super::{Store, TurnFilter, TurnId, TurnStatus, at_most, matching::in_status, tables::turns, unsigned};
use crate::Error;

/// Failed turns that have a cause in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Their error, without what differs from case to case.
    pub cause: String,
    /// How many there are.
    pub turns: u64,
    /// How many of them no thread ever heard: those cannot be retried.
    pub unheard: u64,
    /// When the first of them failed, in microseconds since the Unix epoch.
    pub first_at: i64,
    /// When the last of them failed, in microseconds since the Unix epoch.
    pub last_at: i64,
    /// The one that was submitted last.
    pub example: TurnId,
}

/// All failed turns that a filter lets through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failures {
    /// By cause, the most frequent first.
    pub by_cause: Vec<Failure>,
    /// How many there are, with those of causes that are left out.
    pub turns: u64,
    /// How many of them no thread ever heard.
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
    /// The failed turns that the filter lets through, by cause, at most `limit` causes.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn failures(&self, filter: TurnFilter<'_>, limit: u64) -> Result<Failures, Error> {
        let db = &self.database.pool;
        let failed =
            || filter.rows(db.get_database_backend()).filter(in_status(TurnStatus::Failed)).select_only();
        let column = |it: turns::Column| Expr::col((turns::Entity, it));
        // What failed before causes were kept stands under its whole error.
        let common: Expr =
            Func::coalesce([column(turns::Column::Cause), column(turns::Column::Error), Expr::val("")])
                .into();
        let count = || column(turns::Column::Position).count();
        let unheard = || {
            let unheard: Expr =
                CaseStatement::new().case(turns::Column::HeardSeq.is_null(), Expr::val(1)).into();
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
            // One that is gone by now, with its thread, has no example to show.
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
