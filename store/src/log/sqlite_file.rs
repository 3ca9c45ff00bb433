//! The file of a SQLite database: whether it is still the one that was opened.
//!
//! ## Why
//!
//! A process keeps writing to a file that was deleted or replaced: its writes succeed, and are gone when it ends.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

/// Device and number of a file, which stay the same when its content changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let found = std::fs::metadata(path)?;
        Ok(Self { device: found.dev(), inode: found.ino() })
    }
}

impl std::fmt::Display for FileId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}-{:x}", self.device, self.inode)
    }
}

/// The file that the connections have open. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct SqliteFile(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    id: FileId,
    /// True once the write-ahead log was seen to be missing although a connection writes to it.
    lost_log: AtomicBool,
}

impl SqliteFile {
    /// The file at a path, which was just opened.
    pub(crate) fn opened(path: &Path) -> io::Result<Self> {
        let id = FileId::of(path)?;
        Ok(Self(Arc::new(Opened { path: path.to_owned(), id, lost_log: AtomicBool::new(false) })))
    }

    pub(crate) fn id(&self) -> FileId {
        self.0.id
    }

    /// Fails with a message if the path does not lead to the opened file any more, or its write-ahead log is lost.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Opened { path, id, lost_log } = &*self.0;
        let what = match FileId::of(path) {
            Ok(found) if found == *id && !lost_log.load(Ordering::Relaxed) => return Ok(()),
            Ok(found) if found == *id => "lost its -wal or -shm file",
            Ok(_) => "was replaced by another file",
            Err(error) if error.kind() == io::ErrorKind::NotFound => "was deleted or moved",
            Err(_) => "cannot be found any more",
        };
        Err(format!(
            "the SQLite file {} {what} while this process has it open, so nothing is written any more; hint: reading still \
             works, so export what you need, then stop the process, put the file back and start again",
            path.display()
        ))
    }

    /// Looks for the files beside the database, just after a connection has written. They exist while one is open.
    pub(crate) fn check_log(&self) -> Result<(), String> {
        let Opened { path, lost_log, .. } = &*self.0;
        let is_gone = |suffix: &str| {
            let found = std::fs::metadata(beside(path, suffix));
            found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        if is_gone("-wal") || is_gone("-shm") {
            lost_log.store(true, Ordering::Relaxed);
        }
        self.check()
    }
}

/// Path of a file beside the database, such as its write-ahead log (`-wal`).
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
