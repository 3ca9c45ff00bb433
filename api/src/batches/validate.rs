//! How a file becomes items: a chunk at a time, and those of a chunk are run while the next ones are looked at.

use store::{
    Error,
    bulk::{Batch, BatchStatus, Chunk, ItemState, Line, LinePlace},
};

use super::{
    keeper::{Done, Keeper},
    line::{Judge, Read, wrong},
};
use crate::problem::Problem;

/// After how many lines a file of which none can be run is read no further: it is something else, and each of its lines would
/// be written down.
const HOPELESS: u64 = 100_000;

impl Keeper {
    /// Makes items of the lines of the next chunk; after the last, says whether any could be run.
    pub(super) async fn validate(&self, batch: &Batch) -> Result<Done, Problem> {
        let store = &self.house.parts.store;
        let has_good = batch.counts.of(ItemState::Bad) < batch.total;
        let judge = match Judge::new(&self.house, batch.into()) {
            Ok(judge) => judge,
            // What a newer build has begun is left to it.
            Err(unknown) if has_good => return Err(unknown),
            Err(unknown) => return self.advance(batch, BatchStatus::Failed, Some(unknown.detail())).await,
        };
        if !has_good && HOPELESS <= batch.total {
            let words = format!("none of its first {} lines can be run", batch.total);
            return self.advance(batch, BatchStatus::Failed, Some(&words)).await;
        }
        let Some(chunk) = store.chunk(batch.input_file, batch.validated).await? else {
            if has_good {
                return self.advance(batch, BatchStatus::InProgress, None).await;
            }
            let words = match batch.total {
                0 => "the input file has no lines",
                1.. => "no line of the input file can be run",
            };
            return self.advance(batch, BatchStatus::Failed, Some(words)).await;
        };
        let from = Place { chunk: batch.validated, line: batch.lines };
        let (lines, last) = read(&judge, from, &chunk, self.house.bulk.line_max);
        match store.take_lines(batch, &self.name, lines, last).await {
            // It was called off, or another api looks after it: the next look shows which.
            Ok(()) | Err(Error::BatchLost(_)) => Ok(Done::Part),
            Err(error) => Err(error.into()),
        }
    }
}

/// How far a file was read: the next chunk, and how many lines stand before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    pub(super) chunk: u32,
    pub(super) line: u64,
}

/// The lines that begin in a chunk, and the number of the last.
pub(super) fn read(judge: &Judge<'_>, from: Place, chunk: &Chunk, line_max: usize) -> (Vec<Line>, u64) {
    let mut nth = from.line;
    // It goes on with a line that is bad for its length, and holds nothing else.
    if !chunk.starts_line {
        return (Vec::new(), nth);
    }
    let (mut lines, mut start) = (Vec::new(), 0);
    for raw in chunk.data.split_inclusive(|it| *it == b'\n') {
        nth += 1;
        let at = start;
        start += raw.len();
        let line = raw.trim_ascii_end();
        if line.is_empty() && chunk.ends_line {
            continue;
        }
        if !chunk.ends_line || line_max < line.len() {
            let words = format!("the line is longer than {} KiB", line_max / 1024);
            let (custom_id, place) = (None, LinePlace { chunk: from.chunk, ..LinePlace::default() });
            lines.push(Line { nth, custom_id, place, checked: Err(wrong("line_too_long", words)) });
            continue;
        }
        let Read { custom_id, asks } = judge.read(line);
        let checked = asks.and_then(|it| judge.named(&it));
        let number = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        let place = LinePlace { chunk: from.chunk, start: number(at), length: number(line.len()) };
        lines.push(Line { nth, custom_id, place, checked });
    }
    (lines, nth)
}
