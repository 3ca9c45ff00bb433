//! The part of long tests that `./check` runs.

/// One of this many places is tested.
const APART: usize = 10;

/// A choice of places that is spread evenly: every tenth of all places offered. With `TURNFOLD_LONG=1` it is all of them.
pub(crate) struct Sample {
    is_long: bool,
    offered: usize,
}

impl Sample {
    /// Creates a sample. Samples with different numbers choose different places.
    pub(crate) fn new(number: usize) -> Self {
        Self { is_long: is_long(), offered: number }
    }

    /// Returns whether the next place is tested.
    pub(crate) fn takes_next(&mut self) -> bool {
        self.offered += 1;
        self.is_long || self.offered.is_multiple_of(APART)
    }

    /// Returns the least number of tested places of which `all` are the least without sampling.
    pub(crate) fn at_least(all: usize) -> usize {
        if is_long() { all } else { all / APART }
    }
}

/// Returns whether long tests run completely.
pub(crate) fn is_long() -> bool {
    std::env::var("TURNFOLD_LONG").is_ok_and(|value| value == "1")
}
