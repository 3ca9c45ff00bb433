//! Delays of requests that cannot be sent now.

use std::time::Duration;

use queue::{BlockReason, rate_limits::Standing};

use crate::patience::Waiting;

/// Delay before rate limits are asked again after they could not be reached.
pub(crate) const LIMITS_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Shortest delay of a request that is about to be given up.
const MIN_DELAY: Duration = Duration::from_millis(100);

/// Delay of a request, and its reason.
pub(crate) type Blocked = (Duration, BlockReason);

/// The delay of a request whose model or server refuses requests.
pub(crate) fn blocked(standing: Standing) -> Blocked {
    (with_jitter(standing.after), standing.reason)
}

/// The same for a request that is given up some time.
pub(crate) fn waiting_for(standing: Standing, waiting: &Waiting) -> Blocked {
    let left = waiting.left(&standing).max(MIN_DELAY);
    let (after, why) = blocked(standing);
    (after.min(left), why)
}

/// Adds up to a quarter, so that requests refused together do not return together.
pub(crate) fn with_jitter(after: Duration) -> Duration {
    after.mul_f64(1.0 + fastrand::f64() / 4.0)
}

/// Keeps the shorter one of two delays.
pub(crate) fn keep_soonest(soonest: &mut Option<Blocked>, other: Blocked) {
    if soonest.as_ref().is_none_or(|(before, _)| other.0 < *before) {
        *soonest = Some(other);
    }
}
