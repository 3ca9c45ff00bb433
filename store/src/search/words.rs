//! Words of a text, as the index keeps them and as a query names them.
//!
//! A word is a run of letters and digits, in lower case. Where punctuation joins two of them without a blank, as in `A-10/77`, the
//! pairs `a-10` and `10/77` are words too. A query for `A-10/77` asks for its words and its pairs, so it finds the number as it is
//! written, also inside of a longer address. Scripts without blanks are split into overlapping pairs of characters.
//!
//! ## Why both engines index the same words
//!
//! PostgreSQL's parser recognizes addresses, paths and numbers by rules of its own, and SQLite's tokenizers have others. Words that are
//! split here are found alike on both, and nothing that a person types is syntax: `AND`, `NEAR`, quotes and stars are words or blanks.

use std::collections::BTreeSet;

/// Maximum size of a word in bytes. Longer runs, such as encoded files, are not indexed.
const WORD_BYTES: usize = 64;

/// Maximum number of joining characters between two words of a pair.
const JOIN_CHARS: usize = 3;

/// Maximum number of different words in a query.
pub(crate) const MOST_WORDS: usize = 16;

/// Maximum length of a query in characters.
pub(crate) const QUERY_CHARS: usize = 256;

/// A word of a text, with the bytes where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    start: usize,
    end: usize,
}

/// Words of a text, in their order.
fn runs(text: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut start = None;
    let mut previous: Option<(usize, char)> = None;
    for (at, char) in text.char_indices() {
        if is_ideograph(char) {
            if let Some(start) = start.take() {
                runs.push(Run { start, end: at });
            }
            let end = at + char.len_utf8();
            match previous.filter(|(_, before)| is_ideograph(*before)) {
                Some((before, _)) => runs.push(Run { start: before, end }),
                None if !text[end..].chars().next().is_some_and(is_ideograph) => {
                    runs.push(Run { start: at, end });
                }
                None => {}
            }
        } else if char.is_alphanumeric() || is_mark(char) {
            start.get_or_insert(at);
        } else if let Some(start) = start.take() {
            runs.push(Run { start, end: at });
        }
        previous = Some((at, char));
    }
    if let Some(start) = start {
        runs.push(Run { start, end: text.len() });
    }
    runs
}

/// Returns true for the characters of scripts that write no blanks between words.
fn is_ideograph(char: char) -> bool {
    matches!(char, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' |
        '\u{20000}'..='\u{2ffff}')
}

/// Returns true for marks that change the letter before them.
fn is_mark(char: char) -> bool {
    matches!(char, '\u{300}'..='\u{36f}')
}

/// Returns true for characters that join words. The tokenizer of SQLite's table takes the same ones as part of a word.
fn is_joining(char: char) -> bool {
    matches!(char, '-' | '_' | '.' | '/' | ':' | '@' | '#' | '+' | '&' | '%' | '$' | '~')
}

/// Returns the text of a run in lower case, if it is short enough. Marks are composed with their letters where that is common.
fn word(text: &str) -> Option<String> {
    let word: String = text.chars().flat_map(char::to_lowercase).collect();
    (word.len() <= WORD_BYTES).then_some(word)
}

/// Returns the pair of two neighbouring runs, if only joining characters stand between them.
fn pair(text: &str, left: Run, right: Run) -> Option<String> {
    let join = text.get(left.end..right.start)?;
    if join.is_empty() || !join.chars().all(is_joining) || JOIN_CHARS < join.len() {
        return None;
    }
    Some(format!("{}{join}{}", word(&text[left.start..left.end])?, word(&text[right.start..right.end])?))
}

/// Adds the different words of a text to `words`, until there are `most`.
pub(crate) fn add_words(text: &str, words: &mut BTreeSet<String>, most: usize) {
    let runs = runs(text);
    for (nth, run) in runs.iter().enumerate() {
        if most <= words.len() {
            return;
        }
        words.extend(word(&text[run.start..run.end]));
        words.extend(runs.get(nth + 1).and_then(|next| pair(text, *run, *next)));
    }
}

