//! Due firings, and their outcomes.

use queue::clock;
use sea_orm::{
    ActiveValue::Set, ColumnTrait as _, EntityTrait as _, QueryFilter as _, Value, sea_query::Expr,
};

use super::{
    Schedule,
    table::{self, Column},
};
use crate::{
    Error, Store,
    log::{plain, statement},
};

/// A firing of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Firing {
    /// Time for which it was planned, in microseconds since the Unix epoch.
    pub at: i64,
    /// Id of the turn or batch, or the error.
    pub outcome: Result<String, String>,
}

impl Store {
    /// Returns at most `limit` schedules whose next firing is due. Tenants take turns, and many schedules of one do not
    /// delay those of others.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn due_schedules(&self, limit: u32) -> Result<Vec<Schedule>, Error> {
        const DUE: &str = "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY tenant ORDER BY due_at, id) AS nth \
            FROM schedules WHERE due_at <= $1) AS due ORDER BY nth, due_at LIMIT $2";
        let values: [Value; 2] = [clock::now().into(), i64::from(limit).into()];
        let pool = &self.database.pool;
        let rows = table::Entity::find().from_raw_sql(statement(pool, DUE, values));
        rows.all(pool).await?.into_iter().map(Schedule::try_from).collect()
    }

    /// Records a firing of a schedule and moves it to its next one, unless another process has moved it from `seen`.
    /// Without a firing, missed ones are left out.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn advance_schedule(
        &self,
        seen: &Schedule,
        fired: Option<Firing>,
        next_at: i64,
    ) -> Result<(), Error> {
        let mut row = table::ActiveModel { next_at: Set(next_at), ..Default::default() };
        if let Some(Firing { at, outcome }) = fired {
            row.last_at = Set(Some(at));
            row.last_error = Set(outcome.as_ref().err().map(|error| plain(error)));
            row.last_id = Set(outcome.ok());
        }
        // A schedule that was paused meanwhile stays paused.
        let due_at = Expr::case(Column::DueAt.is_not_null(), next_at).finally(Option::<i64>::None);
        let update = table::Entity::update_many().set(row).col_expr(Column::DueAt, due_at.into());
        let update = update.filter(Column::Id.eq(seen.id)).filter(Column::NextAt.eq(seen.next_at));
        update.exec(&self.database.writer).await?;
        Ok(())
    }

    /// Makes a firing that could not be submitted due again at `due_at`, with the same time and key.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the database does not answer.
    pub async fn retry_schedule(&self, seen: &Schedule, due_at: i64) -> Result<(), Error> {
        let row = table::ActiveModel { due_at: Set(Some(due_at)), ..Default::default() };
        let update = table::Entity::update_many().set(row).filter(Column::Id.eq(seen.id));
        let update = update.filter(Column::NextAt.eq(seen.next_at)).filter(Column::DueAt.is_not_null());
        update.exec(&self.database.writer).await?;
        Ok(())
    }
}
