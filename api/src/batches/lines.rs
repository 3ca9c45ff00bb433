//! Lines of a file: cut from its chunks, and the names that earlier lines have.

use std::collections::{HashMap, hash_map::Entry};

use sha2::{Digest as _, Sha256};
use store::batches::{Chunk, Line, LinePlace, duplicate_custom_id};

use super::{
    envelope::{LineError, line_error},
    line::LineReader,
};

/// Position in a file: the next chunk, and the number of lines before it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FilePosition {
    pub(super) chunk: u32,
    pub(super) line: u64,
}

/// A line that is not empty.
pub(super) struct RawLine<'a> {
    /// Number in the file, from 1.
    pub(super) nth: u64,
    pub(super) place: LinePlace,
    /// Content, or the error of a line that is too long.
    pub(super) text: Result<&'a [u8], LineError>,
}

/// Cuts the lines that start in a chunk. Returns them and the number of the last line.
pub(super) fn split(from: FilePosition, chunk: &Chunk, line_max: usize) -> (Vec<RawLine<'_>>, u64) {
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
            let message = format!("the line is longer than {line_max} bytes (batch.line_kib)");
            let place = LinePlace { chunk: from.chunk, ..LinePlace::default() };
            lines.push(RawLine { nth, place, text: Err(line_error("line_too_long", message)) });
            continue;
        }
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let place = LinePlace { chunk: from.chunk, start: number(at), length: number(line.len()) };
        lines.push(RawLine { nth, place, text: Ok(line) });
    }
    (lines, nth)
}

/// Parses the lines that start in a chunk. Returns them and the number of the last line.
pub(super) fn read(
    parser: &LineReader<'_>,
    from: FilePosition,
    chunk: &Chunk,
    line_max: usize,
) -> (Vec<Line>, u64) {
    let (lines, last) = split(from, chunk, line_max);
    let parse = |RawLine { nth, place, text }: RawLine<'_>| {
        let (custom_id, checked) = match text {
            Ok(text) => parser.check(text),
            Err(error) => (None, Err(error)),
        };
        Line { nth, custom_id, place, checked }
    };
    (lines.into_iter().map(parse).collect(), last)
}

/// Names of the lines so far, and the first line with each.
///
/// Only 16 bytes of a hash are kept: among a million names, two collide in one of 10^26 files.
#[derive(Default)]
pub(super) struct Names(HashMap<u128, u64>);

impl Names {
    /// Adds the name of a line.
    ///
    /// # Errors
    ///
    /// If an earlier line has it.
    pub(super) fn add(&mut self, custom_id: Option<&str>, nth: u64) -> Result<(), LineError> {
        let Some(custom_id) = custom_id else { return Ok(()) };
        match self.0.entry(short_hash(custom_id)) {
            Entry::Occupied(first) => Err(duplicate_custom_id(custom_id, *first.get())),
            Entry::Vacant(free) => {
                free.insert(nth);
                Ok(())
            }
        }
    }
}

fn short_hash(name: &str) -> u128 {
    let hash: [u8; 32] = Sha256::digest(name).into();
    hash[..16].iter().fold(0, |sum, byte| (sum << 8) | u128::from(*byte))
}
