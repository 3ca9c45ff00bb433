//! What of the heads can be relied on: which checkpoints hold, and how far.

use std::{collections::BTreeMap, path::PathBuf};

use store::ThreadId;

use super::{Error, Place, Report, Seen, checkpoint::Signed, heads::Heads, index::Index};

/// What a store is held against.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Notes, or folders with one. The list of heads is beside one of them.
    pub checkpoints: Vec<PathBuf>,
    /// The key that checks their signatures.
    pub vkey: Option<String>,
}

/// Reads the checkpoints, and the heads that they attest.
pub(super) fn attested(report: &mut Report, asked: &Asked, thread: Option<ThreadId>) -> Result<Index, Error> {
    let places: Vec<Place> = asked.checkpoints.iter().map(|it| Place::of(it)).collect();
    if places.is_empty() {
        report.skip(
            "what was changed and hashed anew, cut off at an end, or removed with all its rows",
            "no --checkpoint was given, and the hashes of a log tell only of changes that were made without them",
        );
        return Ok(Index::default());
    }
    // The notes first: whoever makes a checkpoint meanwhile adds to the list before the note says so.
    let notes: Vec<_> = places.iter().map(|it| (it, Signed::read(&it.note))).collect();
    let mut list = places.iter().find_map(Place::list);
    let length = match list.as_ref().map_or(Ok(0), Heads::count) {
        Ok(length) => length,
        Err(error) => {
            report.find("forged", error.to_string());
            list = None;
            0
        }
    };
    let (mut size, mut roots) = (0, BTreeMap::new());
    for (place, note) in notes {
        let file = place.note.display().to_string();
        let signed = match note {
            Ok(signed) => signed,
            Err(Error::Damaged(what)) => {
                report.find("forged", what);
                continue;
            }
            Err(error) => return Err(error),
        };
        let by = asked.vkey.as_deref().map(|vkey| signed.is_by(vkey)).transpose()?;
        let (origin, many) = (signed.origin.clone(), signed.size);
        report.checkpoints.push(Seen { file: file.clone(), origin, size: many, signed: by });
        if by == Some(false) {
            report.find(
                "forged",
                format!("{file} is not signed by the key that was given, or not for its log"),
            );
            continue;
        }
        match roots.insert(many, (signed.root, file.clone())) {
            Some((root, other)) if root != signed.root => {
                let what = format!(
                    "{other} and {file} attest {many} heads each, and not the same: there are two histories"
                );
                report.find("forked", what);
            }
            Some(_) | None => {}
        }
        let Some(list) = &list else { continue };
        if length < many {
            let what = format!(
                "{file} attests {many} heads, and the list has {length}: it was set back to an earlier state"
            );
            report.find("rolled_back", what);
        } else if list.root(many)? == signed.root {
            size = size.max(many);
        } else {
            let what = format!(
                "{} has not the heads that {file} attests: it was changed, or there are two histories",
                list.file.display()
            );
            report.find("forked", what);
        }
    }
    if asked.vkey.is_none() {
        report.skip(
            "who made the checkpoint",
            "no --vkey was given: whoever can write the file can have made it",
        );
    }
    let Some(list) = list else {
        let why = format!(
            "there is no list of heads in {}: give the place that has it too",
            places[0].heads.display()
        );
        report.skip("what was attested of each thread", why);
        return Ok(Index::default());
    };
    if size < length {
        let why =
            format!("no checkpoint that holds attests more than {size} of {length}: they were not used");
        report.skip("the last heads of the list", why);
    }
    match Index::read(&list, size, thread) {
        Err(Error::Damaged(what)) => {
            report.find("forged", what);
            Ok(Index::default())
        }
        outcome => outcome,
    }
}
