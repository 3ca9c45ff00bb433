//! Ranks texts by their words, without a model: BM25, in which a word also counts where only most of it is found.
//!
//! A text gains by each word of the query that it has: more if few texts have it, more if it has it often, less if the
//! text is long. That is BM25. But people write `booking` where a tool is called `book`, and `mailbox` for `mail`. So
//! a word of the query counts as many times as it is *like* the words of the text:
//!
//! ```text
//! like(a, b) = (trigrams of both / trigrams of the shorter one)², if that share is 0.35 at least, else 0
//! ```
//!
//! where the trigrams of `book` are `␣bo`, `boo`, `ook` and `ok␣`. A word is like itself by 1.
//!
//! **Invariant:** it is pure: the same query and texts give the same scores, to the last bit.
//!
//! ## Why not BM25 over the trigrams
//!
//! It adds up what is like a word by chance in all words of a long text: of the 20 questions of
//! `fixtures/index/routing.json` it puts the right server among the first three of 12 for 15, and this for 17.
//!
//! ## What it cannot do
//!
//! It knows no meaning: nothing says that an umbrella has to do with rain. Its constants were chosen with those 20
//! questions at hand; of 12 that were written afterwards, as hard and as short (`fresh`), it finds 6. Whoever needs
//! more configures an embedding model: then `fused` adds what vectors know.

use std::collections::{BTreeMap, BTreeSet};

/// The usual constants of BM25: how soon repetition ceases to count, and how much a text's length does.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Below this share of trigrams, two words are alike by chance.
const LIKE_MIN: f64 = 0.35;

/// Words that say nothing of what is wanted.
const EMPTY: [&str; 73] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could", "did", "do", "does", "for",
    "from", "has", "have", "he", "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its",
    "me", "my", "no", "not", "of", "on", "or", "our", "she", "should", "so", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "to", "us", "was", "we", "were", "what",
    "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "you", "your", "am",
    "been", "some",
];

type Trigrams = BTreeSet<[char; 3]>;

/// A text: how often it has each word.
struct Text {
    words: BTreeMap<String, usize>,
    length: f64,
}

/// How well each text fits the query; 0 where nothing fits.
pub(super) fn scores(query: &str, texts: impl IntoIterator<Item = String>) -> Vec<f64> {
    let texts: Vec<Text> = texts.into_iter().map(|it| Text::of(&it)).collect();
    let all: BTreeSet<&String> = texts.iter().flat_map(|it| it.words.keys()).collect();
    let all: BTreeMap<&String, Trigrams> = all.into_iter().map(|it| (it, trigrams(it))).collect();
    let count = texts.len() as f64;
    let average = texts.iter().map(|it| it.length).sum::<f64>() / count.max(1.0);
    let mut scores = vec![0.0; texts.len()];
    for word in words(query).into_iter().collect::<BTreeSet<_>>() {
        let own = trigrams(&word);
        let alike: BTreeMap<&str, f64> = all
            .iter()
            .map(|(it, trigrams)| (it.as_str(), if **it == word { 1.0 } else { like(&own, trigrams) }))
            .filter(|(_, like)| *like > 0.0)
            .collect();
        // In how many texts it is found: one that has only something alike counts for less.
        let found: f64 = texts.iter().map(|it| it.best(&alike)).sum();
        let rare = (1.0 + (count - found + 0.5) / (found + 0.5)).ln();
        for (score, text) in scores.iter_mut().zip(&texts) {
            let often = text.often(&alike);
            let long = 1.0 - B + B * text.length / average.max(1.0);
            *score += rare * often * (K1 + 1.0) / (often + K1 * long);
        }
    }
    scores
}

impl Text {
    fn of(text: &str) -> Self {
        let mut counted = BTreeMap::new();
        let all = words(text);
        let length = all.len() as f64;
        for word in all {
            *counted.entry(word).or_default() += 1;
        }
        Self { words: counted, length }
    }

    /// How often it has a word, or something like it.
    fn often(&self, alike: &BTreeMap<&str, f64>) -> f64 {
        self.has(alike).map(|(like, times)| like * times).sum()
    }

    /// How like the word is what comes nearest to it.
    fn best(&self, alike: &BTreeMap<&str, f64>) -> f64 {
        self.has(alike).map(|(like, _)| like.sqrt()).fold(0.0, f64::max)
    }

    fn has(&self, alike: &BTreeMap<&str, f64>) -> impl Iterator<Item = (f64, f64)> {
        let has = |(word, times): (&String, &usize)| Some((*alike.get(word.as_str())?, *times as f64));
        self.words.iter().filter_map(has)
    }
}

/// The words of a text in small letters, but for those that say nothing. `list_day` and `listDay` are two words.
fn words(text: &str) -> Vec<String> {
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
    words.retain(|it| !it.is_empty() && !EMPTY.contains(&it.as_str()));
    words
}

/// Every three letters in a row, with a space before and after the word.
fn trigrams(word: &str) -> Trigrams {
    let letters: Vec<char> = std::iter::once(' ').chain(word.chars()).chain([' ']).collect();
    letters.windows(3).filter_map(|it| it.try_into().ok()).collect()
}

fn like(a: &Trigrams, b: &Trigrams) -> f64 {
    let shorter = a.len().min(b.len()).max(1) as f64;
    let share = a.intersection(b).count() as f64 / shorter;
    if share < LIKE_MIN { 0.0 } else { share * share }
}

#[test]
fn words_are_cut_as_people_and_programs_write_them() {
    assert_eq!(
        words("List_day the listDay; für 2 HTTP-Züge!"),
        ["list", "day", "list", "day", "für", "2", "http", "züge"]
    );
    assert_eq!(words("  "), [""; 0]);
}

#[test]
fn a_rare_word_counts_more_and_a_long_text_less() {
    let texts = ["book a room", "book a train", "book a room and a table and a train and a car"];
    let scores = scores("room", texts.map(str::to_owned));
    assert!(scores[0] > scores[2] && scores[2] > 0.0, "{scores:?}");
    assert!(scores[1] < scores[2], "{scores:?}");
    let both = super::lexical::scores("book train", texts.map(str::to_owned));
    assert!(both[1] > both[0], "{both:?}");
}

#[test]
fn a_word_is_found_in_another_but_not_by_chance() {
    let texts = ["mail", "calendar"].map(str::to_owned);
    let inbox = scores("mailbox", texts.clone());
    assert!(inbox[0] > 0.0 && inbox[1] == 0.0, "{inbox:?}");
    assert_eq!(scores("xylophone", texts.clone()), [0.0, 0.0]);
    assert_eq!(scores("what is the", texts), [0.0, 0.0]);
    assert_eq!(scores("mail", []), [0.0; 0]);
}
