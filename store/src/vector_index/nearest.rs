//! Ranking of entries by similarity, for engines without vector search.

use shared::Metric;

use super::{Embedded, Entry, Near};

/// Returns at most `limit` entries with a vector of this model, most similar first and ties by server name.
pub(super) fn nearest(entries: Vec<Entry>, to: &Embedded, metric: Metric, limit: usize) -> Vec<Near> {
    let near = |entry: Entry| {
        let embedded = entry.embedded.filter(|embedded| embedded.model == to.model)?;
        let score = similarity(metric, &to.vector, &embedded.vector)?;
        Some(Near { server: entry.server, text: entry.text, score })
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

/// Returns the similarity of two vectors, or `None` if they are not comparable.
fn similarity(metric: Metric, a: &[f32], b: &[f32]) -> Option<f64> {
    (a.len() == b.len()).then(|| match metric {
        Metric::Cosine => {
            let lengths = (dot(a, a) * dot(b, b)).sqrt();
            if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
        }
        Metric::Dot => dot(a, b),
        Metric::Euclidean => {
            let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
            1.0 / (1.0 + a.iter().zip(b).map(square).sum::<f64>().sqrt())
        }
    })
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

#[test]
fn each_metric_ranks_in_its_own_way() {
    let score = |metric| similarity(metric, &[3.0, 4.0], &[6.0, 8.0]).unwrap();
    assert_eq!((score(Metric::Cosine), score(Metric::Dot)), (1.0, 50.0));
    assert_eq!(score(Metric::Euclidean), 1.0 / 6.0);
    assert_eq!(similarity(Metric::Dot, &[1.0], &[1.0, 2.0]), None);
    assert_eq!(similarity(Metric::Cosine, &[0.0], &[1.0]), Some(0.0));
}
