//! The one job of a consumer whose holders have died twice.
//!
//! The consumer may hold jobs of many partitions, and a cluster cannot look at all of them in one script.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::job::{Job, QUARANTINE_DEATHS};

/// The job in quarantine. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Quarantine(Arc<Mutex<Option<Quarantined>>>);

struct Quarantined {
    /// Token of the job; empty while a partition looks for one.
    token: String,
    /// End of its lease. After that the place is free, even if the job was never acknowledged.
    until: Instant,
}

impl Quarantine {
    /// Reserves the place for a takeover, unless it is taken.
    pub(super) fn reserve(&self, lease: Duration) -> bool {
        let (mut place, now) = (self.place(), Instant::now());
        let is_free = place.as_ref().is_none_or(|quarantined| quarantined.until <= now);
        if is_free {
            *place = Some(Quarantined { token: String::new(), until: now + lease });
        }
        is_free
    }

    /// Gives a reserved place to the job in quarantine among those taken over, or leaves it.
    pub(super) fn settle(&self, taken: &[Job], lease: Duration) {
        let is_quarantined =
            |job: &&Job| job.deaths.as_ref().is_some_and(|deaths| deaths.count >= QUARANTINE_DEATHS);
        let job = taken.iter().find(is_quarantined);
        *self.place() = job.map(|it| Quarantined { token: it.token.clone(), until: Instant::now() + lease });
    }

    /// Keeps the place for another lease, if one of these jobs has it.
    pub(super) fn renew<'a>(&self, mut jobs: impl Iterator<Item = &'a Job>, lease: Duration) {
        let mut place = self.place();
        if let Some(quarantined) =
            place.as_mut().filter(|quarantined| jobs.any(|job| job.token == quarantined.token))
        {
            quarantined.until = Instant::now() + lease;
        }
    }

    /// Leaves the place, if this job has it.
    pub(super) fn leave(&self, job: &Job) {
        if job.deaths.is_some() {
            self.place().take_if(|quarantined| quarantined.token == job.token);
        }
    }

    fn place(&self) -> MutexGuard<'_, Option<Quarantined>> {
        // No code panics in the middle of a change, so a poisoned lock guards valid data.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
