//! Claims jobs from Redis: expired leases first, then waiting jobs.

use std::time::Duration;

use metrics::metrics;
use redis::{
    AsyncCommands, RedisError, RedisResult,
    aio::MultiplexedConnection,
    streams::{StreamReadOptions, StreamReadReply},
};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{
    ack_claim::{Claimed, MAX_DUE},
    entry::{Entry, millis},
    keys::GROUP,
    partition::Partition,
    scripts,
};
use crate::{
    error::QueueError,
    job::{Deaths, Job, MAX_CLAIM_WAIT, QUARANTINE_DEATHS},
    slots::Slots,
};

/// Attempts at a read: one for a connection that broke long ago, one for a Redis that came back empty, and one that counts.
const ATTEMPTS: usize = 3;

/// Cursor at which a scan of all leases starts. The script returns it when the scan is complete.
const SCAN_START: &str = "-";

/// Leases that one script reads for each free slot, and at most, so that it does not block Redis for long.
const SCANNED_PER_JOB: usize = 10;
const MAX_SCANNED: usize = 1000;

/// State that one claim leaves to the next.
pub(super) struct ConsumerState {
    /// Connection for blocking reads.
    connection: Option<MultiplexedConnection>,
    /// Cursor of the scan for expired leases. **Invariant:** kept from call to call. If each call started over, a few live
    /// leases at the front would hide the expired ones behind them forever.
    cursor: String,
    next_takeover: Instant,
    /// Last reading of Redis' clock in milliseconds, and the local time of the reading.
    redis_clock: Option<(u64, Instant)>,
}

impl ConsumerState {
    pub(super) fn new() -> Self {
        Self {
            connection: None,
            cursor: SCAN_START.to_owned(),
            next_takeover: Instant::now(),
            redis_clock: None,
        }
    }
}

impl Partition {
    /// Claims waiting jobs as soon as a slot is free, after delayed jobs that are due have joined their lanes.
    ///
    /// If there is no job, the consumer is registered as waiting until the deadline; the returned duration says for how long.
    /// Returns `None` if no slot is free by the deadline.
    pub(super) async fn claim_waiting(
        &self,
        slots: &Slots,
        deadline: Instant,
    ) -> Result<Option<(Vec<Job>, Duration)>, QueueError> {
        for _ in 0..ATTEMPTS {
            self.postpone_delay_timer();
            let Some(claimed) = self.ack_claim.claim(slots, &self.weights, deadline).await else { break };
            let Claimed { next_due_ms, wait, entries } =
                claimed.map_err(|error| self.server.error("claim jobs", &error))?;
            self.schedule_delay_timer(next_due_ms);
            match entries {
                Some(entries) => return Ok(Some((self.decode(entries.into_iter()).await, wait))),
                None => self.create_group().await?,
            }
        }
        Ok(None)
    }

    /// Moves delayed jobs that are due to their lanes, if the timer says so.
    async fn move_due_jobs(&self) -> Result<(), QueueError> {
        if Instant::now() < self.delay_timer.deadline() {
            return Ok(());
        }
        self.postpone_delay_timer();
        let mut script = self.keys.prepare(&scripts::MOVE_DUE);
        script.arg(MAX_DUE);
        let next_due_ms = self.connection.run_script(&script).await;
        self.schedule_delay_timer(next_due_ms.map_err(|error| self.server.error("move due jobs", &error))?);
        Ok(())
    }

    /// Sets the timer before Redis is asked, so that a job delayed in the meantime can bring it forward. Other processes
    /// delay jobs too, so the timer is never set later than [`MAX_CLAIM_WAIT`].
    fn postpone_delay_timer(&self) {
        self.delay_timer.set(Instant::now() + MAX_CLAIM_WAIT);
    }

    /// Sets the timer to a script's answer in milliseconds; negative if no job is delayed.
    fn schedule_delay_timer(&self, next_due_ms: i64) {
        if let Ok(next_due_ms) = u64::try_from(next_due_ms) {
            self.delay_timer.bring_forward(Instant::now() + Duration::from_millis(next_due_ms));
        }
    }

