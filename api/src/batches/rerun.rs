//! Lines of an ended batch that can be run again, and the errors if there are none.

use api_types::{Rerun, Resumable};
use store::batches::{Batch, ItemState};

use super::lookup::not_now;
use crate::server::{problem::ApiError, state::AppState};

/// Returns the number of lines that a resume request would run again.
pub(super) async fn resumable(app: &AppState, batch: &Batch) -> Result<Resumable, ApiError> {
    let [failed, expired, partial, declined] = RERUNS.map(|rerun| batch.counts.of(state(rerun)));
    let any = failed + expired + partial + declined > 0;
    let is_over = !batch.status.is_open() && batch.at.in_progress.is_some() && any;
    if is_over && app.parts.store.file(batch.input_file).await?.is_some() {
        return Ok(Resumable { failed, expired, partial, declined });
    }
    Ok(Resumable::default())
}

/// Everything that can be run again.
const RERUNS: [Rerun; 4] = [Rerun::Failed, Rerun::Expired, Rerun::Partial, Rerun::Declined];

/// Returns the state of the lines to run again.
pub(super) fn state(only: Rerun) -> ItemState {
    match only {
        Rerun::Failed => ItemState::Failed,
        Rerun::Expired => ItemState::Expired,
        Rerun::Partial => ItemState::Partial,
        Rerun::Declined => ItemState::Declined,
    }
}

/// Returns the lines to run again that are in this state.
pub(super) fn rerun_of(in_state: ItemState) -> Option<Rerun> {
    RERUNS.into_iter().find(|rerun| state(*rerun) == in_state)
}

/// Returns the reason that no line is run again.
fn none(only: Rerun) -> &'static str {
    match only {
        Rerun::Failed => "none of its lines failed while running",
        Rerun::Expired => "none of its lines expired",
        Rerun::Partial => "none of its lines ended with the outcome partial",
        Rerun::Declined => "none of its lines ended with the outcome declined",
    }
}

/// Hint if there may be invalid or cancelled lines.
const NEW_BATCH: &str = "correct invalid lines and send them with the cancelled lines in a new batch";

/// Creates the error for a resume request that matches no line.
pub(super) fn no_line(batch: &Batch, only: Rerun, has_cause: bool, has_file: bool) -> ApiError {
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
        _ if has_cause => (
            "none of these lines has this cause".to_owned(),
            "send the `message` of one of the batch's `top_causes`",
        ),
        Rerun::Failed | Rerun::Expired | Rerun::Partial | Rerun::Declined => {
            let other = RERUNS.into_iter().find(|rerun| batch.counts.of(state(*rerun)) > 0);
            let hint = match other {
                Some(Rerun::Failed) => "to run the failed lines, send `{\"only\": \"failed\"}`",
                Some(Rerun::Expired) => "to run the expired lines, send `{\"only\": \"expired\"}`",
                Some(Rerun::Partial) => "to run the partial lines, send `{\"only\": \"partial\"}`",
                Some(Rerun::Declined) => "to run the declined lines, send `{\"only\": \"declined\"}`",
                None => NEW_BATCH,
            };
            (none(only).to_owned(), hint)
        }
    };
    not_now(batch, &detail).hint(hint)
}
