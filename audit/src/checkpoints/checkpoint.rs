//! Creates and reads checkpoints.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use sha2::{Digest as _, Sha256};
use signed_note::Note;
use store::{Finding, Head, Store, ThreadId, ThreadScan, Wrong, is_admin_log};
use tlog_tiles::{Checkpoint, Hash};
use uuid::Uuid;

use super::{
    error::Error,
    heads::Heads,
    index::Index,
    key::{Key, is_signed},
    successor,
};

/// Maximum number of listed findings; all are counted.
const KEPT: usize = 100;

/// Files of a checkpoint: the note, and beside it a list of heads with the same name and the extension `.heads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Path of the note.
    pub note: PathBuf,
    /// Path of the list.
    pub heads: PathBuf,
}

impl Place {
    /// Interprets a path: a file is the note; in a folder the note is the file `checkpoint`. A path that does not
    /// exist is a folder, unless its name has an extension.
    pub fn of(path: &Path) -> Self {
        let folder = path.is_dir() || (!path.exists() && path.extension().is_none());
        let note = if folder { path.join("checkpoint") } else { path.to_owned() };
        let mut heads = note.clone().into_os_string();
        heads.push(".heads");
        Self { note, heads: heads.into() }
    }

    pub(super) fn list(&self) -> Option<Heads> {
        self.heads.is_file().then(|| Heads::at(&self.heads))
    }
}

/// A parsed note.
#[derive(Debug)]
pub(super) struct Signed {
    pub(super) note: Note,
    pub(super) origin: String,
    pub(super) size: u64,
    pub(super) root: Hash,
    /// Store whose heads it attests; `None` in the notes of older versions.
    pub(super) store: Option<Uuid>,
}

/// Beginning of the line of a note that names the store.
const STORE: &str = "store ";

impl Signed {
    pub(super) fn read(file: &Path) -> Result<Self, Error> {
        let bytes = fs::read(file).map_err(|error| Error::file("read", file, &error))?;
        let read = || {
            let note = Note::from_bytes(&bytes).ok()?;
            let checkpoint = Checkpoint::from_bytes(note.text()).ok()?;
            Some(Self {
                origin: checkpoint.origin().to_owned(),
                size: checkpoint.size(),
                root: *checkpoint.hash(),
                store: checkpoint.extension().lines().find_map(|line| line.strip_prefix(STORE)?.parse().ok()),
                note,
            })
        };
        read().ok_or_else(|| Error::Damaged(format!("{} is not a checkpoint", file.display())))
    }

    /// Reports whether the key signed the note for its own log.
    pub(super) fn is_by(&self, vkey: &str) -> Result<bool, Error> {
        let name = vkey.split_once('+').map_or(vkey, |parts| parts.0);
        Ok(is_signed(&self.note, vkey)? && self.origin == name)
    }
}

/// Handling of attested threads that no longer exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gone {
    /// They are findings.
    Found,
    /// They were deleted deliberately; the checkpoint attests that they are gone.
    Known {
        /// Their number. Nothing is signed if there are more or fewer.
        count: u64,
        /// Reason of the deletion, in one line of at most [`REASON_MAX`] bytes. The heads of the threads hold its hash.
        reason: String,
    },
}

/// Maximum length of a reason in bytes.
pub const REASON_MAX: usize = 200;

impl Gone {
    /// Checks the reason.
    fn check(&self) -> Result<(), Error> {
        let Gone::Known { reason, .. } = self else { return Ok(()) };
        let is_line = !reason.trim().is_empty() && !reason.chars().any(char::is_control);
        if is_line && reason.len() <= REASON_MAX {
            return Ok(());
        }
        Err(Error::Given(format!(
            "the reason for the missing threads must be one line of 1 to {REASON_MAX} bytes; nothing was signed"
        )))
    }

    /// Returns the head that attests the deletion of a thread for this reason.
    fn head(reason: &str, thread: ThreadId) -> Head {
        Head { hash: Sha256::digest(reason).into(), ..Head::start(thread) }
    }
}