    /// Returns when expired leases may be taken over next.
    ///
    /// ## Why not before Redis has answered for half a lease
    ///
    /// While Redis is unreachable, no lease can be renewed and all expire. When it returns, jobs of healthy workers look
    /// abandoned, and taking them over would repeat calls that are in flight. A healthy worker renews within a third of a
    /// lease. A process that has just connected does not know whether Redis was unreachable before.
    pub(super) fn next_takeover(&self, state: &ConsumerState) -> Instant {
        let answering_since = self.connection.answering_since().unwrap_or_else(Instant::now);
        state.next_takeover.max(answering_since + self.lease / 2)
    }

    /// Takes over jobs whose lease expired, if that is allowed yet. A scan of all leases takes as many calls as necessary;
    /// the next scan begins a third of a lease after the last one ended.
    pub(super) async fn take_over_expired(
        &self,
        state: &mut ConsumerState,
        limit: usize,
    ) -> Result<Vec<Job>, QueueError> {
        if !self.is_clock_steady(state).await? {
            state.next_takeover = Instant::now() + self.lease / 2;
        }
        // The answer may also have shown that Redis was unreachable.
        if Instant::now() < self.next_takeover(state) {
            return Ok(Vec::new());
        }
        let may_quarantine = self.quarantine.reserve(self.lease);
        let taken = self.take_over(state, limit, may_quarantine).await;
        if may_quarantine {
            self.quarantine.settle(taken.as_deref().unwrap_or_default(), self.lease);
        }
        taken
    }

    async fn take_over(
        &self,
        state: &mut ConsumerState,
        limit: usize,
        may_quarantine: bool,
    ) -> Result<Vec<Job>, QueueError> {
        let mut script = self.keys.prepare(&scripts::TAKE_OVER);
        script.arg(GROUP).arg(&self.consumer).arg(millis(self.lease)).arg(limit);
        script.arg(&state.cursor).arg(MAX_SCANNED.min(SCANNED_PER_JOB.saturating_mul(limit)));
        script.arg(QUARANTINE_DEATHS).arg(u8::from(may_quarantine));
        // Not repeated on a new connection: Redis may have been unreachable.
        match self.connection.run_script_once::<(String, Vec<(String, String, String, u64)>)>(&script).await {
            Ok((cursor, taken)) => {
                if cursor == SCAN_START {
                    state.next_takeover = Instant::now() + self.lease / 3;
                }
                state.cursor = cursor;
                let entry =
                    |(token, text, last, count)| Entry { token, text, deaths: Some(Deaths { count, last }) };
                let jobs = self.decode(taken.into_iter().map(entry)).await;
                jobs.iter().for_each(report_takeover);
                Ok(jobs)
            }
            Err(error) if is_group_missing(&error) => self.create_group().await.map(|()| Vec::new()),
            Err(error) if error.is_connection_dropped() => Ok(Vec::new()),
            Err(error) => Err(self.server.error("take over expired jobs", &error)),
        }
    }

    /// Returns whether Redis' clock has gained less than a third of a lease on the local clock since the last call. The first
    /// call returns `false`.
    ///
    /// ## Why a jump of the clock delays takeovers
    ///
    /// Leases expire by Redis' clock. If it is set forward, or a replica with a fast clock takes over, all leases may look
    /// expired although their workers are healthy.
    pub(super) async fn is_clock_steady(&self, state: &mut ConsumerState) -> Result<bool, QueueError> {
        let now = self.connection.run_script(&self.keys.prepare(&scripts::NOW)).await;
        let now = now.map_err(|error| self.server.error("read the clock", &error))?;
        let Some((before, read_at)) = state.redis_clock.replace((now, Instant::now())) else {
            return Ok(false);
        };
        let gained = now.saturating_sub(before).saturating_sub(millis(read_at.elapsed()));
        if gained > millis(self.lease / 3) {
            warn!(
                gained_ms = gained,
                "Redis' clock was set forward; leaving expired jobs to their workers for half a lease"
            );
            return Ok(false);
        }
        Ok(true)
    }

