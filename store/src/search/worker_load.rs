//! The load of the workers, as they report it.

use std::sync::atomic::Ordering;

use sea_orm::FromQueryResult;

use super::load::SECOND;
use crate::{Error, Store, log::statement};

#[derive(FromQueryResult)]
struct Steps {
    steps: f64,
}

impl Store {
    /// Reads how many steps the workers make, as they last reported it.
    pub(super) async fn measure_workers(&self, now: i64) -> Result<(), Error> {
        let pool = &self.database.pool;
        let sql = "SELECT CAST(coalesce(sum(steps_per_second), 0) AS DOUBLE PRECISION) AS steps FROM workers WHERE seen_at > $1";
        let row = Steps::find_by_statement(statement(pool, sql, [(now - 30 * SECOND).into()])).one(pool);
        let steps = row.await?.map_or(0.0, |row| row.steps.max(0.0));
        self.search.load.workers.store((steps * 1_000.0) as u64, Ordering::Relaxed);
        Ok(())
    }
}
