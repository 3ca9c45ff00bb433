//! Notes of old keys about new ones, beside the checkpoint.

use std::{
    fs,
    path::{Path, PathBuf},
};

use signed_note::Note;

use super::{error::Error, key::is_signed};

/// First line of a note about a new key.
const HEADER: &str = "turnfold/key-rotation/v1";

/// Extension of the files beside a checkpoint, each with the id of the new key behind it.
const EXTENSION: &str = ".key-";

/// A parsed note about a new key.
#[derive(Debug)]
pub(super) struct Rotation {
    pub(super) file: PathBuf,
    note: Note,
    origin: String,
    /// Number of heads that the old key attests at most.
    pub(super) heads: u64,
    /// Public key of the new key.
    pub(super) new: String,
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

    /// Returns the text of a note that is not signed yet.
    pub(super) fn text(origin: &str, heads: u64, new: &str) -> String {
        format!("{HEADER}\n{origin}\n{heads}\n{new}\n")
    }

    /// Reports whether this is the note of the given key about its successor.
    pub(super) fn is_by(&self, vkey: &str) -> Result<bool, Error> {
        Ok(vkey.split('+').next() == Some(self.origin.as_str()) && is_signed(&self.note, vkey)?)
    }

    /// The error for a use of the old key.
    pub(super) fn refusal(&self) -> Error {
        Error::Given(format!(
            "this key was replaced by {}, as {} says; nothing was signed; hint: --key with the file of the new one",
            self.new,
            self.file.display()
        ))
    }
}

/// Returns the notes about new keys beside a checkpoint. A file that is none is left out: it makes no key valid.
pub(super) fn beside(note: &Path) -> Result<Vec<Rotation>, Error> {
    let Some((folder, name)) = note.parent().zip(note.file_name()) else { return Ok(Vec::new()) };
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

/// Returns the note of a key about its successor beside a checkpoint, if it was replaced.
pub(super) fn of(note: &Path, vkey: &str) -> Result<Option<Rotation>, Error> {
    for rotation in beside(note)? {
        if rotation.is_by(vkey)? {
            return Ok(Some(rotation));
        }
    }
    Ok(None)
}

/// Returns the file for the note about a new key.
pub(super) fn file_of(note: &Path, new: &str) -> PathBuf {
    let mut file = note.to_owned().into_os_string();
    file.push(format!("{EXTENSION}{}", new.split('+').nth(1).unwrap_or_default()));
    file.into()
}