/// Words that an event must have to match a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryWords(pub(crate) BTreeSet<String>);

impl QueryWords {
    /// Reads the words of a query.
    ///
    /// # Errors
    ///
    /// The reason for which the query is refused, and a hint.
    pub fn parse(query: &str) -> Result<Self, (String, &'static str)> {
        if QUERY_CHARS < query.chars().count() {
            let what = format!("the text to search for is longer than {QUERY_CHARS} characters");
            return Err((what, "write fewer words"));
        }
        let mut words = BTreeSet::new();
        add_words(query, &mut words, 2 * MOST_WORDS + 1);
        if words.is_empty() {
            let what = format!("{query:?} has no word that can be searched for");
            return Err((what, "write letters or digits, in words of at most 64 bytes"));
        }
        if 2 * MOST_WORDS < words.len() {
            return Err((format!("there are more than {MOST_WORDS} words"), "write fewer words"));
        }
        Ok(Self(words))
    }

    /// Returns the number of these words that a text has.
    pub(crate) fn different_in(&self, text: &str) -> usize {
        let mut words = BTreeSet::new();
        add_words(text, &mut words, usize::MAX);
        self.0.intersection(&words).count()
    }

    /// Returns the places of these words in a text, as ranges of bytes, in order and without overlaps.
    pub(crate) fn places(&self, text: &str) -> Vec<(usize, usize)> {
        let mut places: Vec<(usize, usize)> = Vec::new();
        for run in runs(text) {
            if !word(&text[run.start..run.end]).is_some_and(|word| self.0.contains(&word)) {
                continue;
            }
            match places.last_mut() {
                Some((_, end)) if run.start < *end => *end = run.end,
                Some(_) | None => places.push((run.start, run.end)),
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = BTreeSet::new();
        add_words(text, &mut words, 100);
        words.into_iter().collect()
    }

    #[test]
    fn words_are_split_at_blanks_and_joined_by_punctuation() {
        for (text, expected) in [
            ("Two words.", vec!["two", "words"]),
            ("A-10/77", vec!["10", "10/77", "77", "a", "a-10"]),
            ("(order: A-10)", vec!["10", "a", "a-10", "order"]),
            ("ada@example.org!", vec!["ada", "ada@example", "example", "example.org", "org"]),
            ("a---b a----b", vec!["a", "a---b", "b"]),
            ("Grüße ÉTÉ", vec!["grüße", "été"]),
            ("O'Hara \"x\" *y* AND", vec!["and", "hara", "o", "x", "y"]),
            ("東京都 A", vec!["a", "京都", "東京"]),
            ("水", vec!["水"]),
            ("日本x", vec!["x", "日本"]),
            ("\u{0}\u{1}…", vec![]),
        ] {
            let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
            assert_eq!(words(text), expected, "{text}");
        }
        assert_eq!(words(&"x".repeat(65)), Vec::<String>::new());
    }

    #[test]
    fn queries_that_ask_for_nothing_or_too_much_are_refused() {
        assert!(QueryWords::parse("").is_err());
        assert!(QueryWords::parse("\"*\" ()").is_err());
        assert!(QueryWords::parse(&"word ".repeat(60)).is_err());
        let many: Vec<String> = (0..40).map(|nth| format!("w{nth}")).collect();
        assert!(QueryWords::parse(&many.join(" ")).is_err());
        assert!(QueryWords::parse("NEAR(a b)").is_ok());
    }

    #[test]
    fn places_are_those_of_whole_words() {
        let query = QueryWords::parse("order A-10 東京都").unwrap();
        let text = "Orders of order A-10: 東京都";
        let found: Vec<&str> = query.places(text).into_iter().map(|(start, end)| &text[start..end]).collect();
        assert_eq!(found, ["order", "A", "10", "東京都"]);
    }
}
