//! One partition of the queue in Redis: a complete queue whose keys share a hash tag.

use std::{collections::BTreeSet, time::Duration};

use redis::RedisError;
use tokio::{sync::Mutex, time::Instant};
use tracing::debug;
use uuid::Uuid;

use super::{
    ack_claim::AckClaimBatcher,
    connection::Connection,
    consumer::ConsumerState,
    delay_timer::DelayTimer,
    entry::{claim_limit, encode, millis},
    keys::{GROUP, Keys},
    quarantine::Quarantine,
    scripts,
    server::RedisServer,
};
use crate::{
    enqueued::BloomFilter,
    error::QueueError,
    job::{Depth, Job, QueueEntry, Schedule},
    lane::{Lane, Weights},
    slots::Slots,
};

/// Bounds of one script, so that it does not block Redis for long.
const MAX_ENQUEUED: usize = 1000;
const MAX_RENEWED: usize = 128;

/// Time after which an idle consumer without jobs is removed from the group.
const IDLE_CONSUMER_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// One consumer of one partition.
pub(super) struct Partition {
    pub(super) keys: Keys,
    pub(super) server: RedisServer,
    pub(super) connection: Connection,
    pub(super) consumer: String,
    pub(super) lease: Duration,
    pub(super) delay_timer: DelayTimer,
    pub(super) weights: Weights,
    pub(super) ack_claim: AckClaimBatcher,
    pub(super) quarantine: Quarantine,
    state: Mutex<ConsumerState>,
}

impl Partition {
    pub(super) fn new(
        keys: Keys,
        server: RedisServer,
        connection: Connection,
        lease: Duration,
        consumer: &str,
        quarantine: Quarantine,
    ) -> Self {
        Self {
            ack_claim: AckClaimBatcher::new(keys.clone(), connection.clone(), consumer, lease),
            keys,
            server,
            connection,
            consumer: consumer.to_owned(),
            lease,
            delay_timer: DelayTimer::new(Instant::now()),
            weights: Weights::default(),
            quarantine,
            state: Mutex::new(ConsumerState::new()),
        }
    }

    /// Creates the consumer group if it is missing, and removes idle consumers.
    pub(super) async fn open(&self) -> Result<(), QueueError> {
        self.create_group().await?;
        // The first reading, to which the check before taking over jobs compares.
        self.is_clock_steady(&mut *self.state.lock().await).await?;
        // Optional housekeeping: a failure is made good at the next start.
        match self.remove_idle_consumers(IDLE_CONSUMER_TTL).await {
            Ok(removed) => debug!(removed, "removed idle consumers"),
            Err(error) => debug!(%error, "cannot remove idle consumers"),
        }
        Ok(())
    }

    pub(super) async fn threads(&self) -> Result<BloomFilter, QueueError> {
        self.read_threads().await.map_err(|error| self.server.error("list threads", &error))
    }

    pub(super) async fn remove_idle_consumers(&self, idle: Duration) -> Result<u64, QueueError> {
        let mut script = self.keys.prepare(&scripts::REMOVE_IDLE_CONSUMERS);
        script.arg(GROUP).arg(millis(idle));
        let removed = self.connection.run_script(&script).await;
        removed.map_err(|error| self.server.error("remove idle consumers", &error))
    }

    /// Creates the consumer group. It starts at id 0, so entries written before the group existed are delivered too.
    pub(super) async fn create_group(&self) -> Result<(), QueueError> {
        let mut command = redis::cmd("XGROUP");
        command.arg("CREATE").arg(&self.keys.claimed).arg(GROUP).arg(0).arg("MKSTREAM");
        match self.connection.query::<()>(&command).await {
            Err(error) if error.code() != Some("BUSYGROUP") => {
                Err(self.server.error("create the consumer group", &error))
            }
            _ => Ok(()),
        }
    }

