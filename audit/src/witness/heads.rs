//! The list of heads: a file of lines, each a leaf of the tree, and the tree's hashes made of them.
//!
//! ## Why no hash is kept
//!
//! The tree is made in one pass over the list, with one hash a level in memory. Hashes that are kept would have to be
//! doubted, and made again for that.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use store::{Head, ThreadId};
use tlog_tiles::{Hash, HashReader, node_hash, record_hash, stored_hash_index};

use super::Error;

/// How long a line is at most: a thread, the largest number and a hash have 122 bytes.
const LINE: u64 = 256;

/// The line of a head, which is the leaf: thread, number of events, hash of the last.
pub(super) fn leaf(head: &Head) -> String {
    format!("{} {} {}", head.thread, head.seq, hex::encode(head.hash))
}

fn read(line: &str) -> Option<Head> {
    let mut words = line.split(' ');
    let thread: ThreadId = words.next()?.parse().ok()?;
    let seq = words.next()?.parse().ok()?;
    let hash = hex::decode(words.next()?).ok()?.try_into().ok()?;
    let head = Head { thread, seq, hash };
    // One head has one line: else two lists would say the same under two roots.
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

    /// Goes along the lines, for as long as it is wanted; says how many there are and where the last one ends. What has
    /// no end is no line.
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

    /// How many lines there are.
    pub(super) fn count(&self) -> Result<u64, Error> {
        Ok(self.each(|_, _| true)?.0)
    }

    /// The first so many heads, with their numbers.
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

    /// The root of the tree over the first so many.
    pub(super) fn root(&self, size: u64) -> Result<Hash, Error> {
        tlog_tiles::tree_hash(size, self).map_err(|error| Error::Damaged(error.to_string()))
    }

    /// Cuts off what follows the first `size` heads, and adds some. They are on the disk when this is done.
    pub(super) fn add(&self, size: u64, heads: &[Head]) -> Result<(), Error> {
        let end = if size == 0 { 0 } else { self.each(|n, _| n + 1 < size)?.1 };
        let write = || {
            let mut file = OpenOptions::new().write(true).open(&self.file)?;
            file.set_len(end)?;
            file.seek(SeekFrom::End(0))?;
            let lines: String = heads.iter().map(|it| leaf(it) + "\n").collect();
            file.write_all(lines.as_bytes())?;
            file.sync_all()
        };
        write().map_err(|error| Error::file("write", &self.file, &error))
    }

    fn damaged(&self, line: u64) -> Error {
        Error::Damaged(format!("line {} of {} is no head of a thread", line + 1, self.file.display()))
    }
}

impl HashReader for Heads {
    /// The hashes of those parts of the tree, in one pass that keeps one hash a level besides.
    fn read_hashes(&self, indexes: &[u64]) -> Result<Vec<Hash>, tlog_tiles::Error> {
        let mut wanted: BTreeMap<u64, Option<Hash>> = indexes.iter().map(|it| (*it, None)).collect();
        let (mut left, mut open) = (wanted.len(), wanted.len());
        let mut stack: Vec<Hash> = Vec::new();
        let pass = self.each(|n, line| {
            let (mut hash, mut level, mut nth) = (record_hash(line.as_bytes()), 0, n);
            loop {
                if let Some(place @ None) = wanted.get_mut(&stored_hash_index(level, nth)) {
                    *place = Some(hash);
                    left -= 1;
                }
                // A right child: with its sibling it makes the hash above.
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
        Ok(indexes.iter().filter_map(|it| wanted.get(it).copied().flatten()).collect())
    }
}
