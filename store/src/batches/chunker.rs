//! Splits a file into chunks that end at line ends, so that each line can be read from one chunk.

/// Target size of a chunk, in bytes.
const CHUNK: usize = 256 * 1024;

/// One stored chunk of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// True if the chunk starts at the beginning of a line.
    pub starts_line: bool,
    /// True if the chunk ends at the end of a line.
    pub ends_line: bool,
    /// Content of the chunk.
    pub data: Vec<u8>,
}

/// Splits a file that arrives in pieces of any length.
///
/// A line of at most `line_max` bytes is always within one chunk. A longer line is split at any byte, into chunks that
/// contain no part of another line. It is stored, so that a download returns the uploaded bytes, but it is never held
/// in memory as a whole.
#[derive(Debug)]
pub struct Chunker {
    line_max: usize,
    held: Vec<u8>,
    /// True if the buffer continues a line whose beginning is already in an earlier chunk.
    within: bool,
}

impl Chunker {
    /// Creates a chunker for lines of at most `line_max` bytes.
    pub fn new(line_max: usize) -> Self {
        Self { line_max, held: Vec::new(), within: false }
    }

    /// Adds the next piece, and returns the chunks that are complete.
    pub fn push(&mut self, piece: &[u8]) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        // A long piece is processed in parts, so that the buffer stays small.
        for piece in piece.chunks(CHUNK) {
            self.held.extend_from_slice(piece);
            while let Some(chunk) = self.cut() {
                chunks.push(chunk);
            }
        }
        chunks
    }

    /// Returns the last chunk, if any bytes are left.
    pub fn finish(self) -> Option<Chunk> {
        let Self { held, within, .. } = self;
        (!held.is_empty()).then_some(Chunk { starts_line: !within, ends_line: true, data: held })
    }

    fn cut(&mut self) -> Option<Chunk> {
        let is_end = |byte: &u8| *byte == b'\n';
        if self.within {
            if let Some(end) = self.held.iter().position(is_end) {
                self.within = false;
                return Some(self.take(end + 1, false, true));
            }
            return (CHUNK <= self.held.len()).then(|| self.take(self.held.len(), false, false));
        }
        if self.held.len() < CHUNK {
            return None;
        }
        if let Some(end) = self.held.iter().rposition(is_end) {
            return Some(self.take(end + 1, true, true));
        }
        if self.held.len() <= self.line_max {
            return None;
        }
        self.within = true;
        Some(self.take(self.held.len(), true, false))
    }

    fn take(&mut self, length: usize, starts_line: bool, ends_line: bool) -> Chunk {
        let rest = self.held.split_off(length);
        Chunk { starts_line, ends_line, data: std::mem::replace(&mut self.held, rest) }
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Chunk, Chunker};

    fn cut(file: &[u8], piece: usize, line_max: usize) -> Vec<Chunk> {
        let mut cutter = Chunker::new(line_max);
        let mut chunks: Vec<Chunk> = file.chunks(piece).flat_map(|part| cutter.push(part)).collect();
        chunks.extend(cutter.finish());
        chunks
    }

    #[test]
    fn lines_stand_wholly_in_one_chunk_and_the_file_comes_back() {
        let long = [b"y".repeat(CHUNK + CHUNK / 2), b"\n".to_vec()].concat();
        let huge = [b"z".repeat(9 * CHUNK), b"\n".to_vec()].concat();
        let short = b"a line\n".repeat(100_000);
        let file = [&short[..], &long, &short, &huge, &short, b"no end"].concat();
        for piece in [1000, 8192, CHUNK, 5 * CHUNK, file.len()] {
            let chunks = cut(&file, piece, 2 * CHUNK);
            let back: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.data.clone()).collect();
            assert!(back == file, "{piece}");
            assert!(chunks.iter().all(|chunk| chunk.data.len() <= 3 * CHUNK), "{piece}");
            for (chunk, next) in chunks.iter().zip(&chunks[1..]) {
                assert_eq!(chunk.ends_line, next.starts_line, "{piece}");
                assert_eq!(chunk.ends_line, chunk.data.ends_with(b"\n"), "{piece}");
            }
            let pieces = chunks.iter().filter(|it| !it.starts_line || !it.ends_line);
            assert!(
                pieces.flat_map(|piece| &piece.data).all(|byte| *byte == b'z' || *byte == b'\n'),
                "{piece}"
            );
            let whole = chunks.iter().filter(|it| it.starts_line && it.ends_line);
            let lines: usize =
                whole.map(|chunk| chunk.data.split_inclusive(|byte| *byte == b'\n').count()).sum();
            assert_eq!(lines, 300_000 + 2, "{piece}");
        }
    }

    #[test]
    fn an_empty_file_has_no_chunk_and_one_without_an_end_has_one() {
        assert_eq!(cut(b"", 1, 10), []);
        let last = Chunk { starts_line: true, ends_line: true, data: b"x".to_vec() };
        assert_eq!(cut(b"x", 1, 10), [last]);
    }
}
