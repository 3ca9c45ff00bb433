//! Acknowledges jobs and claims others in one round trip to Redis.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::RedisResult;
use tokio::{sync::oneshot, time::Instant};

use super::{
    connection::Connection,
    entry::{Entry, claim_limit, encode, millis},
    keys::{GROUP, Keys},
    scripts,
};
use crate::{
    batcher::{Batcher, WhenAlone},
    job::{Job, MAX_CLAIM_WAIT, Schedule},
    lane::Weights,
    slots::Slots,
};

/// Most requests in one script, so that it does not block Redis for long.
const MAX_BATCH: usize = 128;

/// Most delayed jobs that one script moves to their lanes, for the same reason.
pub(super) const MAX_DUE: usize = 256;

/// Batches acknowledgements, and claims jobs with the same script.
///
/// ## Why one script does both
///
/// In a busy worker some jobs end at any time and free slots for others. One script per batch ends jobs and claims their
/// replacements.
///
/// ## Why a claim registers before there is a free slot
///
/// An acknowledgement frees a slot and wakes the task that claims. On a busy machine that task runs a moment too late: one
/// script would end jobs and a second one would claim. A claim that is registered beforehand is served by the script that
/// ends jobs, with as many slots as are free by then.
pub(super) struct AckClaimBatcher {
    requests: Batcher<Request, RedisResult<bool>>,
    pending: PendingSlot,
}

/// The registered claim, if there is one.
type PendingSlot = Arc<Mutex<Option<PendingClaim>>>;

enum Request {
    /// Acknowledges a job and may enqueue a successor. The answer is whether the consumer held the job.
    Ack(Job, Option<Schedule>),
    /// Runs the registered claim, for which a slot is free.
    Claim,
}

/// A claim that waits to be served.
struct PendingClaim {
    slots: Slots,
    /// End of the wait if there is no job.
    deadline: Instant,
    weights: Weights,
    /// Receives the jobs. Nothing is claimed for a caller that has gone.
    reply: oneshot::Sender<RedisResult<Claimed>>,
}

/// Result of a claim.
pub(super) struct Claimed {
    /// Milliseconds until the next delayed job is due; negative if there is none.
    pub(super) next_due_ms: i64,
    /// Time for which the consumer stays registered as waiting, if there was no job.
    pub(super) wait: Duration,
    /// The claimed entries; `None` if the consumer group is missing.
    pub(super) entries: Option<Vec<Entry>>,
}

/// Returned by the script instead of a time if the consumer group is missing.
const NO_GROUP: i64 = -2;

impl AckClaimBatcher {
    pub(super) fn new(keys: Keys, connection: Connection, consumer: &str, lease: Duration) -> Self {
        let (keys, consumer): (_, Arc<str>) = (Arc::new(keys), consumer.into());
        let pending = PendingSlot::default();
        let registered = Arc::clone(&pending);
        let requests = Batcher::new(1, MAX_BATCH, WhenAlone::YieldFirst, move |requests| {
            let (keys, connection, consumer) = (Arc::clone(&keys), connection.clone(), Arc::clone(&consumer));
            let registered = Arc::clone(&registered);
            async move { serve(&keys, &connection, &consumer, lease, requests, &registered).await }
        });
        Self { requests, pending }
    }

    /// Acknowledges a job and returns whether the consumer held it; `None` if the process is shutting down.
    pub(super) async fn ack(&self, job: Job, next: Option<Schedule>) -> Option<RedisResult<bool>> {
        self.requests.submit(Request::Ack(job, next)).await
    }

    /// Claims jobs. Returns `None` if no slot is free by the deadline, if the slots are closed, or if the process is shutting
    /// down.
    ///
    /// **Invariant:** one claim at a time.
    pub(super) async fn claim(
        &self,
        slots: &Slots,
        weights: &Weights,
        deadline: Instant,
    ) -> Option<RedisResult<Claimed>> {
        let (reply, mut claimed) = oneshot::channel();
        let claim = PendingClaim { slots: slots.clone(), deadline, weights: weights.clone(), reply };
        *lock(&self.pending) = Some(claim);
        tokio::select! {
            biased;
            claimed = &mut claimed => return claimed.ok(),
            has_free_slot = slots.wait_for_free(deadline) => {
                if has_free_slot {
                    self.requests.submit(Request::Claim).await;
                }
                // Still registered: there was no free slot, or the slots were closed in the meantime.
                drop(lock(&self.pending).take());
            }
        }
        claimed.await.ok()
    }
}

fn lock(pending: &PendingSlot) -> MutexGuard<'_, Option<PendingClaim>> {
    // No code panics in the middle of a change, so a poisoned lock guards valid data.
    pending.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(
    keys: &Keys,
    connection: &Connection,
    consumer: &str,
    lease: Duration,
    requests: Vec<Request>,
    pending: &PendingSlot,
) -> Vec<RedisResult<bool>> {
    let mut answers: Vec<RedisResult<bool>> = requests.iter().map(|_| Ok(false)).collect();
    let mut acks = Vec::new();
    for (nth, request) in requests.into_iter().enumerate() {
        match request {
            Request::Ack(job, next) => acks.push((nth, job, next)),
            Request::Claim => {}
        }
    }
    let claim =
        lock(pending).take_if(|claim| claim.slots.free() > 0).filter(|claim| !claim.reply.is_closed());
    if acks.is_empty() && claim.is_none() {
        return answers;
    }
    let wait =
        claim.as_ref().map(|it| it.deadline.saturating_duration_since(Instant::now())).unwrap_or_default();
    let mut script = keys.prepare(&scripts::ACK_CLAIM);
    script.arg(GROUP).arg(consumer).arg(millis(lease));
    script.arg(claim.as_ref().map_or(0, |claim| claim_limit(&claim.slots))).arg(MAX_DUE);
    script.arg(millis(wait)).arg(millis(MAX_CLAIM_WAIT));
    let weights: Vec<(&str, u32)> = claim.iter().flat_map(|claim| claim.weights.iter()).collect();
    script.arg(weights.len());
    for (tenant, weight) in weights {
        script.arg(tenant).arg(weight);
    }
    for (_, job, next) in &acks {
        script.arg(&job.token).arg(job.lane.to_string());
        match next.as_ref().map(|schedule| encode(job.thread, schedule)) {
            Some((delay, text)) => script.arg(delay).arg(text),
            None => script.arg("").arg(""),
        };
    }
    let result = connection.run_script::<(BTreeSet<usize>, i64, Vec<(String, String)>)>(&script).await;
    let (lost, claimed) = match result {
        Ok((lost, next_due_ms, entries)) => {
            let entries = entries.into_iter().map(|(token, text)| Entry { token, text, deaths: None });
            let entries = (next_due_ms != NO_GROUP).then(|| entries.collect());
            (Ok(lost), Ok(Claimed { next_due_ms, wait, entries }))
        }
        Err(error) => (Err(error.clone()), Err(error)),
    };
    if let Some(claim) = claim {
        // If the caller has just gone, the claimed jobs become available when their lease expires.
        let _ = claim.reply.send(claimed);
    }
    for (position, (nth, ..)) in acks.iter().enumerate() {
        answers[*nth] = lost.as_ref().map(|positions| !positions.contains(&position)).map_err(Clone::clone);
    }
    answers
}
