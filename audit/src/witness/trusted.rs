//! What of the heads can be relied on: which checkpoints hold, and how far.

use std::{collections::BTreeMap, path::PathBuf};

use store::ThreadId;

use super::{Error, Place, Report, Seen, checkpoint::Signed, heads::Heads, index::Index};

/// What a store is held against.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// Notes, or folders with one. A list of heads is beside one of them at least.
    pub checkpoints: Vec<PathBuf>,
    /// The key that checks their signatures.
    pub vkey: Option<String>,
}

/// A note that was not signed by somebody else.
struct Held<'a> {
    place: &'a Place,
    file: String,
    signed: Signed,
}

/// A list of heads, and how many it has.
struct List {
    heads: Heads,
    length: u64,
}

/// Reads the checkpoints, and the heads that they attest.
///
/// Places may have been kept at different times, each with its list: what counts is the list that fits the note that
/// attests most. All other notes attest how it begins, and each is held against the list beside it too.
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
    let held = held(report, asked, &places)?;
    let lists = lists(report, &places);
    let mut furthest: Option<(u64, &List)> = None;
    for list in &lists {
        let mut size = 0;
        for it in &held {
            if list.has(&it.signed)? {
                size = size.max(it.signed.size);
            }
        }
        if furthest.is_none_or(|(most, other)| (most, other.length) < (size, list.length)) {
            furthest = Some((size, list));
        }
    }
    let Some((size, list)) = furthest else {
        let why = format!(
            "there is no list of heads in {}: give the place that has it too",
            places[0].heads.display()
        );
        report.skip("what was attested of each thread", why);
        return Ok(Index::default());
    };
    for it in &held {
        let own = |own: &&List| own.heads.file == it.place.heads && own.heads.file != list.heads.file;
        for list in std::iter::once(list).chain(lists.iter().find(own)) {
            list.hold(report, it)?;
        }
    }
    let length = lists.iter().map(|it| it.length).max().unwrap_or_default();
    if size < length {
        let why =
            format!("no checkpoint that holds attests more than {size} of {length}: they were not used");
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

/// The notes that may be relied on; of two that attest as many heads, both must attest the same.
fn held<'a>(report: &mut Report, asked: &Asked, places: &'a [Place]) -> Result<Vec<Held<'a>>, Error> {
    let (mut held, mut roots) = (Vec::new(), BTreeMap::new());
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
        held.push(Held { place, file, signed });
    }
    if asked.vkey.is_none() {
        report.skip(
            "who made the checkpoint",
            "no --vkey was given: whoever can write the file can have made it",
        );
    }
    Ok(held)
}

/// The lists that are beside the notes.
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
    /// Whether it begins with what the note attests.
    fn has(&self, signed: &Signed) -> Result<bool, Error> {
        Ok(signed.size <= self.length && self.heads.root(signed.size)? == signed.root)
    }

    /// Tells if it does not.
    fn hold(&self, report: &mut Report, Held { file, signed, .. }: &Held<'_>) -> Result<(), Error> {
        let (many, length, list) = (signed.size, self.length, self.heads.file.display());
        if length < many {
            let what = format!(
                "{file} attests {many} heads, and {list} has {length}: it was set back to an earlier state"
            );
            report.find("rolled_back", what);
        } else if !self.has(signed)? {
            let what = format!(
                "{list} has not the heads that {file} attests: it was changed, or there are two histories"
            );
            report.find("forked", what);
        }
        Ok(())
    }
}
