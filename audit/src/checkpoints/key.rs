//! The key that signs checkpoints: a file of two lines, the secret key and the public key.

use std::{
    fmt, fs,
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use rand_core::OsRng;
use signed_note::{Note, Signer as _, StandardSigner, StandardVerifier, VerifierList};

use super::error::Error;

/// A key that signs checkpoints.
pub struct Key {
    signer: StandardSigner,
    vkey: String,
}

/// Omits the secret key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("vkey", &self.vkey).finish_non_exhaustive()
    }
}

impl Key {
    /// Creates a key of this name in a new file that only its owner can read.
    ///
    /// # Errors
    ///
    /// [`Error::Given`] if the name or the file cannot be used.
    pub fn make(file: &Path, name: &str) -> Result<Self, Error> {
        if !signed_note::is_key_name_valid(name) || name.chars().any(char::is_control) {
            let words =
                format!("{name:?} is not a valid key name: it must not be empty or contain spaces or a +");
            return Err(Error::Given(words));
        }
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(|error| Error::file("make", folder, &error))?;
        }
        let mut open = fs::OpenOptions::new();
        let made = open.write(true).create_new(true).mode(0o600).open(file);
        let mut made = made.map_err(|error| Error::file("make", file, &error))?;
        let (secret, vkey) = signed_note::generate_key(&mut OsRng, name);
        let written = made.write_all(format!("{secret}\n{vkey}\n").as_bytes()).and_then(|()| made.sync_all());
        written.map_err(|error| Error::file("write", file, &error))?;
        Self::read(file)
    }

    /// Reads a key from its file.
    ///
    /// # Errors
    ///
    /// [`Error::Given`] if the file is missing, or others can read it.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let mode =
            fs::metadata(file).map_err(|error| Error::file("read", file, &error))?.permissions().mode();
        if mode & 0o077 != 0 {
            let words = format!("other users can read the key in {0}; hint: chmod 600 {0}", file.display());
            return Err(Error::Given(words));
        }
        let text = fs::read_to_string(file).map_err(|error| Error::file("read", file, &error))?;
        let read = || {
            let (secret, vkey) = text.trim_end().split_once('\n')?;
            let key = Self { signer: StandardSigner::new(secret).ok()?, vkey: vkey.to_owned() };
            let mine = is_signed(&key.sign("which\n").ok()?, &key.vkey).ok()?;
            mine.then_some(key)
        };
        let words = || {
            format!("{} does not contain a key; hint: create one with turnfold audit key new", file.display())
        };
        read().ok_or_else(|| Error::Given(words()))
    }

    /// Name of the key, and of the log whose checkpoints it signs.
    pub fn name(&self) -> &str {
        self.signer.name()
    }

    /// The public key, which checks signatures.
    pub fn vkey(&self) -> &str {
        &self.vkey
    }

    pub(super) fn sign(&self, text: &str) -> Result<Note, Error> {
        let mut note = Note::new(text.as_bytes(), &[]).map_err(|error| Error::Damaged(error.to_string()))?;
        self.add_to(&mut note)?;
        Ok(note)
    }

    /// Adds a signature of this key to a note. Those of other keys remain.
    pub(super) fn add_to(&self, note: &mut Note) -> Result<(), Error> {
        note.add_sigs(&[&self.signer]).map_err(|error| Error::Damaged(error.to_string()))
    }
}

/// Reports whether the key signed the note.
pub(super) fn is_signed(note: &Note, vkey: &str) -> Result<bool, Error> {
    let verifier = StandardVerifier::new(vkey).map_err(|error| {
        Error::Given(format!(
            "{vkey:?} is no key that checks signatures, as `turnfold audit key show` prints it: {error}"
        ))
    })?;
    Ok(note.verify(&VerifierList::new(vec![Box::new(verifier)])).is_ok())
}
