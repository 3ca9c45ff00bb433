//! Rows of batches, as far as a principal may see them.

use store::batches::Batch;

use crate::server::{
    openai_ids::{batch_id, batch_name},
    principal::Principal,
    problem::{ApiError, Kind},
    state::AppState,
};

/// Returns the row of a batch. A batch of another tenant does not exist.
pub(super) async fn find(app: &AppState, principal: &Principal, name: &str) -> Result<Batch, ApiError> {
    let id = batch_id(name).ok_or_else(|| unknown_batch(name))?;
    let batch = app.backends.store.batch(id).await?.filter(|batch| principal.sees(&batch.tenant));
    batch.ok_or_else(|| unknown_batch(name))
}

/// Creates the error for a batch that does not exist.
pub(super) fn unknown_batch(name: &str) -> ApiError {
    Kind::UnknownBatch.because(format!("batch {name:?} does not exist"))
}

/// Creates the error for a request that the status of the batch does not allow.
pub(super) fn not_now(batch: &Batch, detail: &str) -> ApiError {
    Kind::NotNow.because(format!("batch {}: {detail}", batch_name(batch.id)))
}
