//! Lists of batches in the order of a value: last change of the status, failed lines or cost.
//!
//! No index has these values, as for turns: the newest batches are read and sorted.

use sea_orm::{
    ColumnTrait as _, ConnectionTrait as _, DbBackend, EntityTrait as _, QueryFilter as _, QueryOrder as _,
    QuerySelect as _, QueryTrait as _, Value, sea_query::Expr,
};

use super::{
    Batch, BatchId,
    tables::{batches, batches::Column},
};
use crate::{
    Error, Store,
    log::{RANKED_MAX, RankOrder, placed},
};

/// Value by which a list of batches is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRank {
    /// Time of the last change of the status: of a batch that has ended, its end.
    Changed,
    /// Number of lines that failed.
    Failed,
    /// Cost so far, as far as known.
    MicroUsd,
}

impl BatchRank {
    fn of_batch(self, backend: DbBackend) -> Expr {
        Expr::cust(match self {
            BatchRank::Changed => {
                "COALESCE(completed_at, failed_at, expired_at, cancelled_at, cancelling_at, \
                                   finalizing_at, in_progress_at, created_at)"
                    .to_owned()
            }
            BatchRank::Failed => failed(backend),
            BatchRank::MicroUsd => "micro_usd".to_owned(),
        })
    }
}

/// Number of lines that failed, as in [`Batch::failed`].
fn failed(backend: DbBackend) -> String {
    let counts = if backend == DbBackend::Postgres { "CAST(counts AS JSON)" } else { "counts" };
    let of = |state: &str| format!("CAST(COALESCE({counts} ->> '{state}', '0') AS BIGINT)");
    format!(
        "{} + {} + {} + CASE WHEN cancelling_at IS NULL THEN {} ELSE 0 END",
        of("failed"),
        of("invalid"),
        of("expired"),
        of("cancelled")
    )
}

impl Store {
    /// Lists at most `limit` of the newest [`RANKED_MAX`] batches in this order, for one tenant or for all, from the one that follows
    /// `after` on. Returns `None` if `after` does not exist.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn ranked_batches(
        &self,
        tenant: Option<&str>,
        order: RankOrder<BatchRank>,
        after: Option<BatchId>,
        limit: u64,
    ) -> Result<Option<Vec<Batch>>, Error> {
        let db = &self.database.pool;
        let rank = order.rank.of_batch(db.get_database_backend());
        let after = match after {
            Some(id) => {
                let row = batches::Entity::find_by_id(id).select_only().expr_as(rank.clone(), "rank");
                let Some(value) = row.into_tuple::<i64>().one(db).await? else { return Ok(None) };
                Some((value, Value::from(id)))
            }
            None => None,
        };
        let newest = batches::Entity::find()
            .apply_if(tenant, |rows, tenant| rows.filter(Column::Tenant.eq(tenant)))
            .select_only()
            .column(Column::Id)
            .column_as(Column::Id, "place")
            .expr_as(rank, "rank")
            .order_by_desc(Column::Id)
            .limit(RANKED_MAX);
        let ids = self.in_order(newest.into_query(), order.is_ascending, after, limit).await?;
        let rows = batches::Entity::find().filter(Column::Id.is_in(ids.clone())).all(db).await?;
        let rows = rows.into_iter().map(|row| (row.id, row)).collect();
        placed(&ids, rows).map(Batch::try_from).collect::<Result<_, _>>().map(Some)
    }
}