/// A new checkpoint.
#[derive(Debug)]
pub struct Made {
    /// Number of heads that it attests.
    pub size: u64,
    /// Number of new heads.
    pub added: u64,
    /// Number of new heads of deleted threads.
    pub gone: u64,
    /// Number of threads read.
    pub threads: u64,
    /// Number of findings that keep a thread from being attested.
    pub found: u64,
    /// The first hundred findings.
    pub findings: Vec<Finding>,
}

/// Attests all threads that have grown since the last checkpoint, and signs the result.
///
/// A thread whose log was changed is a finding and is not attested; all other threads are.
///
/// **Invariant:** a list of heads has those of one store. The note names the store, and nothing is written for another one.
///
/// # Errors
///
/// [`Error::Damaged`] if the earlier checkpoint is damaged; [`Error::Given`] if it is that of another store, if the key was replaced
/// there, or if other threads are gone than `gone` says. Nothing is signed then.
pub async fn checkpoint(
    store: &Store,
    round: &ThreadScan,
    to: &Place,
    key: &Key,
    gone: Gone,
) -> Result<Made, Error> {
    gone.check()?;
    let id = store.store_id().await?;
    refuse_another_store(to, id)?;
    let heads = Heads::at(&to.heads);
    let _alone = lock(&heads.file)?;
    if let Some(rotation) = successor::of(&to.note, key.vkey())? {
        return Err(rotation.refusal());
    }
    let size = before(to, &heads, key)?;
    let index = Arc::new(Index::read(&heads, size.unwrap_or_default(), None)?);
    let attested: Arc<dyn store::AttestedHeads> = Arc::<Index>::clone(&index);
    let mut grown = store.grown(round, attested).await?;
    let store::Verified { threads, mut found, mut findings, .. } = grown.verified;
    let admin = store.verify_admin_logs(&*index).await?;
    found += admin.findings.len() as u64;
    findings.extend(admin.findings.into_iter().take(KEPT.saturating_sub(findings.len())));
    grown.heads.extend(admin.heads.into_iter().filter(|head| index.last(head.thread) != Some(*head)));
    let mut left = Vec::new();
    for (last, asked) in index.threads() {
        let finding = match (last.seq, asked) {
            (0, true) => {
                grown.heads.retain(|head| head.thread != last.thread);
                reappeared(&last)
            }
            (1.., false) => match &gone {
                // Nothing deletes an administrative log.
                Gone::Known { reason, .. } if !is_admin_log(last.thread) => {
                    left.push(Gone::head(reason, last.thread));
                    continue;
                }
                Gone::Known { .. } | Gone::Found => removed(&last),
            },
            (0, false) | (1.., true) => continue,
        };
        found += 1;
        if findings.len() < KEPT {
            findings.push(finding);
        }
    }
    refuse_other_numbers(&gone, left.len() as u64)?;
    // Every store has administrative logs with the same ids.
    let of_threads = index.threads().filter(|(last, _)| 0 < last.seq && !is_admin_log(last.thread));
    let (mut attested, mut there) = (0, 0);
    for (_, is_there) in of_threads {
        (attested, there) = (attested + 1, there + u64::from(is_there));
    }
    if gone == Gone::Found && 0 < attested && there == 0 {
        return Err(Error::Given(format!(
            "none of the {attested} threads that {} attests is in this store; nothing was signed; hint: check store.url; if they were \
             deleted on purpose, add --gone {attested} --reason TEXT",
            to.note.display()
        )));
    }
    let added = (grown.heads.len() + left.len()) as u64;
    let size_before = size.unwrap_or_default();
    let mut made = Made { size: size_before, added, gone: left.len() as u64, threads, found, findings };
    if made.added == 0 && size.is_some() {
        return Ok(made);
    }
    grown.heads.extend(left);
    heads.add(made.size, &grown.heads)?;
    made.size += made.added;
    sign(to, &heads, key, made.size, id)?;
    Ok(made)
}

