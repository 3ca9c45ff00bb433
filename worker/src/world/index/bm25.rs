//! Ranks texts by their words, without a model: BM25 with partial matches of words.
//!
//! In BM25 a text gains for each word of the query it contains: more for rare words, more for repeated words, less if
//! the text is long. But people write `booking` where a tool is called `book`, and `mailbox` for `mail`. Therefore a
//! word of the query counts in proportion to its *likeness* to the words of the text:
//!
//! ```text
//! like(a, b) = (trigrams of both / trigrams of the shorter one)², if that share is at least 0.35, else 0
//! ```
//!
//! where the trigrams of `book` are `␣bo`, `boo`, `ook` and `ok␣`. A word has likeness 1 to itself.
//!
//! **Invariant:** pure: the same query and texts give the same scores, to the last bit.
//!
//! ## Why not BM25 over trigrams
//!
//! It sums accidental likenesses over all words of a long text. Of the 20 questions of `fixtures/index/routing.json`,
//! it ranks the right server among the first three of 12 for 15, this one for 17.
//!
//! ## Limits
//!
//! It knows no meaning: nothing relates an umbrella to rain. Its constants were chosen with those 20 questions at hand;
//! of 12 questions written afterwards, equally hard and short (`fresh`), it finds 6. For more, configure an embedding
//! model: `hybrid` then adds its vectors.

use std::collections::{BTreeMap, BTreeSet};

/// The usual constants of BM25: saturation of repetitions, and weight of the text's length.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Minimum share of common trigrams; below it, two words are alike by chance.
const LIKE_MIN: f64 = 0.35;

/// Words too common to affect the ranking.
const STOP_WORDS: [&str; 73] = [
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could", "did", "do", "does", "for",
    "from", "has", "have", "he", "her", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its",
    "me", "my", "no", "not", "of", "on", "or", "our", "she", "should", "so", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "to", "us", "was", "we", "were", "what",
    "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "you", "your", "am",
    "been", "some",
];

type Trigrams = BTreeSet<[char; 3]>;

/// Word counts of a text.
struct Text {
    words: BTreeMap<String, usize>,
    length: f64,
}

/// Scores each text against the query; 0 means no match.
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
        // Number of texts with the word; a text with only a similar word counts for less.
        let found: f64 = texts.iter().map(|it| it.best(&alike)).sum();
        let rare = (1.0 + (count - found + 0.5) / (found + 0.5)).ln();
        for (score, text) in scores.iter_mut().zip(&texts) {
            let occurrences = text.occurrences(&alike);
            let long = 1.0 - B + B * text.length / average.max(1.0);
            *score += rare * occurrences * (K1 + 1.0) / (occurrences + K1 * long);
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

    /// Number of occurrences of the word, with similar words counted by likeness.
    fn occurrences(&self, alike: &BTreeMap<&str, f64>) -> f64 {
        self.has(alike).map(|(like, times)| like * times).sum()
    }

    /// Likeness of the text's most similar word.
    fn best(&self, alike: &BTreeMap<&str, f64>) -> f64 {
        self.has(alike).map(|(like, _)| like.sqrt()).fold(0.0, f64::max)
    }

    fn has(&self, alike: &BTreeMap<&str, f64>) -> impl Iterator<Item = (f64, f64)> {
        let has = |(word, times): (&String, &usize)| Some((*alike.get(word.as_str())?, *times as f64));
        self.words.iter().filter_map(has)
    }
}

/// Splits a text into lower-case words without stop words. `list_day` and `listDay` are two words.
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
    words.retain(|it| !it.is_empty() && !STOP_WORDS.contains(&it.as_str()));
    words
}

/// All sequences of three letters, with a space before and after the word.
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
fn words_are_split_in_prose_and_in_identifiers() {
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
    let both = super::bm25::scores("book train", texts.map(str::to_owned));
    assert!(both[1] > both[0], "{both:?}");
}

#[test]
fn a_word_matches_a_similar_word_but_not_by_chance() {
    let texts = ["mail", "calendar"].map(str::to_owned);
    let inbox = scores("mailbox", texts.clone());
    assert!(inbox[0] > 0.0 && inbox[1] == 0.0, "{inbox:?}");
    assert_eq!(scores("xylophone", texts.clone()), [0.0, 0.0]);
    assert_eq!(scores("what is the", texts), [0.0, 0.0]);
    assert_eq!(scores("mail", []), [0.0; 0]);
}
