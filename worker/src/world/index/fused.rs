//! Ranks by what a model's vectors say and by words, both at once.
//!
//! ```text
//! score = cosine + (highest cosine - lowest) · (score by words / the best one's)
//! ```
//!
//! A name or a number that question and text share is what words find and vectors blur; what is meant by other words is
//! what vectors find. The best fit by words is worth as much as all that tells the vectors' best from their worst.
//!
//! ## Why not by places, 1 / (60 + place)
//!
//! Adding up places is the usual way, and forgets by how much a server fits. Most texts share nothing with a question,
//! so most places by words are given away by chance; and all sums are nearly alike, so that nobody could leave out who
//! scores but a part of the best. Here each ranking counts for what it tells apart, whatever the scale of the model's
//! cosines, and where no word is found the score is the cosine.
//!
//! **Invariant:** nothing in it was chosen by the questions of `fixtures/index/routing.json`: there is no constant to choose.

use store::Near;

/// Scores anew what is near a query, by its words too: `by_words` has a score for each.
pub(super) fn fuse(near: &mut [Near], by_words: &[f64]) {
    let highest = near.iter().map(|it| it.score).fold(f64::NEG_INFINITY, f64::max);
    let lowest = near.iter().map(|it| it.score).fold(f64::INFINITY, f64::min);
    let best = by_words.iter().copied().fold(0.0, f64::max);
    if best > 0.0 {
        for (it, words) in near.iter_mut().zip(by_words) {
            it.score += (highest - lowest) * words / best;
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
        near.iter().map(|it| it.score).collect()
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