/// Refuses to continue the list of another store.
fn refuse_another_store(to: &Place, id: Uuid) -> Result<(), Error> {
    if !to.note.exists() {
        return Ok(());
    }
    match Signed::read(&to.note)?.store.filter(|store| *store != id) {
        None => Ok(()),
        Some(other) => Err(Error::Given(format!(
            "{} attests the threads of store {other}, and this is store {id}; nothing was signed; hint: check store.url, or give another \
             folder with --to",
            to.note.display()
        ))),
    }
}

/// Refuses to attest the deletion of more or fewer threads than were named.
fn refuse_other_numbers(gone: &Gone, left: u64) -> Result<(), Error> {
    match gone {
        Gone::Known { count, .. } if *count != left => Err(Error::Given(format!(
            "{left} attested threads are missing, and not {count}; nothing was signed; hint: find out which ones with turnfold audit \
             verify, then give --gone {left}"
        ))),
        Gone::Known { .. } | Gone::Found => Ok(()),
    }
}

/// The finding for an attested thread that is gone from the store.
pub(super) fn removed(last: &Head) -> Finding {
    let (log, events) = (last.thread, last.seq);
    let what = match is_admin_log(log) {
        true => format!("the administrative log {log} is gone; {events} of its entries were attested"),
        false => format!("the thread is gone with all its rows; {events} of its events were attested"),
    };
    Finding { thread: last.thread, seq: 0, wrong: Wrong::Removed, what }
}

/// The finding for a thread that was attested as deleted and exists again.
pub(super) fn reappeared(last: &Head) -> Finding {
    let what = "it was attested to be gone, and it is there again".to_owned();
    Finding { thread: last.thread, seq: 0, wrong: Wrong::Reappeared, what }
}

/// Locks the list against other writers.
pub(super) fn lock(file: &Path) -> Result<File, Error> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| Error::file("make", folder, &error))?;
    }
    let open = OpenOptions::new().create(true).append(true).open(file);
    let open = open.map_err(|error| Error::file("write", file, &error))?;
    match open.try_lock() {
        Ok(()) => Ok(open),
        Err(_) => Err(Error::Given(format!("another checkpoint is being made in {}", file.display()))),
    }
}

/// Number of attested heads, if a checkpoint by this key exists and agrees with the list.
pub(super) fn before(to: &Place, heads: &Heads, key: &Key) -> Result<Option<u64>, Error> {
    if !to.note.exists() {
        return match heads.count()? {
            0 => Ok(None),
            _ => Err(Error::Damaged(format!(
                "{} has heads, but {} is missing; hint: restore it, or start in another folder",
                to.heads.display(),
                to.note.display()
            ))),
        };
    }
    let signed = Signed::read(&to.note)?;
    if !signed.is_by(key.vkey())? {
        let words = format!(
            "{} is not signed by {}: give the key that did, or begin a log elsewhere",
            to.note.display(),
            key.name()
        );
        return Err(Error::Damaged(words));
    }
    if heads.count()? < signed.size || heads.root(signed.size)? != signed.root {
        let words = format!(
            "the heads in {} differ from those that {} attests; nothing was signed",
            to.heads.display(),
            to.note.display()
        );
        return Err(Error::Damaged(words));
    }
    Ok(Some(signed.size))
}

/// Writes the note beside the list atomically.
fn sign(to: &Place, heads: &Heads, key: &Key, size: u64, store: Uuid) -> Result<(), Error> {
    let text = Checkpoint::new(key.name(), size, heads.root(size)?, &format!("{STORE}{store}\n"));
    let text = text.map_err(|error| Error::Damaged(error.to_string()))?.to_bytes();
    replace(&to.note, &key.sign(&String::from_utf8_lossy(&text))?.to_bytes())
}

/// Writes a file atomically.
pub(super) fn replace(file: &Path, content: &[u8]) -> Result<(), Error> {
    let mut new = file.to_owned().into_os_string();
    new.push(".new");
    let new = PathBuf::from(new);
    let write = || {
        let mut out = File::create(&new)?;
        out.write_all(content)?;
        out.sync_all()?;
        fs::rename(&new, file)
    };
    write().map_err(|error| Error::file("write", file, &error))
}
