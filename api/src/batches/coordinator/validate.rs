//! Validation of files: lines become items, one chunk at a time. Items of earlier chunks run while later chunks are
//! validated.

use store::{
    Error,
    batches::{Batch, BatchStatus, ItemState},
};

use super::{BatchCoordinator, BatchStep};
use crate::{
    batches::{
        line::LineReader,
        lines::{FilePosition, read},
    },
    server::problem::ApiError,
};

/// Number of lines after which a file without any valid line is abandoned. It is probably not a batch file, and every
/// invalid line is stored.
const INVALID_LINES_MAX: u64 = 100_000;

impl BatchCoordinator {
    /// Validates the lines of the next chunk. After the last chunk, decides whether the batch continues or fails.
    pub(super) async fn validate(&self, batch: &Batch) -> Result<BatchStep, ApiError> {
        let store = &self.app.backends.store;
        let has_valid = batch.counts.of(ItemState::Invalid) < batch.total;
        let parser = match LineReader::of_batch(&self.app, batch) {
            Ok(parser) => parser,
            // A batch that a newer build started is left to it.
            Err(unknown) if has_valid => return Err(unknown),
            Err(unknown) => return self.advance(batch, BatchStatus::Failed, Some(unknown.detail())).await,
        };
        if !has_valid && INVALID_LINES_MAX <= batch.total {
            let fault = format!("none of the first {} lines can be run", batch.total);
            return self.advance(batch, BatchStatus::Failed, Some(&fault)).await;
        }
        let Some(chunk) = store.chunk(batch.input_file, batch.validated).await? else {
            if has_valid {
                return self.advance(batch, BatchStatus::InProgress, None).await;
            }
            let fault = match batch.total {
                0 => "the input file has no lines",
                1.. => "no line of the input file can be run",
            };
            return self.advance(batch, BatchStatus::Failed, Some(fault)).await;
        };
        let from = FilePosition { chunk: batch.validated, line: batch.lines };
        let (lines, last) = read(&parser, from, &chunk, self.app.batches.line_max);
        match store.add_lines(batch, &self.name, lines, last).await {
            // The batch was cancelled or taken over by another process. The next step finds out.
            Ok(()) | Err(Error::BatchLost(_)) => Ok(BatchStep::Partial),
            Err(error) => Err(error.into()),
        }
    }
}
