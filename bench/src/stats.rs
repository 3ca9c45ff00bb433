//! Summary of several measurements: the median and the range.

use serde::Serialize;

/// Measurements over several rounds. Without any, every number is NaN and is shown as a dash.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// Half of the rounds are at or below it.
    pub(crate) median: f64,
    /// The lowest round.
    pub(crate) low: f64,
    /// The highest round.
    pub(crate) high: f64,
    /// Number of rounds.
    pub(crate) rounds: usize,
}

impl Spread {
    /// Summarises these rounds.
    pub(crate) fn of(rounds: &[f64]) -> Self {
        let sorted = sorted(rounds);
        let low = sorted.first().copied().unwrap_or(f64::NAN);
        let high = sorted.last().copied().unwrap_or(f64::NAN);
        Self { median: median(rounds), low, high, rounds: rounds.len() }
    }
}

/// The middle value, or the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    match sorted.get(middle) {
        None => f64::NAN,
        Some(upper) if sorted.len() % 2 == 1 => *upper,
        Some(upper) => f64::midpoint(sorted[middle - 1], *upper),
    }
}

/// The smallest value that this percentage of all values does not exceed.
pub(crate) fn percentile(values: &[f64], percent: usize) -> f64 {
    let sorted = sorted(values);
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).copied().unwrap_or(f64::NAN)
}

/// Divides one by the other, round by round.
pub(crate) fn ratios(these: &[f64], those: &[f64]) -> Vec<f64> {
    these.iter().zip(those).map(|(this, that)| this / that).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_whatever_the_order() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn spread_names_the_ends() {
        let spread = Spread::of(&[5.0, -1.0, 2.0]);
        assert_eq!(spread, Spread { median: 2.0, low: -1.0, high: 5.0, rounds: 3 });
        let none = Spread::of(&[]);
        assert!(none.low.is_nan() && none.high.is_nan() && none.rounds == 0);
    }

    #[test]
    fn percentile_is_a_value_that_was_measured() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 50), 50.0);
        assert_eq!(percentile(&hundred, 99), 99.0);
        assert_eq!(percentile(&[1.0, 9.0], 99), 9.0);
        assert_eq!(percentile(&[1.0], 0), 1.0);
        assert!(percentile(&[], 50).is_nan());
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        assert_eq!(ratios(&[2.0, 9.0], &[4.0, 3.0]), [0.5, 3.0]);
    }
}
