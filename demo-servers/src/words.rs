//! Text helpers of the three servers: refusals, names, and similar names.

use std::fmt;

use rmcp::model::{ContentBlock, ErrorData, IntoContents};

/// Maximum length of a name, a title, a day or an email address, in characters.
const MAX_NAME: usize = 200;
/// Maximum similar names that a refusal offers.
const MAX_NEAR: usize = 3;
/// Maximum lines of a list; further lines are counted.
const MAX_LINES: usize = 100;

/// The reason why a tool did not do what was asked, in words that a model can act on. The client receives it as
/// `isError`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(String);

impl Refusal {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Converts the refusal for a prompt, which has no `isError` and answers with a protocol error.
    pub(crate) fn of_prompt(self) -> ErrorData {
        ErrorData::invalid_params(self.0, None)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl IntoContents for Refusal {
    fn into_contents(self) -> Vec<ContentBlock> {
        self.0.into_contents()
    }
}

impl From<anyhow::Error> for Refusal {
    fn from(error: anyhow::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

/// Result of a tool: a short readable text, or a refusal.
pub(crate) type Said = Result<String, Refusal>;

/// Validates a name: trimmed, on one line, not empty, of limited length. `what` names the thing in the refusal.
pub(crate) fn name_of(what: &str, text: &str) -> Said {
    let text = text.trim();
    if text.is_empty() {
        return Err(Refusal::new(format!("the {what} is empty")));
    }
    if text.contains(char::is_control) {
        return Err(Refusal::new(format!("the {what} has to be one line")));
    }
    let length = text.chars().count();
    if length > MAX_NAME {
        return Err(Refusal::new(format!("the {what} has {length} characters, at most {MAX_NAME} are kept")));
    }
    Ok(text.to_owned())
}

/// Normalised form of a name: equal for spellings that differ only in case.
pub(crate) fn key_of(name: &str) -> String {
    name.trim().to_lowercase()
}

/// Refuses an unknown name and offers the nearest known ones.
pub(crate) fn unknown<'a>(what: &str, wanted: &str, known: impl Iterator<Item = &'a str>) -> Refusal {
    let wanted_key = key_of(&wanted.chars().take(MAX_NAME).collect::<String>());
    let mut near: Vec<(usize, &str)> = known.map(|name| (distance(&wanted_key, name), name)).collect();
    if near.is_empty() {
        return Refusal::new(format!("no {what} is called {wanted:?}, there are none yet"));
    }
    near.sort_unstable();
    let near: Vec<&str> = near.into_iter().take(MAX_NEAR).map(|(_, name)| name).collect();
    Refusal::new(format!("no {what} is called {wanted:?}, the nearest are: {}", near.join(", ")))
}

/// Formats lines as a list. The end of a long list is counted, not shown.
pub(crate) fn items(lines: impl ExactSizeIterator<Item = String>) -> String {
    let more = lines.len().saturating_sub(MAX_LINES);
    let mut shown: Vec<String> = lines.take(MAX_LINES).map(|line| format!("- {line}")).collect();
    if more > 0 {
        shown.push(format!("- … and {more} more"));
    }
    shown.join("\n")
}

/// Edit distance between a name and the wanted one, as a whole or by its nearest word.
fn distance(wanted: &str, name: &str) -> usize {
    let name = key_of(name);
    let words = name.split_whitespace().map(|word| edits(wanted, word)).min();
    words.unwrap_or(usize::MAX).min(edits(wanted, &name))
}

/// Levenshtein distance: the fewest letters to insert, delete or replace.
fn edits(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let exchanged = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}
