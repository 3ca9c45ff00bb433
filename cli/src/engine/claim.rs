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
    /// Locks the configured database if it is a file and the queue is in memory. `hint` is part of the error if another engine
    /// holds the lock.
    pub(crate) fn of(settings: &Settings, hint: &str) -> anyhow::Result<Option<Self>> {
        if settings.queue.url.resolve()?.expose_secret() != "memory:" {
            return Ok(None);
        }
        let Some(file) = Store::sqlite_file(settings.store.url.resolve()?.expose_secret()) else {
            return Ok(None);
        };
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
        let opened = OpenOptions::new().create(true).truncate(false).write(true).open(&lock);
        let locked = opened.map_err(|err| unlocked(&err))?;
        match locked.try_lock() {
            Ok(()) => Ok(Some(Self { _locked: locked })),
            Err(TryLockError::WouldBlock) => {
                let message = format!("another turnfold uses this file ({}); hint: {hint}", file.display());
                Err(CliError::with_exit(Exit::Unreachable, message))
            }
            Err(TryLockError::Error(err)) => Err(unlocked(&err)),
        }
    }
}

/// Path of the lock file. It is never deleted: another process may be about to lock it under the same name.
fn lock_path(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".lock");
    name.into()
}
