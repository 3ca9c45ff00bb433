//! How a file is cut: chunks that end where a line ends, so that a line can be read without its neighbours.

/// How long a chunk should be, in bytes.
const CHUNK: usize = 256 * 1024;

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Whether it begins where a line begins.
    pub starts_line: bool,
    /// Whether it ends where a line ends.
    pub ends_line: bool,
    /// The bytes.
    pub data: Vec<u8>,
}

/// Cuts a file that comes in pieces of any length.
///
/// A line that is no longer than it may be stands wholly in one chunk. A longer one is cut anywhere, in chunks that hold
/// nothing of other lines: it is kept, so that the file comes back as it was sent, and never held as a whole.
#[derive(Debug)]
pub struct Cutter {
    line_max: usize,
    held: Vec<u8>,
    /// Whether what is held goes on with a line whose beginning was cut off.
    within: bool,
}

impl Cutter {
    /// For lines of so many bytes at most.
    pub fn new(line_max: usize) -> Self {
        Self { line_max, held: Vec::new(), within: false }
    }

    /// Takes the next piece, and gives the chunks that are whole by now.
    pub fn push(&mut self, piece: &[u8]) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        // Of a piece that is very long, no more is held at once than of a short one.
        for piece in piece.chunks(CHUNK) {
            self.held.extend_from_slice(piece);
            while let Some(chunk) = self.cut() {
                chunks.push(chunk);
            }
        }
        chunks
    }

    /// The last chunk, if there is one.
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
    use super::{CHUNK, Chunk, Cutter};

    fn cut(file: &[u8], piece: usize, line_max: usize) -> Vec<Chunk> {
        let mut cutter = Cutter::new(line_max);
        let mut chunks: Vec<Chunk> = file.chunks(piece).flat_map(|it| cutter.push(it)).collect();
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
            let back: Vec<u8> = chunks.iter().flat_map(|it| it.data.clone()).collect();
            assert!(back == file, "{piece}");
            assert!(chunks.iter().all(|it| it.data.len() <= 3 * CHUNK), "{piece}");
            for (chunk, next) in chunks.iter().zip(&chunks[1..]) {
                assert_eq!(chunk.ends_line, next.starts_line, "{piece}");
                assert_eq!(chunk.ends_line, chunk.data.ends_with(b"\n"), "{piece}");
            }
            let pieces = chunks.iter().filter(|it| !it.starts_line || !it.ends_line);
            assert!(pieces.flat_map(|it| &it.data).all(|it| *it == b'z' || *it == b'\n'), "{piece}");
            let whole = chunks.iter().filter(|it| it.starts_line && it.ends_line);
            let lines: usize = whole.map(|it| it.data.split_inclusive(|it| *it == b'\n').count()).sum();
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
