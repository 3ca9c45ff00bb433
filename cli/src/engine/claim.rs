//! One engine at a SQLite file. A queue in this process knows nothing of the one in another: whoever has such a queue takes
//! the threads that the other runs for forgotten ones, asks models again and puts writes in doubt.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use secrecy::ExposeSecret as _;
use store::Store;

use crate::{
    config::Settings,
    exit::{Exit, Stop},
};

/// A SQLite file that no other engine works on while this is held. It is the kernel that holds the lock: it goes with the
/// process, however that ends.
pub(crate) struct Claim {
    _locked: File,
}

impl Claim {
    /// Claims the database that is there, if that is a file and the queue is in this process; whoever comes second is told
    /// `mend`.
    pub(crate) fn of(settings: &Settings, mend: &str) -> anyhow::Result<Option<Self>> {
        if settings.queue.url.resolve()?.expose_secret() != "memory:" {
            return Ok(None);
        }
        let Some(file) = Store::sqlite_file(settings.store.url.resolve()?.expose_secret()) else {
            return Ok(None);
        };
        // Who calls it otherwise means the same file.
        let file = fs::canonicalize(&file).unwrap_or(file);
        let lock = beside(&file);
        let unlocked = |err: &io::Error| {
            let (file, lock) = (file.display(), lock.display());
            let words = format!(
                "cannot lock {lock}, by which no two engines work on {file}: {err}; make it writable, or name another \
                 file with --set store.url=sqlite:FILE"
            );
            Stop::because(Exit::Unreachable, words)
        };
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
        let locked = opened.map_err(|err| unlocked(&err))?;
        match locked.try_lock() {
            Ok(()) => Ok(Some(Self { _locked: locked })),
            Err(TryLockError::WouldBlock) => {
                let words = format!("another turnfold works on this file ({}): {mend}", file.display());
                Err(Stop::because(Exit::Unreachable, words))
            }
            Err(TryLockError::Error(err)) => Err(unlocked(&err)),
        }
    }
}

/// Where the lock of a file is. It stays there: who deletes it takes it from under another who waits at the same name.
fn beside(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".lock");
    name.into()
}
