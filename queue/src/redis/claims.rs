//! Claims from all partitions of a Redis Cluster at the same time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::warn;

use super::partition::Partition;
use crate::{
    error::QueueError,
    job::{Job, MAX_CLAIM_WAIT},
    slots::Slots,
};

/// Time during which a partition that failed is not asked again, while others answer.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

const PARTITION_FAILED: &str = "a partition of the queue does not answer; continuing with the others";

/// Keeps the answers of the partitions that answered, and `None` for the others. Fails with the first error if none answered.
pub(super) fn collect_answers<T>(answers: Vec<Result<T, QueueError>>) -> Result<Vec<Option<T>>, QueueError> {
    let mut errors = Vec::new();
    let collected: Vec<Option<T>> =
        answers.into_iter().map(|answer| answer.map_err(|error| errors.push(error)).ok()).collect();
    if collected.iter().any(Option::is_some) {
        errors.iter().for_each(|error| warn!(%error, "{PARTITION_FAILED}"));
        return Ok(collected);
    }
    errors.into_iter().next().map_or(Ok(collected), Err)
}

/// Claims in progress, one per partition. An answer that arrives after a claim has returned is used by the next claim.
#[derive(Default)]
pub(super) struct PartitionClaims {
    in_progress: FuturesUnordered<BoxFuture<'static, Answer>>,
    /// Slots offered to each partition in progress.
    offered: BTreeMap<usize, usize>,
    /// Partitions that failed, with the end of their pause.
    paused: BTreeMap<usize, Instant>,
    /// The partition to ask first next time.
    first: usize,
}

struct Answer {
    partition: usize,
    jobs: Result<Vec<Job>, QueueError>,
}

impl PartitionClaims {
    /// Claims jobs from any partitions, as [`Queue::claim`](crate::Queue::claim) does.
    pub(super) async fn claim(
        &mut self,
        partitions: &[Arc<Partition>],
        slots: &Slots,
    ) -> Result<Vec<Job>, QueueError> {
        let deadline = Instant::now() + MAX_CLAIM_WAIT;
        if !slots.wait_for_free(deadline).await {
            return Ok(Vec::new());
        }
        let mut jobs = Vec::new();
        while jobs.is_empty() {
            self.start(partitions, slots.free());
            let Ok(answer) = timeout_at(deadline, self.in_progress.next()).await else { break };
            if answer.is_none() {
                // Every partition is paused.
                sleep_until(deadline).await;
                break;
            }
            let mut next = answer;
            // Also takes the answers that have arrived in the meantime.
            while let Some(answer) = next.take() {
                match self.finish(answer) {
                    Ok(claimed) => jobs.extend(claimed),
                    Err(error) if jobs.is_empty() && self.paused.len() == partitions.len() => {
                        return Err(error);
                    }
                    Err(error) => warn!(%error, "{PARTITION_FAILED}"),
                }
                next = self.in_progress.next().now_or_never().flatten();
            }
        }
        Ok(jobs)
    }

    /// Starts a claim on as many idle partitions as there are slots, each with an equal share.
    ///
    /// **Invariant:** the slots offered never exceed `free`, so a caller with unchanged slots receives no more jobs than fit.
    fn start(&mut self, partitions: &[Arc<Partition>], free: usize) {
        let total = partitions.len();
        self.paused.retain(|_, until| Instant::now() < *until);
        let free = free.saturating_sub(self.offered.values().sum());
        let idle = (0..total).map(|nth| (self.first + nth) % total);
        let idle = idle.filter(|partition| {
            !self.offered.contains_key(partition) && !self.paused.contains_key(partition)
        });
        let chosen: Vec<usize> = idle.take(free).collect();
        let Some(last) = chosen.last() else { return };
        self.first = last + 1;
        // With fewer slots than partitions, the partitions are asked in turn, and each wait is shorter.
        let asking = u32::try_from(self.offered.len() + chosen.len()).unwrap_or(u32::MAX);
        let wait = MAX_CLAIM_WAIT * asking / u32::try_from(total).unwrap_or(u32::MAX);
        let share = free / chosen.len();
        for number in chosen {
            let partition = Arc::clone(&partitions[number]);
            self.offered.insert(number, share);
            let claim = async move {
                Answer { partition: number, jobs: partition.claim_within(share.into(), wait).await }
            };
            self.in_progress.push(claim.boxed());
        }
    }

    fn finish(&mut self, answer: Answer) -> Result<Vec<Job>, QueueError> {
        self.offered.remove(&answer.partition);
        if answer.jobs.is_err() {
            self.paused.insert(answer.partition, Instant::now() + FAILURE_PAUSE);
        }
        answer.jobs
    }
}
