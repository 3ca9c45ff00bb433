//! The lengths of intervals, and counts by interval of each length.

use std::collections::BTreeMap;

use super::tally::{Ends, ResponseSums, Responses, Tally};

const SECOND: i64 = 1_000_000;

/// Length of the intervals of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    /// One minute, kept for two hours.
    Minute,
    /// A quarter of an hour, kept for two days.
    Quarter,
    /// One hour, kept for eight days.
    Hour,
}

impl Resolution {
    pub(crate) const ALL: [Self; 3] = [Self::Minute, Self::Quarter, Self::Hour];

    /// Returns the length of an interval in seconds.
    pub fn seconds(self) -> i64 {
        match self {
            Self::Minute => 60,
            Self::Quarter => 15 * 60,
            Self::Hour => 60 * 60,
        }
    }

    /// Returns the start of the interval that contains this time; both in microseconds since the Unix epoch.
    pub fn start(self, at: i64) -> i64 {
        at - at.rem_euclid(self.seconds() * SECOND)
    }

    /// Returns the start of the first interval that is kept at this time.
    pub(crate) fn kept_since(self, now: i64) -> i64 {
        let hours = match self {
            Self::Minute => 2,
            Self::Quarter => 2 * 24,
            Self::Hour => 8 * 24,
        };
        self.start(now) - hours * 60 * 60 * SECOND
    }
}

/// Counts by interval, of every length for which the interval is still kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Intervals {
    pub(super) ends: BTreeMap<(Resolution, i64, Ends), u64>,
    pub(super) responses: BTreeMap<(Resolution, i64, Responses), ResponseSums>,
}

impl Intervals {
    /// Adds counts by minute.
    pub fn add(&mut self, tally: &Tally, now: i64) {
        for resolution in Resolution::ALL {
            let kept = |at: &i64| resolution.kept_since(now) <= *at;
            for ((at, subject), turns) in tally.ends.iter().filter(|((at, _), _)| kept(at)) {
                *self.ends.entry((resolution, resolution.start(*at), subject.clone())).or_default() += turns;
            }
            for ((at, subject), sums) in tally.responses.iter().filter(|((at, _), _)| kept(at)) {
                let interval = (resolution, resolution.start(*at), subject.clone());
                self.responses.entry(interval).or_default().add(sums);
            }
        }
    }

    /// Adds counts by interval.
    pub fn merge(&mut self, other: Self) {
        for (interval, turns) in other.ends {
            *self.ends.entry(interval).or_default() += turns;
        }
        for (interval, sums) in other.responses {
            self.responses.entry(interval).or_default().add(&sums);
        }
    }

    /// Keeps the intervals for which `keeps` returns true.
    pub(super) fn retain(&mut self, keeps: impl Fn(Resolution, i64) -> bool) {
        self.ends.retain(|(resolution, start, _), _| keeps(*resolution, *start));
        self.responses.retain(|(resolution, start, _), _| keeps(*resolution, *start));
    }
}
