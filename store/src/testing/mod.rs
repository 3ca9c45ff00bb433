//! Support for tests: changes to a store that turnfold itself never makes. Compiled only with the feature `testing`, which
//! only dev-dependencies enable.

mod corrupt_read_models;
pub mod schema;
pub mod tamper;

use std::collections::BTreeMap;

use futures::FutureExt as _;
use sea_orm::ConnectionTrait as _;

use crate::{
    Error, Store,
    batches::{BatchId, ItemState},
    log::statement,
    schedules::ScheduleId,
    webhooks::{self, EventType, Happening},
};

pub use corrupt_read_models::corrupt_read_models;

/// Maximum events in one insert statement.
pub const ROWS_MAX: usize = crate::log::ROWS_MAX;

/// Applies all migrations to a database and disconnects from it. It blocks, so that tests can prepare a template with it.
///
/// # Panics
///
/// If the database cannot be migrated.
pub fn migrate(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { Store::connect(url).await?.migrate().await.map(drop) }).expect("migrated");
}

/// Writes one webhook event to the outbox, as the transaction that ends a batch does.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn announce(
    store: &Store,
    tenant: &'static str,
    what: EventType,
    data: serde_json::Value,
) -> Result<(), Error> {
    let happening =
        move || Happening { tenant: Some(tenant), event: what, strategy: None, metadata: None, data };
    store.database.transact(move |tx| webhooks::announce(tx, happening()).boxed()).await
}

/// Forgets the last firing of a schedule and makes that of `at` due again, as if its process had been killed between the
/// submission and the record of it.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn forget_firing(store: &Store, id: ScheduleId, at: i64) -> Result<(), Error> {
    let sql = "UPDATE schedules SET next_at = $2, due_at = $2, last_at = NULL, last_id = NULL WHERE id = $1";
    let writer = &store.database.writer;
    writer.execute_raw(statement(writer, sql, [id.into(), at.into()])).await?;
    Ok(())
}

/// Counts the items of a batch by state, from the item rows rather than from the counters in the batch's row.
///
/// # Errors
///
/// [`Error::Unavailable`] if the database does not answer.
pub async fn count_items(store: &Store, batch: BatchId) -> Result<BTreeMap<ItemState, u64>, Error> {
    let sql = "SELECT state AS name, COUNT(*) AS count FROM batch_items WHERE batch_id = $1 GROUP BY state";
    let counted = |(state, count): (String, u64)| {
        let state = state.parse().map_err(|error| Error::Database(format!("item state: {error}")))?;
        Ok((state, count))
    };
    store.counted(sql, batch).await?.into_iter().map(counted).collect()
}
