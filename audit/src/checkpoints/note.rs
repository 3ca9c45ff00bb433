//! A signed note as text, with all its signatures.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use signed_note::{StandardVerifier, Verifier as _, is_key_name_valid};

/// Minimum length of the data of a signature in bytes: the id of its key has 4.
const SIGNATURE_MIN: usize = 5;

/// A note of a checkpoint, and its signatures with the names of their keys.
pub(super) struct Note {
    pub(super) origin: String,
    pub(super) size: u64,
    pub(super) root: [u8; 32],
    /// The text that is signed.
    pub(super) text: String,
    /// Each with the 4 bytes of the key's id before the signature.
    pub(super) signatures: Vec<(String, Vec<u8>)>,
}

impl Note {
    /// Reads a note.
    ///
    /// # Errors
    ///
    /// The description of a line that is not that of a note.
    pub(super) fn read(whole: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("the checkpoint is no signed note: {what}");
        let (body, signatures) = whole.rsplit_once("\n\n").ok_or_else(|| wrong("it has no signature"))?;
        let is_clean = !whole.chars().any(|char| char < ' ' && char != '\n');
        let signatures = signatures.strip_suffix('\n').filter(|_| is_clean && !body.is_empty());
        let signatures = signatures.ok_or_else(|| wrong("its lines are not those of a note"))?;
        let signature = |line: &str| {
            let (name, data) = line.strip_prefix("\u{2014} ")?.split_once(' ')?;
            let data = BASE64_STANDARD.decode(data).ok()?;
            let is_signature = is_key_name_valid(name) && SIGNATURE_MIN <= data.len();
            is_signature.then(|| (name.to_owned(), data))
        };
        let signatures: Option<Vec<_>> = signatures.split('\n').map(signature).collect();
        let mut lines = body.split('\n').map(str::to_owned);
        let mut next = || lines.next().unwrap_or_default();
        let (origin, size, root) = (next(), next(), next());
        let number = size.parse().ok().filter(|number: &u64| number.to_string() == size);
        let root = BASE64_STANDARD.decode(root).ok().and_then(|root| root.try_into().ok());
        Ok(Self {
            origin,
            size: number.ok_or_else(|| wrong("the number of heads is no number"))?,
            root: root.ok_or_else(|| wrong("the root is no hash in Base64"))?,
            text: format!("{body}\n"),
            signatures: signatures.ok_or_else(|| wrong("a signature is none"))?,
        })
    }

    /// Reports whether a key signed the note for its own log. The first signature with its name and id counts. `None` if that is no
    /// key.
    pub(super) fn is_by(&self, vkey: &str) -> Option<bool> {
        let verifier = StandardVerifier::new(vkey).ok()?;
        let id = verifier.key_id().to_be_bytes();
        if vkey.split('+').nth(1) != Some(hex::encode(id).as_str()) {
            return None;
        }
        let own = |(name, data): &&(String, Vec<u8>)| name == verifier.name() && data.starts_with(&id);
        let signature = self.signatures.iter().find(own).map(|(_, data)| &data[id.len()..]);
        let is_valid = signature.is_some_and(|signature| verifier.verify(self.text.as_bytes(), signature));
        Some(is_valid && self.origin == verifier.name())
    }
}
