//! The replacement of a signing key: a note of the old key names the new one.
//!
//! The list of heads and its origin continue. The note says how many heads there were: a note of the old key with more heads is not
//! accepted any more, so a key that is stolen later attests nothing new.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    checkpoint::{Place, Signed, before, lock, replace},
    error::Error,
    heads::Heads,
    key::Key,
    successor::{self, Rotation},
};

/// The keys that sign the checkpoints of a place.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// Each public key, and the most heads that it attests, if another one has replaced it.
    keys: BTreeMap<String, Option<u64>>,
    /// Descriptions of keys with two successors.
    pub(super) forked: Vec<String>,
}

impl Keys {
    /// Returns the given keys and their successors, by the notes beside these checkpoints.
    ///
    /// # Errors
    ///
    /// [`Error::Given`] if a text is no key, or a note cannot be read.
    pub(super) fn of(given: &[String], places: &[Place]) -> Result<Self, Error> {
        let mut rotations = Vec::new();
        for place in places {
            rotations.extend(successor::beside(&place.note)?);
        }
        let mut this =
            Self { keys: given.iter().map(|vkey| (vkey.clone(), None)).collect(), forked: Vec::new() };
        let mut new: Vec<String> = given.to_vec();
        let mut successors: BTreeMap<String, (String, u64)> = BTreeMap::new();
        while let Some(old) = new.pop() {
            for rotation in &rotations {
                if !rotation.is_by(&old)? {
                    continue;
                }
                let next = (rotation.new.clone(), rotation.heads);
                if *successors.entry(old.clone()).or_insert_with(|| next.clone()) != next {
                    let file = rotation.file.display();
                    this.forked.push(format!(
                        "{file} names another successor of the key {old} than another note does"
                    ));
                    continue;
                }
                this.keys.insert(old.clone(), Some(rotation.heads));
                if !this.keys.contains_key(&rotation.new) {
                    this.keys.insert(rotation.new.clone(), None);
                    new.push(rotation.new.clone());
                }
            }
        }
        Ok(this)
    }

    /// Reports whether one of the keys signed the checkpoint while it was in use.
    pub(super) fn signed(&self, signed: &Signed) -> Result<bool, Error> {
        for (vkey, last) in &self.keys {
            if signed.is_by(vkey)? && last.is_none_or(|last| signed.size <= last) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Replaces the key that signs the checkpoint of a place: makes a key of the same name in a new file, has the old one sign a note
/// about it, and adds a signature of the new one to the checkpoint. Returns the new key and the file of the note. If that was
/// interrupted after the note, the call with the same file finishes it.
///
/// # Errors
///
/// [`Error::Damaged`] if the old key did not sign the checkpoint, or its list differs; [`Error::Given`] if there is no checkpoint, a
/// file exists, or the key was replaced before.
pub fn rotate(to: &Place, old: &Key, new_file: &Path) -> Result<(Key, PathBuf), Error> {
    if !to.note.exists() {
        let what = format!("there is no checkpoint at {}", to.note.display());
        let hint = "hint: to start with another key, make one with turnfold audit key new";
        return Err(Error::Given(format!("{what}; {hint}")));
    }
    let heads = Heads::at(&to.heads);
    let _alone = lock(&heads.file)?;
    let (new, file) = match successor::of(&to.note, old.vkey())? {
        None => announce(to, &heads, old, new_file)?,
        Some(rotation) => (announced(to, &heads, old, &rotation, new_file)?, rotation.file),
    };
    // The cosignatures of witnesses remain.
    let mut note = Signed::read(&to.note)?.note;
    new.add_to(&mut note)?;
    replace(&to.note, &note.to_bytes())?;
    Ok((new, file))
}

/// Makes the new key, and writes the note about it.
fn announce(to: &Place, heads: &Heads, old: &Key, new_file: &Path) -> Result<(Key, PathBuf), Error> {
    let size = before(to, heads, old)?.unwrap_or_default();
    if new_file.exists() {
        return Err(Error::Given(format!(
            "{} already exists, and keys are never overwritten; hint: choose another file with --new-key",
            new_file.display()
        )));
    }
    let new = Key::make(new_file, old.name())?;
    let file = successor::file_of(&to.note, new.vkey());
    let note = old.sign(&Rotation::text(old.name(), size, new.vkey()))?;
    replace(&file, &note.to_bytes())?;
    Ok((new, file))
}

/// Returns the new key of a replacement that was interrupted before the new key signed the checkpoint.
fn announced(
    to: &Place,
    heads: &Heads,
    old: &Key,
    rotation: &Rotation,
    new_file: &Path,
) -> Result<Key, Error> {
    let new = Key::read(new_file).ok().filter(|new| new.vkey() == rotation.new);
    let new = new.ok_or_else(|| rotation.refusal())?;
    if Signed::read(&to.note)?.is_by(new.vkey())? {
        return Err(rotation.refusal());
    }
    let size = before(to, heads, old)?.unwrap_or_default();
    if rotation.heads < size {
        return Err(Error::Damaged(format!(
            "{} attests {size} heads, and the old key attests {} at most: it was used after {} was written; nothing was signed",
            to.note.display(),
            rotation.heads,
            rotation.file.display()
        )));
    }
    Ok(new)
}
