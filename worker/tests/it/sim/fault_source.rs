//! The random generator of a simulation.

use std::sync::{Arc, Mutex};

/// The random generator that decides everything left to chance.
#[derive(Clone)]
pub(super) struct FaultSource(Arc<Mutex<fastrand::Rng>>);

impl FaultSource {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        self.0.lock().unwrap().u64(..limit)
    }

    /// Returns true once in `times` calls, on average.
    pub(super) fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(super) fn one_of<'a, T>(&self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    pub(super) fn id(&self) -> uuid::Uuid {
        uuid::Uuid::from_u128(self.0.lock().unwrap().u128(..))
    }
}
