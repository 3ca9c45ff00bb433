//! Ranks by vectors and words together.
//!
//! ```text
//! score = cosine + (highest cosine - lowest) · (word score / best word score)
//! ```
//!
//! A name or number shared by question and text is found by words and blurred by vectors. Paraphrases are found by
//! vectors. The best match by words is worth as much as the whole distance between the best and the worst vector.
//!
//! ## Why not by rank, 1 / (60 + rank)
//!
//! Reciprocal rank fusion is common, but ignores by how much a server fits. Most texts share no word with a question,
//! so most ranks by words are arbitrary, and all sums are nearly equal: no caller could drop results below a share of
//! the best score. Here each ranking counts by what it distinguishes, on any scale of the model's cosines, and without
//! a matching word the score is the cosine.
//!
//! **Invariant:** the questions of `fixtures/index/routing.json` chose nothing here: there is no constant to tune.

use store::Near;

/// Adds word scores to the scores of `near`; `by_words` has one score for each entry.
pub(super) fn fuse(near: &mut [Near], by_words: &[f64]) {
    let highest = near.iter().map(|hit| hit.score).fold(f64::NEG_INFINITY, f64::max);
    let lowest = near.iter().map(|hit| hit.score).fold(f64::INFINITY, f64::min);
    let best = by_words.iter().copied().fold(0.0, f64::max);
    if best > 0.0 {
        for (hit, words) in near.iter_mut().zip(by_words) {
            hit.score += (highest - lowest) * words / best;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fused(cosines: &[f64], by_words: &[f64]) -> Vec<f64> {
        let near = |score: &f64| Near { server: String::new(), text: String::new(), score: *score };
        let mut near: Vec<Near> = cosines.iter().map(near).collect();
        fuse(&mut near, by_words);
        near.iter().map(|hit| hit.score).collect()
    }

    #[test]
    fn the_best_words_are_worth_the_whole_spread_of_the_vectors() {
        assert_eq!(fused(&[0.5, 0.25, 0.0], &[0.0, 3.0, 6.0]), [0.5, 0.5, 0.5]);
        // On another scale of cosines the order is the same.
        assert_eq!(fused(&[0.875, 0.8125, 0.75], &[0.0, 3.0, 6.0]), [0.875, 0.875, 0.875]);
    }

    #[test]
    fn where_no_word_is_found_the_vectors_decide_alone() {
        assert_eq!(fused(&[0.5, 0.25], &[0.0, 0.0]), [0.5, 0.25]);
        assert_eq!(fused(&[0.5], &[2.0]), [0.5]);
        assert_eq!(fused(&[], &[]), [0.0; 0]);
    }
}
