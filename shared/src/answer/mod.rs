//! Answers of people: yes, no, stop or change, in the words that people use.
//!
//! A table of phrases reads an answer first. A model reads the others, see [`ReadAnswer`](crate::ReadAnswer).
//!
//! **Invariant:** doubt is never a yes. Every word of a yes is in the table, letter for letter, and no model can say
//! yes for a person.

mod phrases;

use phrases::{PHRASES, Tag, WORDS_MAX};

/// Meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The person agrees.
    Yes,
    /// The person refuses.
    No,
    /// The person wants nothing more of it.
    Stop,
    /// The person wants a change and has not said which.
    Change,
    /// The answer says what to do instead: a change, or another wish. Only a model finds this.
    Wish,
    /// The meaning is not certain.
    Unclear,
}

/// Maximum length of an answer that the table reads, in characters.
const LENGTH_MAX: usize = 120;

impl Answer {
    /// Reads an answer by the table alone. Never returns [`Answer::Wish`].
    ///
    /// A number is unclear, because it may be the number of an option or of a step.
    pub fn of(text: &str) -> Self {
        let Some(tags) = tags(text) else { return Answer::Unclear };
        let has = |tag| tags.contains(&tag);
        let (yes, no, not) = (has(Tag::Yes), has(Tag::No), has(Tag::Not));
        match (has(Tag::Stop) || has(Tag::Drop), has(Tag::Change)) {
            // “Don't stop” and “do not change it” ask to go on, and may not.
            (true, _) | (_, true) if not => Answer::Unclear,
            (true, true) => Answer::Unclear,
            (true, false) if yes && no => Answer::Unclear,
            (true, false) => Answer::Stop,
            (false, true) if yes && no => Answer::Unclear,
            (false, true) => Answer::Change,
            (false, false) if yes && !no && !not => Answer::Yes,
            (false, false) if !yes && (no || not) => Answer::No,
            (false, false) => Answer::Unclear,
        }
    }

    /// Returns whether an answer to an open question dismisses it: “forget it”.
    ///
    /// Fewer phrases count than in [`Answer::of`], because “cancel” and “no” may be the value that was asked for.
    pub fn is_dismissal(text: &str) -> bool {
        let other = |tag: &Tag| !matches!(tag, Tag::Drop | Tag::No | Tag::Filler);
        tags(text).is_some_and(|tags| tags.contains(&Tag::Drop) && !tags.iter().any(other))
    }

    /// Returns the option that an answer names, next to words of politeness: “skip it, please”.
    pub fn option<'a>(options: &'a [String], text: &str) -> Option<&'a str> {
        let core = |text: &str| {
            let words = words(text)?;
            let is_filler = |words: &[String]| tag(words) == Some(Tag::Filler);
            let start = (0..words.len()).find(|n| !is_filler(&words[*n..=*n]))?;
            let end = (start..words.len()).rfind(|n| !is_filler(&words[*n..=*n]))?;
            Some(words[start..=end].to_vec())
        };
        let said = core(text)?;
        options.iter().find(|option| core(option).as_ref() == Some(&said)).map(String::as_str)
    }
}

/// Returns the meanings of the phrases that a text consists of, or `None` if any of it is not in the table.
fn tags(text: &str) -> Option<Vec<Tag>> {
    let words = words(text)?;
    let mut tags = Vec::new();
    let mut rest = &words[..];
    while !rest.is_empty() {
        let longest = (1..=WORDS_MAX.min(rest.len())).rev();
        let (length, tag) = longest.filter_map(|n| Some((n, tag(&rest[..n])?))).next()?;
        tags.push(tag);
        rest = &rest[length..];
    }
    Some(tags)
}

fn tag(words: &[String]) -> Option<Tag> {
    let phrase = words.join(" ");
    PHRASES.iter().find(|(_, phrases)| phrases.contains(&&*phrase)).map(|(tag, _)| *tag)
}

/// Splits a text into words, or returns `None` if it is too long.
///
/// ## Why no accents, look-alikes or invisible characters are removed
///
/// Each removal turns a text that is not a yes into one. A letter of another alphabet, a character without width and a
/// question mark stay, so the word is not in the table.
fn words(text: &str) -> Option<Vec<String>> {
    if text.chars().nth(LENGTH_MAX).is_some() {
        return None;
    }
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            '\u{300}'..='\u{36f}' => match plain.pop() {
                Some(base) => match composed(base, letter) {
                    Some(both) => plain.push(both),
                    None => plain.extend([base, letter]),
                },
                None => plain.push(letter),
            },
            '’' => plain.push('\''),
            'A'..='Z' => plain.push(letter.to_ascii_lowercase()),
            // Other capitals have look-alikes: the sign for kelvin has the small letter “k”.
            'À'..='Ö' | 'Ø'..='Þ' => plain.extend(letter.to_lowercase()),
            _ => plain.push(letter),
        }
    }
    let separates = |char: char| {
        char.is_ascii_whitespace()
            || matches!(
                char,
                '\u{a0}' | '\u{202f}' | '.' | ',' | '!' | '¡' | ';' | ':' | '…' | '-' | '–' | '—'
            )
            || matches!(char, '"' | '“' | '”' | '„' | '«' | '»' | '(' | ')' | '*' | '`')
    };
    Some(plain.split(separates).filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

/// Returns the letter that a base letter and a separate accent form, for the languages of the table.
fn composed(base: char, accent: char) -> Option<char> {
    let (bases, letters) = match accent {
        '\u{300}' => ("aeu", "àèù"),
        '\u{301}' => ("aeiou", "áéíóú"),
        '\u{302}' => ("aeiou", "âêîôû"),
        '\u{303}' => ("n", "ñ"),
        '\u{308}' => ("aeiou", "äëïöü"),
        '\u{327}' => ("c", "ç"),
        _ => return None,
    };
    bases.chars().zip(letters.chars()).find(|(letter, _)| *letter == base).map(|(_, base)| base)
}

#[cfg(test)]
mod tests;
