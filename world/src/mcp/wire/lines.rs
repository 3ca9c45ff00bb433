//! Splits bytes into lines of a bounded length.

/// Maximum bytes of a message.
pub(in crate::mcp) const MAX_LINE_BYTES: usize = 16 << 20;

/// Bytes kept of the start of a longer line.
pub(in crate::mcp) const HEAD_BYTES: usize = 4 << 10;

/// A line without its end.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::mcp) enum Line {
    /// A complete line.
    Whole(Vec<u8>),
    /// The start of a line that exceeds the maximum.
    TooLong(Vec<u8>),
}

/// The line being read.
pub(in crate::mcp) struct LineBuffer {
    bytes: Vec<u8>,
    max: usize,
    is_skipping: bool,
}

impl LineBuffer {
    /// Creates a buffer for lines of at most `max` bytes.
    pub(in crate::mcp) fn new(max: usize) -> Self {
        Self { bytes: Vec::new(), max, is_skipping: false }
    }

    /// Takes bytes from `chunk` up to the end of a line, and returns the line; `None` if the chunk ends first. A line
    /// that exceeds the maximum is returned at that moment, because it may never end, and its rest is skipped.
    pub(in crate::mcp) fn next(&mut self, chunk: &mut &[u8]) -> Option<Line> {
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let (taken, rest) = chunk.split_at(end.unwrap_or(chunk.len()));
        *chunk = rest.get(1..).unwrap_or_default();
        let is_end = end.is_some();
        if self.is_skipping {
            self.is_skipping = !is_end;
            return None;
        }
        self.bytes.extend_from_slice(taken);
        if self.max < self.bytes.len() {
            self.is_skipping = !is_end;
            let mut head = std::mem::take(&mut self.bytes);
            head.truncate(HEAD_BYTES);
            head.shrink_to_fit();
            return Some(Line::TooLong(head));
        }
        is_end.then(|| self.take())
    }

    /// Returns true while the rest of a line is skipped.
    pub(in crate::mcp) fn is_skipping(&self) -> bool {
        self.is_skipping
    }

    fn take(&mut self) -> Line {
        let mut bytes = std::mem::take(&mut self.bytes);
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        Line::Whole(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(max: usize, chunks: &[&[u8]]) -> Vec<Line> {
        let (mut buffer, mut lines) = (LineBuffer::new(max), Vec::new());
        for mut chunk in chunks.iter().copied() {
            while !chunk.is_empty() {
                lines.extend(buffer.next(&mut chunk));
                assert!(buffer.bytes.len() <= max, "{}", buffer.bytes.len());
            }
        }
        lines
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.as_bytes().to_vec())
    }

    #[test]
    fn lines_are_put_together_from_chunks() {
        let read = lines(10, &[b"a", b"b\ncd\r\n\n", b"rest"]);
        assert_eq!(read, [whole("ab"), whole("cd"), whole("")]);
    }

    #[test]
    fn a_longer_line_is_returned_before_it_ends_and_the_next_is_whole() {
        let long = [b"{\"id\":7,".as_slice(), &vec![b'x'; 20_000]].concat();
        let mut chunks: Vec<&[u8]> = long.chunks(1_000).collect();
        let [Line::TooLong(head)] = &lines(5_000, &chunks)[..] else { panic!("one line") };
        assert!(head.starts_with(b"{\"id\":7,") && head.len() == HEAD_BYTES);
        chunks.push(b"\nnext\n");
        assert_eq!(lines(5_000, &chunks)[1..], [whole("next")]);
        assert_eq!(lines(3, &[b"long\nok\n"]), [Line::TooLong(b"long".to_vec()), whole("ok")]);
    }
}
