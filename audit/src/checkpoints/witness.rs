//! Cosignatures of witnesses: statements by others that a checkpoint continues all that they saw before.
//!
//! A witness keeps the last checkpoint of an origin, and signs a new one only if its list continues the old one. With enough of them,
//! the holder of the key cannot show two histories. The format is C2SP's tlog-cosignature, version 1: a signature of type `0x04` over
//! two lines and the text of the note.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use signed_note::{StandardVerifier, Verifier as _, key_id};

use super::{error::Error, note::Note};

/// Type of a cosignature in a key.
const COSIGNATURE: u8 = 4;

/// Type of a signature of a note in a key.
const SIGNATURE: u8 = 1;

/// Length of a time in bytes.
const TIME: usize = 8;

/// A witness, by its public key.
pub(super) struct Witness {
    name: String,
    id: [u8; 4],
    /// Public key without its type.
    key: Vec<u8>,
    /// The same public key, as one that signs notes.
    verifier: StandardVerifier,
}

/// A cosignature on a note.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Cosigned {
    /// Name of the witness.
    pub witness: String,
    /// Time of the cosignature, in seconds since the Unix epoch.
    pub at: u64,
}

impl Witness {
    /// Reads the public key of a witness.
    ///
    /// # Errors
    ///
    /// [`Error::Given`] if it is none.
    pub(super) fn parse(vkey: &str) -> Result<Self, Error> {
        let read = || {
            let (name, rest) = vkey.split_once('+')?;
            let (id, key) = rest.split_once('+')?;
            let key = BASE64_STANDARD.decode(key).ok()?;
            let own = key_id(name, &key);
            if key.first() != Some(&COSIGNATURE) || format!("{own:08x}") != id {
                return None;
            }
            let plain = [&[SIGNATURE][..], &key[1..]].concat();
            let plain = format!("{name}+{:08x}+{}", key_id(name, &plain), BASE64_STANDARD.encode(&plain));
            let verifier = StandardVerifier::new(&plain).ok()?;
            Some(Self { name: name.to_owned(), id: own.to_be_bytes(), key: key[1..].to_vec(), verifier })
        };
        read().ok_or_else(|| {
            Error::Given(format!(
                "{vkey:?} is no key of a witness: it reads NAME+ID+KEY, with a key of the type 4 of C2SP tlog-cosignature"
            ))
        })
    }

    /// Reads public keys, each key once: another name for it makes no second witness.
    ///
    /// # Errors
    ///
    /// [`Error::Given`] if a text is no key of a witness.
    pub(super) fn parse_all(vkeys: &[String]) -> Result<Vec<Self>, Error> {
        let mut witnesses: Vec<Self> = Vec::new();
        for vkey in vkeys {
            let witness = Self::parse(vkey)?;
            if witnesses.iter().all(|other| other.key != witness.key) {
                witnesses.push(witness);
            }
        }
        Ok(witnesses)
    }

    /// Returns the cosignature of the witness; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The description of a cosignature with the name and the id of the key that is not valid.
    pub(super) fn cosignature(&self, note: &Note) -> Result<Option<Cosigned>, String> {
        let own = |(name, data): &&(String, Vec<u8>)| *name == self.name && data.starts_with(&self.id);
        let Some((_, data)) = note.signatures.iter().find(own) else { return Ok(None) };
        let at = data.get(self.id.len()..self.id.len() + TIME).and_then(|time| time.try_into().ok());
        let valid = at.map(u64::from_be_bytes).filter(|at| i64::try_from(*at).is_ok()).filter(|at| {
            let message = format!("cosignature/v1\ntime {at}\n{}", note.text);
            self.verifier.verify(message.as_bytes(), &data[self.id.len() + TIME..])
        });
        let at = valid.ok_or_else(|| format!("the cosignature of {} is not valid", self.name))?;
        Ok(Some(Cosigned { witness: self.name.clone(), at }))
    }
}

/// Returns the number of different public keys among those of witnesses.
///
/// # Errors
///
/// [`Error::Given`] if a text is no key of a witness.
pub fn count_witnesses(vkeys: &[String]) -> Result<usize, Error> {
    Ok(Witness::parse_all(vkeys)?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `fixtures/proofs/make.py`, from the page of C2SP and with another library.
    const NOTE: &str = include_str!("../../../fixtures/proofs/good_other_signatures/checkpoint");
    const VKEY: &str = include_str!("../../../fixtures/proofs/witness.vkey");

    #[test]
    fn a_cosignature_is_valid_for_its_text_and_time_alone() {
        let note = |text: &str| Note::read(text).unwrap();
        let witness = Witness::parse(VKEY.trim()).unwrap();
        let found = witness.cosignature(&note(NOTE)).unwrap().unwrap();
        assert_eq!(found, Cosigned { witness: "witness.example/w".to_owned(), at: 1_764_500_000 });
        witness.cosignature(&note(&NOTE.replacen("later 1", "later 2", 1))).unwrap_err();
        let mut other = note(NOTE);
        let data = &mut other.signatures.iter_mut().find(|(name, _)| *name == found.witness).unwrap().1;
        data[11] ^= 1;
        witness.cosignature(&other).unwrap_err();
        let none = note(&NOTE.replacen("witness.example/w", "witness.example/x", 1));
        assert_eq!(witness.cosignature(&none), Ok(None), "a signature of an unknown key is ignored");
    }

    #[test]
    fn a_key_that_signs_notes_is_no_witness() {
        for vkey in ["nonsense", "example.org/vectors+dbc034ca+AepKbGPinFIKvvVQexMuxfmVR3auvr57kkIe6mkURtIs"]
        {
            assert!(matches!(Witness::parse(vkey), Err(Error::Given(_))), "{vkey}");
        }
    }
}
