//! The end of the wait for a model that refused requests, when a person demands it.

use queue::{EntryState, MAX_LISTED, rate_limits::Subject};
use threads::Log;
use tracing::{info, warn};

use crate::{pauses::enqueue, step::StepRunner};

/// Forgets the refusals of a model, and enqueues the threads that wait for it, of the first 1,000 jobs. All others find the model
/// free at their next try.
pub(crate) async fn resume<L: Log>(steps: &StepRunner<L>, model: String) {
    let subject = Subject::Model(model);
    if let Err(error) = steps.admission.limits.forget(&subject).await {
        return warn!(%subject, %error, "cannot end the wait for a model; resume it again");
    }
    info!(%subject, "the wait for its provider is ended");
    let jobs = match steps.parts.queue.list(MAX_LISTED).await {
        Ok(jobs) => jobs,
        Err(error) => return warn!(%subject, %error, "cannot read which threads wait for a model"),
    };
    let waits = |state: &EntryState| matches!(state, EntryState::Delayed { reason: Some(reason), .. } if subject.is_waited_for(reason));
    for job in jobs.iter().filter(|job| waits(&job.state)) {
        if let Err(error) = enqueue(&steps.parts, job.thread).await {
            warn!(thread = %job.thread, error, "cannot enqueue a thread that waits no longer");
        }
    }
}
