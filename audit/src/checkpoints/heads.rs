//! The list of heads: a file of lines, each a leaf of a Merkle tree, and the hashes of the tree.
//!
//! ## Why no hashes are stored
//!
//! One pass over the list computes the tree with one hash per level in memory. Stored hashes could not be trusted and
//! would have to be computed again.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use store::{Head, ThreadId};
use tlog_tiles::{Hash, HashReader, node_hash, record_hash, stored_hash_index};

use super::error::Error;

/// Maximum length of a line in bytes. A thread id, the largest number and a hash take 122.
const LINE: u64 = 256;

/// The line of a head, which is the leaf: thread, number of events, hash of the last event.
pub(super) fn leaf(head: &Head) -> String {
    format!("{} {} {}", head.thread, head.seq, hex::encode(head.hash))
}

fn read(line: &str) -> Option<Head> {
    let mut words = line.split(' ');
    let thread: ThreadId = words.next()?.parse().ok()?;
    let seq = words.next()?.parse().ok()?;
    let hash = hex::decode(words.next()?).ok()?.try_into().ok()?;
    let head = Head { thread, seq, hash };
    // Each head has exactly one spelling; otherwise two lists with the same heads would have two roots.
    (leaf(&head) == line).then_some(head)
}

/// A list of heads in a file.
#[derive(Clone, Debug)]
pub(super) struct Heads {
    pub(super) file: PathBuf,
}

impl Heads {
    pub(super) fn at(file: &Path) -> Self {
        Self { file: file.to_owned() }
    }

    /// Calls `what` for each complete line until it returns false. Returns the number of lines and the end of the
    /// last. A line without a line end is ignored.
    pub(super) fn each(&self, mut what: impl FnMut(u64, &str) -> bool) -> Result<(u64, u64), Error> {
        let file = File::open(&self.file).map_err(|error| Error::file("read", &self.file, &error))?;
        let mut file = BufReader::new(file);
        let (mut lines, mut end, mut line) = (0, 0, String::new());
        loop {
            line.clear();
            let read = file.by_ref().take(LINE).read_line(&mut line);
            let read = read.map_err(|error| Error::file("read", &self.file, &error))?;
            let Some(text) = line.strip_suffix('\n') else {
                if (read as u64) < LINE {
                    return Ok((lines, end));
                }
                return Err(self.damaged(lines));
            };
            let go_on = what(lines, text);
            (lines, end) = (lines + 1, end + read as u64);
            if !go_on {
                return Ok((lines, end));
            }
        }
    }

    /// Number of lines in the list.
    pub(super) fn count(&self) -> Result<u64, Error> {
        Ok(self.each(|_, _| true)?.0)
    }

    /// Calls `what` for the first `size` heads, with their numbers.
    pub(super) fn first(&self, size: u64, mut what: impl FnMut(u64, Head)) -> Result<(), Error> {
        let mut bad = None;
        if 0 < size {
            self.each(|n, line| match read(line) {
                Some(head) => {
                    what(n, head);
                    n + 1 < size
                }
                None => {
                    bad = Some(n);
                    false
                }
            })?;
        }
        bad.map_or(Ok(()), |n| Err(self.damaged(n)))
    }

    /// Root of the tree over the first `size` heads.
    pub(super) fn root(&self, size: u64) -> Result<Hash, Error> {
        tlog_tiles::tree_hash(size, self).map_err(|error| Error::Damaged(error.to_string()))
    }

    /// Truncates the list to `size` heads and appends more. Returns once they are on disk.
    pub(super) fn add(&self, size: u64, heads: &[Head]) -> Result<(), Error> {
        let end = if size == 0 { 0 } else { self.each(|n, _| n + 1 < size)?.1 };
        let write = || {
            let mut file = OpenOptions::new().write(true).open(&self.file)?;
            file.set_len(end)?;
            file.seek(SeekFrom::End(0))?;
            let lines: String = heads.iter().map(|head| leaf(head) + "\n").collect();
            file.write_all(lines.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| Error::file("write", &self.file, &error))
    }

    fn damaged(&self, line: u64) -> Error {
        Error::Damaged(format!("line {} of {} is not the head of a thread", line + 1, self.file.display()))
    }
}

impl HashReader for Heads {
    /// Hashes of parts of the tree, in one pass with one more hash per level in memory.
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog_tiles::Error> {
        let mut wanted: BTreeMap<u64, Option<Hash>> = indexes.iter().map(|index| (*index, None)).collect();
        let (mut left, mut open) = (wanted.len(), wanted.len());
        let mut stack: Vec<Hash> = Vec::new();
        let pass = self.each(|n, line| {
            let (mut hash, mut level, mut nth) = (record_hash(line.as_bytes()), 0, n);
            loop {
                if let Some(place @ None) = wanted.get_mut(&stored_hash_index(level, nth)) {
                    *place = Some(hash);
                    left -= 1;
                }
                // A right child: combined with its sibling it gives the hash above.
                let sibling = if nth & 1 == 1 { stack.pop() } else { None };
                let Some(sibling) = sibling else { break };
                (hash, level, nth) = (node_hash(sibling, hash), level + 1, nth >> 1);
            }
            stack.push(hash);
            open = left;
            0 < left
        });
        pass.map_err(|error| tlog_tiles::Error::InvalidInput(error.to_string()))?;
        if 0 < open {
            let words = format!("{} has fewer heads than its checkpoint", self.file.display());
            return Err(tlog_tiles::Error::InvalidInput(words));
        }
        Ok(indexes.iter().filter_map(|index| wanted.get(index).copied().flatten()).collect())
    }
}
