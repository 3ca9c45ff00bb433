//! The replacement of a signing key: a note of the old key names the new one.
//!
//! The list of heads and its origin continue. The note says how many heads there were: a note of the old key with more heads is not
//! accepted any more, so a key that is stolen later attests nothing new.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use signed_note::Note;

use super::{
    checkpoint::{Place, Signed, replace},
    error::Error,
    key::{Key, is_signed},
};

/// First line of a note about a new key.
const HEADER: &str = "turnfold/key-rotation/v1";

/// Extension of the files beside a checkpoint, each with the id of the new key behind it.
const EXTENSION: &str = ".key-";

/// A parsed note about a new key.
struct Rotation {
    file: PathBuf,
    note: Note,
    origin: String,
    /// Number of heads that the old key attests at most.
    heads: u64,
    new: String,
}

impl Rotation {
    fn read(file: &Path) -> Result<Self, Error> {
        let bytes = fs::read(file).map_err(|error| Error::file("read", file, &error))?;
        let read = || {
            let note = Note::from_bytes(&bytes).ok()?;
            let text = String::from_utf8(note.text().to_vec()).ok()?;
            let mut lines = text.lines();
            let (header, origin, heads) =
                (lines.next()?, lines.next()?.to_owned(), lines.next()?.parse().ok()?);
            let new = lines.next()?.to_owned();
            let is_whole = header == HEADER && lines.next().is_none();
            let is_of_origin = new.split('+').next() == Some(origin.as_str());
            is_whole.then_some(())?;
            is_of_origin.then_some(Self { file: file.to_owned(), note, origin, heads, new })
        };
        read().ok_or_else(|| Error::Damaged(format!("{} is no note about a new key", file.display())))
    }

    fn text(origin: &str, heads: u64, new: &str) -> String {
        format!("{HEADER}\n{origin}\n{heads}\n{new}\n")
    }
}

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
            rotations.extend(rotations_beside(place)?);
        }
        let mut this =
            Self { keys: given.iter().map(|vkey| (vkey.clone(), None)).collect(), forked: Vec::new() };
        let mut new: Vec<String> = given.to_vec();
        let mut successors: BTreeMap<String, (String, u64)> = BTreeMap::new();
        while let Some(old) = new.pop() {
            for rotation in &rotations {
                if old.split('+').next() != Some(rotation.origin.as_str())
                    || !is_signed(&rotation.note, &old)?
                {
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

/// Returns the notes about new keys beside a checkpoint. A file that is none is left out: it makes no key valid.
fn rotations_beside(place: &Place) -> Result<Vec<Rotation>, Error> {
    let Some((folder, name)) = place.note.parent().zip(place.note.file_name()) else { return Ok(Vec::new()) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let prefix = format!("{}{EXTENSION}", name.to_string_lossy());
    let Ok(files) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for file in files {
        let file = file.map_err(|error| Error::file("read", folder, &error))?;
        if file.file_name().to_string_lossy().starts_with(&prefix) {
            found.extend(Rotation::read(&file.path()).ok());
        }
    }
    found.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(found)
}

/// Replaces the key that signs the checkpoint of a place: makes a key of the same name in a new file, has the old one sign a note
/// about it, and signs the checkpoint with both. Returns the new key and the file of the note.
///
/// # Errors
///
/// [`Error::Damaged`] if the old key did not sign the checkpoint, or its list differs; [`Error::Given`] if there is no checkpoint, or a
/// file exists.
pub fn rotate(to: &Place, old: &Key, new_file: &Path) -> Result<(Key, PathBuf), Error> {
    let size = super::checkpoint::attested_by(to, old)?.ok_or_else(|| {
        let what = format!("there is no checkpoint at {}", to.note.display());
        Error::Given(format!("{what}; hint: to start with another key, make one with turnfold audit key new"))
    })?;
    let new = Key::make(new_file, old.name())?;
    let id = new.vkey().split('+').nth(1).unwrap_or_default().to_owned();
    let mut file = to.note.clone().into_os_string();
    file.push(format!("{EXTENSION}{id}"));
    let file = PathBuf::from(file);
    let note = old.sign(&Rotation::text(old.name(), size, new.vkey()))?;
    replace(&file, &note.to_bytes())?;
    let signed = Signed::read(&to.note)?;
    let text = String::from_utf8_lossy(signed.note.text()).into_owned();
    replace(&to.note, &old.sign_with(&new, &text)?.to_bytes())?;
    Ok((new, file))
}
