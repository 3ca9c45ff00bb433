//! Lines of an ended batch that can be run again, and the errors if there are none.

use api_types::{Rerun, Resumable};
use store::batches::{Batch, ItemState};

use super::lookup::not_now;
use crate::server::{problem::ApiError, state::AppState};

/// Returns the number of lines that a resume request would run again.
pub(super) async fn resumable(app: &AppState, batch: &Batch) -> Result<Resumable, ApiError> {
    let [failed, expired] = [ItemState::Failed, ItemState::Expired].map(|state| batch.counts.of(state));
    let is_over = !batch.status.is_open() && batch.at.in_progress.is_some() && failed + expired > 0;
    if is_over && app.parts.store.file(batch.input_file).await?.is_some() {
        return Ok(Resumable { failed, expired });
    }
    Ok(Resumable::default())
}

const NONE_FAILED: &str = "none of its lines failed while running";
const NONE_EXPIRED: &str = "none of its lines expired";

/// Hint if there may be invalid or cancelled lines.
const NEW_BATCH: &str = "correct invalid lines and send them with the cancelled lines in a new batch";

/// Creates the error for a resume request that matches no line.
pub(super) fn no_line(batch: &Batch, only: Rerun, has_file: bool) -> ApiError {
    let (detail, hint) = match only {
        _ if batch.status.is_open() => (
            format!("it is {} and has not ended", batch.status),
            "wait until it has ended, or cancel it first",
        ),
        _ if !has_file => (
            "its input file was deleted, so its lines cannot be run".to_owned(),
            "upload the lines again and create a batch from that file",
        ),
        _ if batch.at.in_progress.is_none() && batch.at.cancelling.is_some() => (
            "it was cancelled before all lines were validated, so it would end without the others".to_owned(),
            "create a batch from the same file: it reuses successful results unless `reuse` is `none`",
        ),
        Rerun::Failed if batch.counts.of(ItemState::Expired) > 0 => {
            (NONE_FAILED.to_owned(), "to run the expired lines, send `{\"only\": \"expired\"}`")
        }
        Rerun::Expired if batch.counts.of(ItemState::Failed) > 0 => {
            (NONE_EXPIRED.to_owned(), "to run the failed lines, send `{\"only\": \"failed\"}`")
        }
        Rerun::Failed => (NONE_FAILED.to_owned(), NEW_BATCH),
        Rerun::Expired => (NONE_EXPIRED.to_owned(), NEW_BATCH),
    };
    not_now(batch, &detail).hint(hint)
}
