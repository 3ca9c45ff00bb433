//! One engine at a SQLite file. A queue in this process knows nothing of the one in another: whoever has such a queue takes
//! the threads that the other runs for forgotten ones, asks models again and puts writes in doubt.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
};

use secrecy::ExposeSecret as _;

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
        let Some(file) = file(settings.store.url.resolve()?.expose_secret()) else { return Ok(None) };
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

/// The file of a SQLite address; none, if that is in memory.
fn file(url: &str) -> Option<PathBuf> {
    // As the store reads it.
    if url.contains(":memory:") || url.contains("mode=memory") {
        return None;
    }
    let address = url.strip_prefix("sqlite:")?.trim_start_matches("//");
    let file = address.split_once('?').map_or(address, |(file, _)| file);
    (!file.is_empty()).then(|| plain(file).into())
}

/// A text without its escapes, such as `%20`.
fn plain(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let escaped = more.get(..2).filter(|it| *first == b'%' && it.iter().all(u8::is_ascii_hexdigit));
        let byte = escaped.and_then(|it| u8::from_str_radix(std::str::from_utf8(it).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &more[2..] } else { more };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Where the lock of a file is. It stays there: who deletes it takes it from under another who waits at the same name.
fn beside(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".lock");
    name.into()
}

#[test]
fn an_address_says_which_file_it_is() {
    for (url, wanted) in [
        ("sqlite:.turnfold/turnfold.db", Some(".turnfold/turnfold.db")),
        ("sqlite:///srv/a%20b%.db?mode=rwc", Some("/srv/a b%.db")),
        ("sqlite::memory:", None),
        ("sqlite:x?mode=memory", None),
        ("postgres://nobody@127.0.0.1/x", None),
    ] {
        assert_eq!(file(url), wanted.map(PathBuf::from), "{url}");
    }
    assert_eq!(beside(Path::new("a/b.db")), Path::new("a/b.db.lock"));
}