    /// Waits for jobs that are handed to this consumer, for exactly as long as it is registered as waiting. Delayed jobs that
    /// become due in the meantime are moved to their lanes.
    pub(super) async fn wait_for_jobs(
        &self,
        state: &mut ConsumerState,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Job>, QueueError> {
        let read = self.blocking_read(&mut state.connection, limit, wait);
        tokio::pin!(read);
        loop {
            tokio::select! {
                jobs = &mut read => return jobs,
                () = self.delay_timer.expired() => {
                    // The read continues, because it may already have jobs. If Redis is unreachable, it returns an error.
                    if let Err(error) = self.move_due_jobs().await {
                        debug!(%error, "cannot move due jobs; retrying");
                    }
                }
            }
        }
    }

    async fn blocking_read(
        &self,
        idle_connection: &mut Option<MultiplexedConnection>,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Job>, QueueError> {
        let deadline = Instant::now() + wait;
        let to_error = |error: &RedisError| self.server.error("wait for jobs", error);
        let mut attempts_left = ATTEMPTS;
        loop {
            attempts_left -= 1;
            // Taken out: if this call is dropped, a connection with an unread answer is closed and not used again.
            let mut connection = match idle_connection.take() {
                Some(connection) => connection,
                None => {
                    let connected = self.server.connect_blocking(&self.connection, &self.keys.claimed).await;
                    connected.map_err(|error| to_error(&error))?
                }
            };
            // 0 would block forever.
            let wait = millis(deadline.saturating_duration_since(Instant::now())).max(1);
            let options = StreamReadOptions::default().group(GROUP, &self.consumer).count(limit);
            let options = options.block(usize::try_from(wait).unwrap_or(usize::MAX));
            let reply: RedisResult<Option<StreamReadReply>> =
                connection.xread_options(&[&self.keys.claimed], &[">"], &options).await;
            match reply {
                Ok(reply) => {
                    *idle_connection = Some(connection);
                    let entries = reply.into_iter().flat_map(|reply| reply.keys).flat_map(|key| key.ids);
                    return Ok(self.decode(entries.map(Entry::from)).await);
                }
                Err(error) if attempts_left == 0 => return Err(to_error(&error)),
                Err(error) if is_group_missing(&error) => {
                    self.create_group().await?;
                    *idle_connection = Some(connection);
                }
                // The connection broke, perhaps long ago, or the partition moved to another node. A new one finds out.
                Err(error) if error.is_connection_dropped() || error.redirect_node().is_some() => {}
                Err(error) => return Err(to_error(&error)),
            }
        }
    }

    /// Decodes entries. An entry that names no thread would be delivered forever, so it is removed.
    async fn decode(&self, entries: impl Iterator<Item = Entry>) -> Vec<Job> {
        let mut jobs = Vec::with_capacity(entries.size_hint().0);
        for entry in entries {
            match entry.job() {
                Some(job) => jobs.push(job),
                None => self.remove_invalid(&entry).await,
            }
        }
        jobs
    }

    async fn remove_invalid(&self, entry: &Entry) {
        warn!(entry = entry.token, "removing a queue entry that names no thread");
        let mut remove = redis::pipe();
        remove
            .atomic()
            .xack(&self.keys.claimed, GROUP, &[&entry.token])
            .ignore()
            .xdel(&self.keys.claimed, &[&entry.token])
            .ignore();
        if let Err(error) = self.connection.query_pipeline(&remove).await {
            debug!(error = self.server.redact(&error), "cannot remove the entry; it will be delivered again");
        }
    }
}

/// Reports a job whose worker did not renew its lease.
fn report_takeover(job: &Job) {
    metrics().queue.taken_over.inc();
    let cause = "its worker did not renew the lease: killed, disconnected or overloaded";
    warn!(thread = %job.thread, tenant = %job.lane.tenant, cause, "job taken over from another worker");
}

/// Returns whether Redis was emptied: the group is unknown, or the stream was deleted during a blocking read.
fn is_group_missing(error: &RedisError) -> bool {
    matches!(error.code(), Some("NOGROUP" | "UNBLOCKED"))
}
