//! Exclusive use of a SQLite file by one engine.
//!
//! ## Why
//!
//! Two engines with queues in memory do not see each other's leases. Each would treat the running threads of the other as
//! abandoned, call their models again and put their writes in doubt.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use secrecy::ExposeSecret as _;
use store::Store;

use crate::{
    config::Settings,
    exit::{CliError, Exit},
};

/// A lock on a SQLite file. The kernel releases it when the process ends, for whatever reason.
pub(crate) struct Claim {
    _locked: File,
}

impl Claim {
    /// Locks the configured database if it is a file: for this process alone if its queue is in memory, otherwise together with
    /// the processes that share the queue. `hint` is part of the error if another engine holds the lock.
    pub(crate) fn of(settings: &Settings, hint: &str) -> anyhow::Result<Option<Self>> {
        let Some(file) = Store::sqlite_file(settings.store.url.resolve()?.expose_secret()) else {
            return Ok(None);
        };
        let is_alone = settings.queue.url.resolve()?.expose_secret() == "memory:";
        // Different paths may name the same file.
        let file = fs::canonicalize(&file).unwrap_or(file);
        let lock = lock_path(&file);
        let unlocked = |err: &io::Error| {
            let (file, lock) = (file.display(), lock.display());
            let message = format!(
                "cannot lock {lock}, which keeps a second engine away from {file}: {err}; hint: make it writable, or use \
                 another file with --set store.url=sqlite:FILE"
            );
            CliError::with_exit(Exit::Unreachable, message)
        };
        let locked = open_lock(&lock).map_err(|err| unlocked(&err))?;
        match if is_alone { locked.try_lock() } else { locked.try_lock_shared() } {
            Ok(()) => Ok(Some(Self { _locked: locked })),
            Err(TryLockError::WouldBlock) => {
                let message = format!("another turnfold uses this file ({}); hint: {hint}", file.display());
                Err(CliError::with_exit(Exit::Unreachable, message))
            }
            Err(TryLockError::Error(err)) => Err(unlocked(&err)),
        }
    }
}

/// Refuses a SQLite file before it is opened: one with a second name, through which a second engine would have another lock and
/// another write-ahead log; and one that was restored beside the log of the file before it.
pub(crate) fn check_file(file: &Path) -> anyhow::Result<()> {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let names = fs::metadata(&file).map_or(1, |found| found.nlink());
    if names > 1 {
        let message = format!(
            "{} has {names} names (hard links), and SQLite would keep a write-ahead log for each; hint: delete the other \
             names (find / -samefile {0} finds them), or use symbolic links or a copy",
            file.display()
        );
        return Err(CliError::with_exit(Exit::Database, message));
    }
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    if fs::metadata(&log).map_or(0, |found| found.len()) == 0 {
        return Ok(());
    }
    // While an engine runs, the log is its own.
    let Ok(lock) = open_lock(&lock_path(&file)) else { return Ok(()) };
    match lock.try_lock() {
        Ok(()) => Ok(Store::check_write_ahead_log(&file)?),
        Err(_) => Ok(()),
    }
}

fn open_lock(lock: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).truncate(false).write(true).open(lock)
}

/// Path of the lock file. It is never deleted: another process may be about to lock it under the same name.
fn lock_path(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".lock");
    name.into()
}