    /// Claims jobs as [`Queue::claim`](crate::Queue::claim) does, and waits at most this long.
    pub(super) async fn claim_within(
        &self,
        slots: Slots,
        max_wait: Duration,
    ) -> Result<Vec<Job>, QueueError> {
        let mut state = self.state.lock().await;
        let deadline = Instant::now() + max_wait;
        loop {
            let mut jobs = Vec::new();
            // A busy worker takes over expired leases too; otherwise no worker might.
            if Instant::now() >= self.next_takeover(&state) {
                if !slots.wait_for_free(deadline).await {
                    return Ok(Vec::new());
                }
                jobs = self.take_over_expired(&mut state, claim_limit(&slots)).await?;
            }
            if jobs.is_empty() {
                let deadline = deadline.min(self.next_takeover(&state));
                let Some((claimed, wait)) = self.claim_waiting(&slots, deadline).await? else {
                    return Ok(Vec::new());
                };
                jobs = claimed;
                if jobs.is_empty() {
                    jobs = self.wait_for_jobs(&mut state, claim_limit(&slots), wait).await?;
                }
            }
            if !jobs.is_empty() || Instant::now() >= deadline {
                return Ok(jobs);
            }
        }
    }

    pub(super) async fn enqueue(
        &self,
        thread: Uuid,
        lane: &Lane,
        schedule: Schedule,
    ) -> Result<(), QueueError> {
        let mut script = self.keys.prepare(&scripts::ENQUEUE);
        let (delay, text) = encode(thread, &schedule);
        script.arg(lane.to_string()).arg(delay).arg(text);
        let enqueued = self.connection.run_script::<()>(&script).await;
        if delay > 0 {
            self.delay_timer.bring_forward(Instant::now() + Duration::from_millis(delay));
        }
        enqueued.map_err(|error| self.server.error("enqueue a job", &error))
    }

    pub(super) async fn enqueue_many(&self, threads: &[Uuid], lane: &Lane) -> Result<(), QueueError> {
        for threads in threads.chunks(MAX_ENQUEUED) {
            let mut script = self.keys.prepare(&scripts::ENQUEUE_MANY);
            script.arg(lane.to_string());
            for thread in threads {
                script.arg(thread.to_string());
            }
            let enqueued = self.connection.run_script::<()>(&script).await;
            enqueued.map_err(|error| self.server.error("enqueue jobs", &error))?;
        }
        Ok(())
    }

    pub(super) async fn renew_leases(&self, jobs: &[Job]) -> Result<Vec<Job>, QueueError> {
        let mut lost = BTreeSet::new();
        for jobs in jobs.chunks(MAX_RENEWED) {
            let mut script = self.keys.prepare(&scripts::RENEW_LEASES);
            script.arg(GROUP).arg(&self.consumer);
            for job in jobs {
                script.arg(&job.token);
            }
            let tokens = self.connection.run_script::<Vec<String>>(&script).await;
            lost.extend(tokens.map_err(|error| self.server.error("renew leases", &error))?);
        }
        let is_lost = |job: &&Job| lost.contains(&job.token);
        self.quarantine.renew(jobs.iter().filter(|job| !is_lost(job)), self.lease);
        Ok(jobs.iter().filter(is_lost).cloned().collect())
    }

    pub(super) async fn ack(&self, job: &Job, next: Option<Schedule>) -> Result<bool, QueueError> {
        let to_error = |error: &RedisError| self.server.error("acknowledge a job", error);
        self.quarantine.leave(job);
        let delay = next.as_ref().and_then(Schedule::delay_ms);
        // While the process shuts down, the lease is left to expire.
        let Some(held) = self.ack_claim.ack(job.clone(), next).await else { return Ok(true) };
        let held = held.map_err(|error| to_error(&error))?;
        if !held {
            debug!(thread = %job.thread, token = job.token, "job not acknowledged: its lease was lost");
        } else if let Some(delay) = delay {
            self.delay_timer.bring_forward(Instant::now() + Duration::from_millis(delay));
        }
        Ok(held)
    }

    pub(super) async fn has_other_holder(&self, job: &Job) -> Result<bool, QueueError> {
        self.read_other_holder(job)
            .await
            .map_err(|error| self.server.error("look for another holder", &error))
    }

    pub(super) async fn depth(&self) -> Result<Depth, QueueError> {
        self.count().await.map_err(|error| self.server.error("count jobs", &error))
    }

    pub(super) async fn list(&self, limit: usize) -> Result<Vec<QueueEntry>, QueueError> {
        self.read_entries(limit).await.map_err(|error| self.server.error("list jobs", &error))
    }
}
