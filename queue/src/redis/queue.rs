//! The Redis queue as a whole: distributes calls over its partitions.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::future::{join_all, try_join_all};
use metrics::metrics;
use tokio::sync::Mutex;
use uuid::Uuid;

use super::{
    claims::{PartitionClaims, collect_answers},
    keys::Keys,
    partition::Partition,
    prefix::Prefix,
    quarantine::Quarantine,
    server::RedisServer,
};
use crate::{
    enqueued::{Enqueued, partition_of},
    error::QueueError,
    job::{Depth, EntryState, Job, MAX_CLAIM_WAIT, QueueEntry, Schedule},
    lane::{Lane, Weights},
    queue::Queue,
    slots::Slots,
};

/// Number of partitions in a Redis Cluster.
pub const PARTITIONS: usize = 16;

/// One consumer of the queue in Redis. Its name must be unique: two consumers with one name would each believe that they hold
/// the other's jobs.
pub struct RedisQueue {
    partitions: Vec<Arc<Partition>>,
    claims: Mutex<PartitionClaims>,
}

impl RedisQueue {
    /// Connects to Redis, creates the consumer group if it is missing, and removes consumers that have been idle for a day.
    ///
    /// # Errors
    ///
    /// [`QueueError::Address`], [`QueueError::TooOld`], [`QueueError::Unavailable`] or [`QueueError::Refused`].
    pub async fn connect(
        prefix: &Prefix,
        url: &str,
        lease: Duration,
        consumer: &str,
    ) -> Result<Self, QueueError> {
        let server = RedisServer::parse(url)?;
        let connection = server.connect().await?;
        let keys = match connection.is_cluster() {
            true => (0..PARTITIONS).map(|number| Keys::partition(prefix, number)).collect(),
            false => vec![Keys::single(prefix)],
        };
        let quarantine = Quarantine::default();
        let open = |keys| {
            let (server, connection) = (server.clone(), connection.with_own_health());
            Arc::new(Partition::new(keys, server, connection, lease, consumer, quarantine.clone()))
        };
        let partitions: Vec<Arc<Partition>> = keys.into_iter().map(open).collect();
        // A group that cannot be created now is created by the first call that misses it.
        collect_answers(join_all(partitions.iter().map(|partition| partition.open())).await)?;
        Ok(Self { partitions, claims: Mutex::default() })
    }

    /// Sets the tenant weights; without this, every tenant has weight 1.
    #[must_use]
    pub fn with_weights(mut self, weights: Weights) -> Self {
        for partition in self.partitions.iter_mut().filter_map(Arc::get_mut) {
            partition.weights = weights.clone();
        }
        self
    }

    /// Removes consumers that hold no job and have been idle for this long; returns their number. Without it, every worker
    /// that ever ran would stay in Redis' list.
    ///
    /// # Errors
    ///
    /// [`QueueError`].
    pub async fn remove_idle_consumers(&self, idle: Duration) -> Result<u64, QueueError> {
        let removed = try_join_all(self.partitions.iter().map(|it| it.remove_idle_consumers(idle))).await?;
        Ok(removed.iter().sum())
    }

    fn partition(&self, thread: Uuid) -> &Partition {
        &self.partitions[partition_of(thread, self.partitions.len())]
    }

    /// Groups items by the partition of their thread. Returns the partitions that have any.
    fn by_partition<T: Clone>(&self, items: &[T], thread: impl Fn(&T) -> Uuid) -> Vec<(&Partition, Vec<T>)> {
        let mut groups: Vec<Vec<T>> = self.partitions.iter().map(|_| Vec::new()).collect();
        for item in items {
            groups[partition_of(thread(item), self.partitions.len())].push(item.clone());
        }
        let groups = self.partitions.iter().map(|partition| &**partition).zip(groups);
        groups.filter(|(_, items)| !items.is_empty()).collect()
    }
}

#[async_trait]
impl Queue for RedisQueue {
    async fn enqueue(&self, thread: Uuid, lane: &Lane, schedule: Schedule) -> Result<(), QueueError> {
        metrics().queue.enqueued.inc();
        self.partition(thread).enqueue(thread, lane, schedule).await
    }

    async fn enqueue_many(&self, threads: &[Uuid], lane: &Lane) -> Result<(), QueueError> {
        metrics().queue.enqueued.inc_by(threads.len() as u64);
        let groups = self.by_partition(threads, |thread| *thread);
        let enqueue = groups.iter().map(|(partition, threads)| partition.enqueue_many(threads, lane));
        // Tries every partition, even if one fails.
        join_all(enqueue).await.into_iter().collect()
    }

    async fn claim(&self, slots: Slots) -> Result<Vec<Job>, QueueError> {
        if let [single] = self.partitions.as_slice() {
            let jobs = single.claim_within(slots, MAX_CLAIM_WAIT).await?;
            metrics().queue.claimed.inc_by(jobs.len() as u64);
            return Ok(jobs);
        }
        let mut jobs = self.claims.lock().await.claim(&self.partitions, &slots).await?;
        // A claim with fewer slots than the one before may receive too many jobs; they go back to the queue.
        for job in jobs.split_off(jobs.len().min(slots.free())) {
            self.ack(&job, Some(job.head.map_or(Schedule::Now, Schedule::NowAtSeq))).await?;
        }
        metrics().queue.claimed.inc_by(jobs.len() as u64);
        Ok(jobs)
    }

    async fn renew_leases(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        metrics().queue.renewed.inc_by(jobs.len() as u64);
        let groups = self.by_partition(jobs, |job| job.thread);
        let lost = join_all(groups.iter().map(|(partition, jobs)| partition.renew_leases(jobs))).await;
        Ok(collect_answers(lost)?.into_iter().flatten().flatten().collect())
    }

    async fn ack(&self, job: &Job, next: Option<Schedule>) -> Result<bool, QueueError> {
        metrics().queue.acknowledged.inc();
        self.partition(job.thread).ack(job, next).await
    }

    async fn has_other_holder(&self, job: &Job) -> Result<bool, QueueError> {
        self.partition(job.thread).has_other_holder(job).await
    }

    async fn enqueued(&self) -> Result<Enqueued, QueueError> {
        collect_answers(join_all(self.partitions.iter().map(|it| it.threads())).await).map(Enqueued::new)
    }

    async fn depth(&self) -> Result<Depth, QueueError> {
        let depths = collect_answers(join_all(self.partitions.iter().map(|it| it.depth())).await)?;
        Ok(depths.into_iter().flatten().fold(Depth::default(), |total, depth| Depth {
            waiting: total.waiting + depth.waiting,
            in_flight: total.in_flight + depth.in_flight,
            delayed: total.delayed + depth.delayed,
        }))
    }

    async fn list(&self, limit: usize) -> Result<Vec<QueueEntry>, QueueError> {
        let lists = collect_answers(join_all(self.partitions.iter().map(|it| it.list(limit))).await)?;
        let mut entries: Vec<QueueEntry> = lists.into_iter().flatten().flatten().collect();
        // The sort is stable, and each partition's list already has this order.
        entries.sort_by_key(|entry| match &entry.state {
            EntryState::InFlight { .. } => (0, Duration::ZERO),
            EntryState::Waiting { .. } => (1, Duration::ZERO),
            EntryState::Delayed { due_in, .. } => (2, *due_in),
        });
        entries.truncate(limit);
        Ok(entries)
    }
}
