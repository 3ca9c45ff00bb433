//! Splits texts into the words by which they are compared.
//!
//! A word is a run of letters and digits, in lower case, reduced to its English stem by the Snowball stemmer: `booking`
//! and `booked` become `book`. The most common words are left out.

use rust_stemmers::{Algorithm, Stemmer};

/// Words too common to distinguish texts.
const STOP_WORDS: [&str; 73] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could", "did", "do", "does", "for",
    "from", "has", "have", "he", "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its",
    "me", "my", "no", "not", "of", "on", "or", "our", "she", "should", "so", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "to", "us", "was", "we", "were", "what",
    "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "you", "your", "am",
    "been", "some",
];

/// Returns the stems of a text's words, in order. `list_day` and `listDay` are two words.
///
/// Words with letters outside ASCII are not English, and stay whole.
pub(super) fn stems(text: &str) -> Vec<String> {
    let stemmer = Stemmer::create(Algorithm::English);
    let stem = |word: String| {
        let is_english = word.bytes().all(|byte| byte.is_ascii_lowercase());
        if is_english { stemmer.stem(&word).into_owned() } else { word }
    };
    split(text).into_iter().filter(|word| !STOP_WORDS.contains(&word.as_str())).map(stem).collect()
}

fn split(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in text.chars() {
        let begins = letter.is_uppercase() && was_small;
        was_small = letter.is_lowercase();
        if begins || !letter.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn words_are_split_in_prose_and_in_identifiers() {
    assert_eq!(
        stems("List_day the listDay; für 2 HTTP-Züge!"),
        ["list", "day", "list", "day", "für", "2", "http", "züge"]
    );
    assert_eq!(stems("  "), [""; 0]);
}

#[test]
fn the_forms_of_a_word_have_one_stem_and_other_words_have_others() {
    assert_eq!(stems("Books booked booking"), ["book"; 3]);
    assert_eq!(stems("rain raining rains train trains"), ["rain", "rain", "rain", "train", "train"]);
}
