//! Validation of files: lines become items, one chunk at a time. Items of earlier chunks run while later chunks are
//! validated.

use store::{
    Error,
    batches::{Batch, BatchStatus, Chunk, ItemState, Line, LinePlace},
};

use super::{BatchCoordinator, Progress};
use crate::{
    batches::line::{LineReader, ParsedLine, line_error},
    server::problem::ApiError,
};

/// Number of lines after which a file without any valid line is abandoned. It is probably not a batch file, and every
/// invalid line is stored.
const INVALID_LINES_MAX: u64 = 100_000;

impl BatchCoordinator {
    /// Validates the lines of the next chunk. After the last chunk, decides whether the batch continues or fails.
    pub(super) async fn validate(&self, batch: &Batch) -> Result<Progress, ApiError> {
        let store = &self.app.parts.store;
        let has_valid = batch.counts.of(ItemState::Invalid) < batch.total;
        let parser = match LineReader::new(&self.app, batch.into()) {
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
        let (lines, last) = read(&parser, from, &chunk, self.app.bulk.line_max);
        match store.add_lines(batch, &self.name, lines, last).await {
            // The batch was cancelled or taken over by another process. The next step finds out.
            Ok(()) | Err(Error::BatchLost(_)) => Ok(Progress::Partial),
            Err(error) => Err(error.into()),
        }
    }
}

/// Position in a file: the next chunk, and the number of lines before it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::batches) struct FilePosition {
    pub(in crate::batches) chunk: u32,
    pub(in crate::batches) line: u64,
}

/// Parses the lines that start in a chunk. Returns them and the number of the last line.
pub(in crate::batches) fn read(
    parser: &LineReader<'_>,
    from: FilePosition,
    chunk: &Chunk,
    line_max: usize,
) -> (Vec<Line>, u64) {
    let mut nth = from.line;
    // The chunk continues a line that is too long, and contains nothing else.
    if !chunk.starts_line {
        return (Vec::new(), nth);
    }
    let (mut lines, mut start) = (Vec::new(), 0);
    for raw in chunk.data.split_inclusive(|byte| *byte == b'\n') {
        nth += 1;
        let at = start;
        start += raw.len();
        let line = raw.trim_ascii_end();
        if line.is_empty() && chunk.ends_line {
            continue;
        }
        if !chunk.ends_line || line_max < line.len() {
            let message = format!("the line is longer than {} KiB", line_max / 1024);
            let (custom_id, place) = (None, LinePlace { chunk: from.chunk, ..LinePlace::default() });
            lines.push(Line { nth, custom_id, place, checked: Err(line_error("line_too_long", message)) });
            continue;
        }
        let ParsedLine { custom_id, turn } = parser.read(line);
        let checked = turn.and_then(|turn| parser.named(&turn));
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let place = LinePlace { chunk: from.chunk, start: number(at), length: number(line.len()) };
        lines.push(Line { nth, custom_id, place, checked });
    }
    (lines, nth)
}
