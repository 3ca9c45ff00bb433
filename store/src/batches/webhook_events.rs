//! Webhook events for the end of a batch.

use serde_json::json;

use super::{Batch, BatchStatus, ItemState};
use crate::{
    Error,
    log::Transaction,
    webhooks::{EventType, Happening, announce as tell},
};

/// Writes a delivery of the batch's outcome for every webhook that subscribes to it.
pub(crate) async fn announce(tx: &Transaction, batch: &Batch, to: BatchStatus) -> Result<(), Error> {
    let event = match to {
        BatchStatus::Completed if batch.failed() > 0 => EventType::BatchCompletedWithErrors,
        BatchStatus::Completed => EventType::BatchCompleted,
        BatchStatus::Expired => EventType::BatchExpired,
        BatchStatus::Cancelled => EventType::BatchCancelled,
        BatchStatus::Failed => EventType::BatchFailed,
        BatchStatus::Validating
        | BatchStatus::InProgress
        | BatchStatus::Finalizing
        | BatchStatus::Cancelling => return Ok(()),
    };
    let data = json!({
        "id": format!("batch_{}", batch.id.simple()),
        "tenant": batch.tenant,
        "status": to.as_str(),
        "request_counts": {
            "total": batch.total,
            "completed": batch.counts.good(),
            "partial": batch.counts.of(ItemState::Partial),
            "declined": batch.counts.of(ItemState::Declined),
            "failed": batch.failed(),
        },
        "metadata": batch.metadata,
    });
    let metadata = Some(&batch.metadata);
    tell(tx, Happening { tenant: Some(&batch.tenant), event, strategy: None, metadata, data }).await
}
