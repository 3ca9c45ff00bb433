//! Ranks texts by their words, without a model: BM25 over stems.
//!
//! In BM25 a text gains for each word of the query it contains: more for rare words, more for repeated words, less if
//! the text is long. Words are compared by their [stems](super::super::words). A stem that begins another one counts in
//! part, for compounds such as `raincoat` and for the endings of other languages:
//!
//! ```text
//! likeness(rain, raincoat) = (4 letters / 8 letters)², if the shorter one has at least 4 letters
//! ```
//!
//! A word inside another one is no match: `rain` does not find `train`.
//!
//! **Invariant:** pure: the same query and texts give the same scores, to the last bit. A text that shares no word with
//! the query scores 0, so a query that fits nothing finds nothing.
//!
//! ## How much it finds
//!
//! Of 40 servers in `fixtures/index/forty.json`, for 30 questions written before this ranking: the right server is the
//! first for 20 and among the first three for 20. These are all 10 questions in the servers' words and all 10 in other
//! forms of them (`raining`, `renewal`), and none of the 10 paraphrases, which share no word with their server. The
//! ranking before it, by trigrams, had 19 and 20, one of them a paraphrase, by chance. For 5 requests that no server
//! fits, it offered servers for all 5; this one for 3.
//!
//! ## Limits
//!
//! It knows no meaning: nothing relates an umbrella to rain. For more, configure an embedding model: `hybrid` then adds
//! its vectors. The retriever lets a model search once more in the words of a server.

use std::collections::{BTreeMap, BTreeSet};

use crate::words::stems;

/// The usual constants of BM25: saturation of repetitions, and weight of the text's length.
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// Maximum different words of a query that count; a longer text is no query.
const QUERY_MAX: usize = 1_000;

/// Minimum letters of a stem that matches as the beginning of another one; shorter ones begin unrelated words.
const BEGINNING_MIN: usize = 4;

/// Stem counts of a text.
struct Text {
    words: BTreeMap<String, usize>,
    length: f64,
}

/// Scores each text against the query; 0 means no match.
pub(super) fn scores(query: &str, texts: impl IntoIterator<Item = String>) -> Vec<f64> {
    let texts: Vec<Text> = texts.into_iter().map(|text| Text::of(&text)).collect();
    let all: BTreeSet<&str> = texts.iter().flat_map(|text| text.words.keys()).map(String::as_str).collect();
    let count = texts.len() as f64;
    let average = texts.iter().map(|text| text.length).sum::<f64>() / count.max(1.0);
    let mut scores = vec![0.0; texts.len()];
    for word in stems(query).into_iter().collect::<BTreeSet<_>>().into_iter().take(QUERY_MAX) {
        let alike: BTreeMap<&str, f64> = all
            .iter()
            .map(|known| (*known, likeness(&word, known)))
            .filter(|(_, likeness)| *likeness > 0.0)
            .collect();
        // Number of texts with the word; a text with only a similar word counts for less.
        let found: f64 = texts.iter().map(|text| text.best(&alike)).sum();
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
        let all = stems(text);
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

/// Returns 1 for equal stems, less if one begins the other, and 0 otherwise.
fn likeness(a: &str, b: &str) -> f64 {
    if a == b {
        return 1.0;
    }
    let (shorter, longer) = if a.len() < b.len() { (a, b) } else { (b, a) };
    let letters = shorter.chars().count();
    if letters < BEGINNING_MIN || !longer.starts_with(shorter) {
        return 0.0;
    }
    (letters as f64 / longer.chars().count() as f64).powi(2)
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
fn a_word_matches_its_forms_and_compounds_and_not_a_word_around_it() {
    let found = |query: &str, text: &str| scores(query, [text.to_owned(), "nothing alike".to_owned()])[0];
    assert!(found("raining", "It rains.") > found("raincoat", "It rains."), "a compound counts less");
    assert!(found("raincoat", "It rains.") > 0.0 && found("mail", "mailboxes") > 0.0);
    assert!(found("Rechnungen", "eine Rechnung") > 0.0, "endings of other languages");
    assert_eq!(found("rain", "train timetables, brainstorms"), 0.0);
    assert_eq!(found("train", "rain"), 0.0);
    assert_eq!(found("car", "cards and careers"), 0.0, "three letters begin many words");
    assert!(found("card", "cards") > 0.0 && found("form", "formats") > 0.0, "four letters are enough");
}

#[test]
fn what_shares_no_word_scores_nothing() {
    let texts = ["mail", "calendar"].map(str::to_owned);
    assert_eq!(scores("xylophone", texts.clone()), [0.0, 0.0]);
    assert_eq!(scores("what is the", texts), [0.0, 0.0]);
    assert_eq!(scores("mail", []), [0.0; 0]);
}
