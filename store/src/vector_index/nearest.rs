//! Ranking of entries by cosine similarity, for engines without vector search.

use super::{Embedded, Entry, Near};

/// Returns at most `limit` entries with a vector of this model, most similar first and ties by server name.
pub(super) fn nearest(entries: Vec<Entry>, to: &Embedded, limit: usize) -> Vec<Near> {
    let near = |it: Entry| {
        let embedded = it.embedded.filter(|it| it.model == to.model)?;
        let score = cosine(&to.vector, &embedded.vector)?;
        Some(Near { server: it.server, text: it.text, score })
    };
    let mut all: Vec<Near> = entries.into_iter().filter_map(near).collect();
    sort(&mut all);
    all.truncate(limit);
    all
}

/// Sorts by similarity, most similar first and ties by server name.
pub(super) fn sort(all: &mut [Near]) {
    all.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.server.cmp(&b.server)));
}

/// Returns the cosine of two vectors, or `None` if they are not comparable.
fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    (a.len() == b.len()).then(|| if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 })
}
