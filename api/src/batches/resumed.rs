//! What of a batch that is over can be run again, and what is said where nothing can.

use serde::Serialize;
use store::bulk::{Batch, ItemState};
use utoipa::ToSchema;

use super::{routes::not_now, wire::Only};
use crate::{house::House, problem::Problem};

/// How many lines of a batch are run again if it is resumed: none while it is not over, was called off before its last line
/// was looked at, or has lost its file.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Resumable {
    /// With `{"only": "failed"}`.
    failed: u64,
    /// With `{"only": "expired"}`.
    expired: u64,
}

impl Resumable {
    pub(super) async fn of(house: &House, batch: &Batch) -> Result<Self, Problem> {
        let [failed, expired] = [ItemState::Failed, ItemState::Expired].map(|it| batch.counts.of(it));
        let is_over = !batch.status.is_open() && batch.at.in_progress.is_some() && failed + expired > 0;
        if is_over && house.parts.store.file(batch.input_file).await?.is_some() {
            return Ok(Self { failed, expired });
        }
        Ok(Self::default())
    }
}

const NONE_FAILED: &str = "none of its lines failed while it ran";
const NONE_EXPIRED: &str = "none of its lines expired";

/// What to do about lines that are bad or were called off, if there are any.
const ANEW: &str = "send its bad lines, mended, and those that were called off, in another batch";

/// Why no line of a batch is run again.
pub(super) fn no_line(batch: &Batch, only: Only, has_file: bool) -> Problem {
    let (words, mend) = match only {
        _ if batch.status.is_open() => {
            (format!("it is {} and not over", batch.status), "wait for its end, or cancel it first")
        }
        _ if !has_file => (
            "its input file is gone, so no line of it can be run".to_owned(),
            "upload the lines again, and make a batch of that file",
        ),
        _ if batch.at.in_progress.is_none() && batch.at.cancelling.is_some() => (
            "it was called off before its last line was looked at, and would end without the others"
                .to_owned(),
            "make a batch of the same file: what ended well is taken from this one, unless `reuse` is `none`",
        ),
        Only::Failed if batch.counts.of(ItemState::Expired) > 0 => {
            (NONE_FAILED.to_owned(), "`{\"only\": \"expired\"}` runs those lines whose time was over")
        }
        Only::Expired if batch.counts.of(ItemState::Failed) > 0 => {
            (NONE_EXPIRED.to_owned(), "`{\"only\": \"failed\"}` runs those lines that failed")
        }
        Only::Failed => (NONE_FAILED.to_owned(), ANEW),
        Only::Expired => (NONE_EXPIRED.to_owned(), ANEW),
    };
    not_now(batch, words).mend(mend)
}
