//! What a server offers, in one text that can be searched and that a model can read.

use sha2::{Digest as _, Sha256};
use shared::Description;

use super::cut;

/// How much of one thing's own description is taken, in characters: the first sentences say what it is for.
const LINE_MAX: usize = 500;

/// How long a text may become, in characters: a server may offer thousands of things.
const TEXT_MAX: usize = 50_000;

/// How many characters of the hash are kept: enough to tell a few thousand texts apart.
const HASH_LENGTH: usize = 16;

/// A thing that a server offers: its name and what it is for.
pub(super) type Offered = (String, String);

/// The operator's line, then what there is of each kind by name; a kind of which there is nothing is left out.
pub(super) fn description(about: &str, kinds: [(&str, Vec<Offered>); 3]) -> Description {
    let mut lines: Vec<String> = Some(on_one_line(about)).into_iter().filter(|it| !it.is_empty()).collect();
    for (title, mut things) in kinds {
        if things.is_empty() {
            continue;
        }
        // Sorted, so that the hash does not depend on the order in which a server happens to list.
        things.sort();
        things.dedup();
        lines.push(format!("{title}:"));
        lines.extend(things.into_iter().map(|(name, what)| match cut(&on_one_line(&what), LINE_MAX) {
            what if what.is_empty() => format!("- {name}"),
            what => format!("- {name}: {what}"),
        }));
    }
    let text = cut(&lines.join("\n"), TEXT_MAX);
    let mut hash = hex::encode(Sha256::digest(&text));
    hash.truncate(HASH_LENGTH);
    Description { text, hash }
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
