//! Determines which checkpoints are valid, and which heads they attest.

use std::{collections::BTreeMap, path::PathBuf};

use store::ThreadId;
use uuid::Uuid;

use super::{
    checkpoint::{Place, Signed},
    error::Error,
    heads::Heads,
    index::Index,
    note::Note,
    report::{Found, Report, Seen},
    rotation::Keys,
    witness::{Cosigned, Witness},
};

/// The checkpoints that a store is compared with.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Notes, or folders with one. At least one of them must have a list of heads.
    pub checkpoints: Vec<PathBuf>,
    /// Public keys, of which one must have signed each note. A note beside a checkpoint may name the successor of a key.
    pub vkeys: Vec<String>,
    /// Public keys of witnesses; one that is given twice counts once.
    pub witnesses: Vec<String>,
    /// Number of witnesses that must have cosigned each note.
    pub min_witnesses: usize,
}

/// A note that is not signed by another key.
struct Held<'a> {
    place: &'a Place,
    file: String,
    signed: Signed,
}

/// A list of heads and its length.
struct List {
    heads: Heads,
    length: u64,
}

/// Reads the checkpoints and the heads that they attest.
///
/// Checkpoints may be of different age, each with its own list. The list that matches the note with the most heads is
/// used. Every other note attests a prefix of it, and is also compared with its own list.
pub(super) fn attested(
    report: &mut Report,
    asked: &Asked,
    thread: Option<ThreadId>,
    store: Uuid,
) -> Result<Index, Error> {
    let places: Vec<Place> = asked.checkpoints.iter().map(|checkpoint| Place::of(checkpoint)).collect();
    if places.is_empty() {
        report.skip(
            "changes with recomputed hashes, truncated logs, and threads removed with all rows",
            "no --checkpoint was given, and a hash chain only shows changes made without recomputing it",
        );
        return Ok(Index::default());
    }
    // Notes are read first: a checkpoint that is being created extends the list before the note.
    let held = held(report, asked, &places)?;
    for Held { file, signed, .. } in &held {
        if let Some(other) = signed.store.filter(|other| *other != store) {
            let what = format!("{file} attests the threads of store {other}, and this is store {store}");
            report.found += 1;
            report.findings.push(Found::at("other_store", ("store_identity", &["id"]), what));
        }
    }
    let lists = lists(report, &places);
    let mut furthest: Option<(u64, &List)> = None;
    for list in &lists {
        let mut size = 0;
        for checkpoint in &held {
            if list.has(&checkpoint.signed)? {
                size = size.max(checkpoint.signed.size);
            }
        }
        if furthest.is_none_or(|(most, other)| (most, other.length) < (size, list.length)) {
            furthest = Some((size, list));
        }
    }
    let Some((size, list)) = furthest else {
        let why = format!(
            "no list of heads in {}; hint: also give the folder that contains it",
            places[0].heads.display()
        );
        report.skip("what was attested of each thread", why);
        return Ok(Index::default());
    };
    for checkpoint in &held {
        let own = |own: &&List| own.heads.file == checkpoint.place.heads && own.heads.file != list.heads.file;
        for list in std::iter::once(list).chain(lists.iter().find(own)) {
            list.hold(report, checkpoint)?;
        }
    }
    let length = lists.iter().map(|list| list.length).max().unwrap_or_default();
    if size < length {
        let why = format!(
            "no valid checkpoint attests more than {size} of {length} heads; the others were not used"
        );
        report.skip("the last heads of the list", why);
    }
    match Index::read(&list.heads, size, thread) {
        Err(Error::Damaged(what)) => {
            report.find("forged", what);
            Ok(Index::default())
        }
        outcome => outcome,
    }
}

