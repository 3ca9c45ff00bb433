//! Reads the contents of a partition, for the sweeper and for people.

use std::{collections::BTreeSet, time::Duration};

use redis::{
    RedisResult,
    streams::{StreamId, StreamRangeReply},
};
use uuid::Uuid;

use super::{entry::Entry, keys::GROUP, partition::Partition, scripts};
use crate::{
    block_reason::BlockReason,
    enqueued::BloomFilter,
    job::{Depth, EntryState, Job, MAX_LISTED, QueueEntry},
    lane::{Lane, Priority},
};

/// Entries read by one command, so that it does not block Redis for long.
const PAGE: isize = 250;

impl Partition {
    /// Reads the threads of all jobs.
    ///
    /// Jobs move from delayed to waiting to claimed, and from there back to waiting or delayed. Reading the states in this
    /// order and then backwards finds every job that changes its state once in the meantime.
    pub(super) async fn read_threads(&self) -> RedisResult<BloomFilter> {
        let Depth { waiting, in_flight, delayed } = self.count().await?;
        let mut threads = BloomFilter::with_capacity(waiting + in_flight + delayed);
        self.add_delayed(&mut threads).await?;
        self.add_waiting(&mut threads).await?;
        self.for_each_claimed(|jobs| threads.extend(jobs.map(|job| job.thread))).await?;
        self.add_waiting(&mut threads).await?;
        self.add_delayed(&mut threads).await?;
        Ok(threads)
    }

    async fn add_delayed(&self, threads: &mut BloomFilter) -> RedisResult<()> {
        self.for_each_member(&self.keys.delayed, |member| threads.extend(member.parse::<Uuid>().ok())).await
    }

    async fn add_waiting(&self, threads: &mut BloomFilter) -> RedisResult<()> {
        let mut tenants = BTreeSet::new();
        self.for_each_member(&self.keys.tenants, |tenant| _ = tenants.insert(tenant.to_owned())).await?;
        for tenant in tenants {
            for priority in Priority::ALL {
                self.add_lane(&Lane::new(&tenant, priority), threads).await?;
            }
        }
        Ok(())
    }

    /// Reads a lane from its tail, because jobs leave at its head: remaining jobs keep their distance from the tail, and new
    /// ones push them further back, where they are read again.
    async fn add_lane(&self, lane: &Lane, threads: &mut BloomFilter) -> RedisResult<()> {
        let mut last = -1;
        loop {
            let mut command = redis::cmd("LRANGE");
            command.arg(format!("{}{lane}", self.keys.lane_prefix)).arg(last - PAGE + 1).arg(last);
            let page: Vec<String> = self.connection.query(&command).await?;
            if page.is_empty() {
                return Ok(());
            }
            let ids = page.iter().map(|member| member.split(' ').next().unwrap_or_default());
            threads.extend(ids.filter_map(|id| id.parse::<Uuid>().ok()));
            last -= PAGE;
        }
    }

    /// Calls `visit` with each page of claimed jobs.
    async fn for_each_claimed(
        &self,
        mut visit: impl FnMut(&mut dyn Iterator<Item = Job>),
    ) -> RedisResult<()> {
        let mut start = "-".to_owned();
        loop {
            let mut command = redis::cmd("XRANGE");
            command.arg(&self.keys.claimed).arg(&start).arg("+").arg("COUNT").arg(PAGE);
            let page: StreamRangeReply = self.connection.query(&command).await?;
            let Some(StreamId { id, .. }) = page.ids.last() else { return Ok(()) };
            start = format!("({id}");
            visit(&mut page.ids.into_iter().filter_map(|id| Entry::from(id).job()));
        }
    }

    /// Implements [`Queue::has_other_holder`](crate::Queue::has_other_holder). It is rarely called, so it may read every
    /// claimed job.
    pub(super) async fn read_other_holder(&self, job: &Job) -> RedisResult<bool> {
        let mut others = Vec::new();
        let is_other = |other: &Job| other.token != job.token && other.thread == job.thread;
        self.for_each_claimed(|jobs| others.extend(jobs.filter(is_other).map(|job| job.token))).await?;
        for token in others {
            let mut command = redis::cmd("XPENDING");
            command.arg(&self.keys.claimed).arg(GROUP).arg(&token).arg(&token).arg(1);
            let holders: Vec<(String, String, u64, u64)> = self.connection.query(&command).await?;
            if !holders.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Calls `visit` with each member of a sorted set; twice with some if the set changes in the meantime.
    async fn for_each_member(&self, key: &str, mut visit: impl FnMut(&str)) -> RedisResult<()> {
        let mut cursor = 0;
        loop {
            let mut command = redis::cmd("ZSCAN");
            command.arg(key).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, members): (u64, Vec<(String, f64)>) = self.connection.query(&command).await?;
            members.iter().for_each(|(member, _)| visit(member));
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    pub(super) async fn count(&self) -> RedisResult<Depth> {
        let mut script = self.keys.prepare(&scripts::DEPTH);
        script.arg(GROUP);
        let (waiting, in_flight, delayed) = self.connection.run_script(&script).await?;
        Ok(Depth { waiting, in_flight, delayed })
    }

    pub(super) async fn read_entries(&self, limit: usize) -> RedisResult<Vec<QueueEntry>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut script = self.keys.prepare(&scripts::LIST);
        script.arg(GROUP).arg(limit.min(MAX_LISTED));
        let rows: Vec<Vec<String>> = self.connection.run_script(&script).await?;
        Ok(rows.iter().filter_map(|row| queue_entry(row, self.lease)).collect())
    }
}

/// Decodes a row of the script; `None` if it names no thread. All consumers are configured with this lease.
fn queue_entry(row: &[String], lease: Duration) -> Option<QueueEntry> {
    let [state, thread, lane, first, second, deaths] = row else { return None };
    let millis = |text: &str| text.parse().map(Duration::from_millis).unwrap_or_default();
    let state = match state.as_str() {
        "in_flight" => {
            let (consumer, since_renewal) = (first.clone(), millis(second));
            let expires_in = lease.saturating_sub(since_renewal);
            EntryState::InFlight { consumer, since_renewal, expires_in, deaths: deaths.parse().ok()? }
        }
        "waiting" => EntryState::Waiting { position: first.parse().ok()? },
        "delayed" => EntryState::Delayed { due_in: millis(first), reason: BlockReason::parse(second) },
        _ => return None,
    };
    Some(QueueEntry { thread: thread.parse().ok()?, lane: lane.parse().unwrap_or_default(), state })
}
