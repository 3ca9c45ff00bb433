//! Bounds of the numbers that clients send.

use std::ops::RangeInclusive;

use super::problem::{ApiError, Kind};

/// Workers that a quote may assume.
pub(crate) const WORKERS: RangeInclusive<u64> = 1..=1_000_000;

/// Lines of a batch in progress at the same time that a client may ask for.
pub(crate) const WINDOW: RangeInclusive<u64> = 1..=1_000_000;

/// Seconds that a line of a batch may take: up to 30 days.
pub(crate) const LINE_SECONDS: RangeInclusive<u64> = 1..=2_592_000;

/// Checks that a number is within its bounds, if it is set.
pub(crate) fn check(
    field: &str,
    number: Option<u64>,
    bounds: &RangeInclusive<u64>,
) -> Result<Option<u64>, ApiError> {
    match number {
        Some(number) if !bounds.contains(&number) => {
            let (least, most) = (bounds.start(), bounds.end());
            let detail = format!("{field}: it is {number}, and must be from {least} to {most}");
            Err(Kind::Invalid.because(detail).hint("leave it out for the default"))
        }
        number => Ok(number),
    }
}