/// The valid notes. Two notes with the same number of heads must attest the same.
fn held<'a>(report: &mut Report, asked: &Asked, places: &'a [Place]) -> Result<Vec<Held<'a>>, Error> {
    let (mut held, mut roots) = (Vec::new(), BTreeMap::new());
    let keys = Keys::of(&asked.vkeys, places)?;
    let witnesses = Witness::parse_all(&asked.witnesses)?;
    for what in &keys.forked {
        report.find("forked", what.clone());
    }
    for place in places {
        let file = place.note.display().to_string();
        let signed = match Signed::read(&place.note) {
            Ok(signed) => signed,
            Err(Error::Damaged(what)) => {
                report.find("forged", what);
                continue;
            }
            Err(error) => return Err(error),
        };
        let by = (!asked.vkeys.is_empty()).then(|| keys.signed(&signed)).transpose()?;
        let (origin, many) = (signed.origin.clone(), signed.size);
        let cosigned = cosigned(report, &file, &signed, &witnesses, asked.min_witnesses);
        report.checkpoints.push(Seen { file: file.clone(), origin, size: many, signed: by, cosigned });
        if by == Some(false) {
            let what = match asked.vkeys.len() {
                1 => "is not signed by the given key, or not for that key's log",
                _ => "is signed by none of the given keys, or not for that key's log",
            };
            report.find("forged", format!("{file} {what}"));
            continue;
        }
        match roots.insert(many, (signed.root, file.clone())) {
            Some((root, other)) if root != signed.root => {
                let what = format!(
                    "{other} and {file} attest {many} heads each, but not the same ones: there are two histories"
                );
                report.find("forked", what);
            }
            Some(_) | None => {}
        }
        held.push(Held { place, file, signed });
    }
    if asked.vkeys.is_empty() {
        report.skip(
            "who made the checkpoint",
            "no --vkey was given, so anyone who can write the file may have created it",
        );
    }
    Ok(held)
}

/// Returns the cosignatures of the witnesses. One that is not valid is a finding; too few of them are not checked.
fn cosigned(
    report: &mut Report,
    file: &str,
    signed: &Signed,
    witnesses: &[Witness],
    least: usize,
) -> Vec<Cosigned> {
    let mut cosigned = Vec::new();
    let note = Note::read(&String::from_utf8_lossy(&signed.note.to_bytes()));
    for witness in witnesses {
        match note.as_ref().map_err(Clone::clone).and_then(|note| witness.cosignature(note)) {
            Ok(found) => cosigned.extend(found),
            Err(what) => report.find("forged", format!("{file}: {what}")),
        }
    }
    if cosigned.len() < least {
        let why = format!(
            "{} of the {} given witnesses cosigned {file}, and {least} are required",
            cosigned.len(),
            witnesses.len()
        );
        report.skip("whether the holder of the key shows others the same history", why);
    }
    cosigned
}

/// The lists beside the notes.
fn lists(report: &mut Report, places: &[Place]) -> Vec<List> {
    let mut lists = Vec::new();
    for heads in places.iter().filter_map(Place::list) {
        match heads.count() {
            Ok(length) => lists.push(List { heads, length }),
            Err(error) => report.find("forged", error.to_string()),
        }
    }
    lists
}

impl List {
    /// Reports whether the list begins with the heads that the note attests.
    fn has(&self, signed: &Signed) -> Result<bool, Error> {
        Ok(signed.size <= self.length && self.heads.root(signed.size)? == signed.root)
    }

    /// Adds a finding if it does not.
    fn hold(&self, report: &mut Report, Held { file, signed, .. }: &Held<'_>) -> Result<(), Error> {
        let (many, length, list) = (signed.size, self.length, self.heads.file.display());
        if length < many {
            let what = format!(
                "{file} attests {many} heads, and {list} has {length}: it was set back to an earlier state"
            );
            report.find("rolled_back", what);
        } else if !self.has(signed)? {
            let what = format!(
                "{list} lacks the heads that {file} attests: it was changed, or there are two histories"
            );
            report.find("forked", what);
        }
        Ok(())
    }
}
