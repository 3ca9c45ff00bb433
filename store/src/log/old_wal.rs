//! Recognizes a SQLite file that was restored from a backup beside the write-ahead log of the file before it.
//!
//! SQLite would write the pages of the old log over the restored file, and damage it.
//!
//! ## Why this can be seen
//!
//! Only a checkpoint writes to the file. It copies the newest version of each page in the log, in the order of their numbers, but leaves
//! out the pages that were written again after the oldest reader began. So if the file was written after its log, it holds a page that
//! one of these checkpoints copies first. A copied backup has another one in its place.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{self, BufReader, Read, Seek as _, SeekFrom},
    path::Path,
};

use super::sqlite_file::beside;
use crate::{Error, Store};

const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;

/// First word of a log whose checksums are little-endian; the next number means big-endian.
const MAGIC: u32 = 0x377f_0682;

impl Store {
    /// Refuses a SQLite file that does not belong to the write-ahead log beside it. No process may have the file open.
    ///
    /// # Errors
    ///
    /// [`Error::Address`], with what to do. A log that cannot be read is left to SQLite.
    pub fn check_write_ahead_log(file: &Path) -> Result<(), Error> {
        let wal = beside(file, "-wal");
        if is_foreign(file, &wal).unwrap_or(false) {
            let (file, wal, shm) = (file.display(), wal.display(), beside(file, "-shm"));
            return Err(Error::Address(format!(
                "{file} was restored or changed after the write-ahead log beside it, which belongs to the file before; \
                 nothing was changed; hint: to use the restored file, delete {wal} and {} and start again",
                shm.display()
            )));
        }
        Ok(())
    }
}

fn is_foreign(file: &Path, wal: &Path) -> io::Result<bool> {
    if std::fs::metadata(file)?.modified()? <= std::fs::metadata(wal)?.modified()? {
        return Ok(false);
    }
    let Some(log) = Log::read(BufReader::new(File::open(wal)?))? else { return Ok(false) };
    let mut file = File::open(file)?;
    let copied_first = log.copied_first();
    for (number, version) in &copied_first {
        let mut page = vec![0; log.page_size];
        file.seek(SeekFrom::Start(u64::from(number - 1) * log.page_size as u64))?;
        // A page beyond the end of the file is missing.
        if file.read_exact(&mut page).is_ok() && *version == hash(&page) {
            return Ok(false);
        }
    }
    Ok(!copied_first.is_empty())
}

/// The committed part of a write-ahead log.
struct Log {
    page_size: usize,
    /// Number of commits.
    commits: usize,
    /// Versions of each page, each with the number of its commit and the hash of the page.
    pages: BTreeMap<u32, Vec<(usize, u64)>>,
}

impl Log {
    /// Reads the committed frames; `None` if the log is empty or not one.
    fn read(mut wal: impl Read) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER];
        if wal.read_exact(&mut header).is_err() || word(&header, 0) & !1 != MAGIC {
            return Ok(None);
        }
        let is_big_endian = word(&header, 0) & 1 == 1;
        let page_size = word(&header, 8) as usize;
        let mut sum = Checksum { is_big_endian, sums: (0, 0) };
        sum.add(&header[..24]);
        if !sum.is(&header[24..]) || !(512..=65_536).contains(&page_size) {
            return Ok(None);
        }
        let mut log = Self { page_size, commits: 0, pages: BTreeMap::new() };
        let mut frame = vec![0; FRAME_HEADER + page_size];
        let mut written: BTreeMap<u32, u64> = BTreeMap::new();
        while wal.read_exact(&mut frame).is_ok() {
            sum.add(&frame[..8]);
            sum.add(&frame[FRAME_HEADER..]);
            if frame[8..16] != header[16..24] || !sum.is(&frame[16..24]) {
                break;
            }
            let number = word(&frame, 0);
            if number != 0 {
                written.insert(number, hash(&frame[FRAME_HEADER..]));
            }
            let is_commit = word(&frame, 4) != 0;
            if is_commit {
                log.commits += 1;
                for (number, version) in std::mem::take(&mut written) {
                    log.pages.entry(number).or_default().push((log.commits, version));
                }
            }
        }
        Ok(Some(log))
    }

    /// Returns each page and version that a checkpoint may have copied first: one that stops after commit `end` and begins at any time
    /// since then. A page with a lower number is left out if it was written again in between.
    fn copied_first(&self) -> BTreeSet<(u32, u64)> {
        let mut found = BTreeSet::new();
        for end in 1..=self.commits {
            let mut others_until = end;
            for (number, versions) in &self.pages {
                let after = versions.partition_point(|(commit, _)| *commit <= end);
                let Some((_, version)) = after.checked_sub(1).and_then(|at| versions.get(at)) else {
                    continue;
                };
                let until = versions.get(after).map_or(usize::MAX, |(commit, _)| *commit);
                if others_until < until {
                    found.insert((*number, *version));
                    others_until = until;
                }
                if until == usize::MAX {
                    break;
                }
            }
        }
        found
    }
}

/// Checksum of a write-ahead log, over pairs of words.
struct Checksum {
    is_big_endian: bool,
    sums: (u32, u32),
}

impl Checksum {
    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks_exact(8) {
            let read = |at| if self.is_big_endian { word(pair, at) } else { word(pair, at).swap_bytes() };
            self.sums.0 = self.sums.0.wrapping_add(read(0)).wrapping_add(self.sums.1);
            self.sums.1 = self.sums.1.wrapping_add(read(4)).wrapping_add(self.sums.0);
        }
    }

    fn is(&self, stored: &[u8]) -> bool {
        (word(stored, 0), word(stored, 4)) == self.sums
    }
}

/// Reads a big-endian word.
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}

fn hash(page: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    page.hash(&mut hasher);
    hasher.finish()
}
