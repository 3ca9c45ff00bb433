//! What is in Redis, for the sweep and for whoever looks.

use std::{collections::BTreeSet, time::Duration};

use redis::{
    RedisResult,
    streams::{StreamId, StreamRangeReply},
};
use uuid::Uuid;

use super::{
    Depth, Job, LIST_MAX, Lane, Listed, Place, Priority, Why,
    keys::GROUP,
    partition::{Entry, Partition},
    rung::Threads,
    scripts,
};

/// How many one command reads at most, so that Redis is never busy with it for long.
const PAGE: isize = 250;

impl Partition {
    /// Every thread with a token or a delayed ring.
    ///
    /// Delayed rings come to wait, what waits is taken, and what is taken waits or is delayed again. So whoever looks in
    /// that order, and then back, meets all that changed its place once.
    pub(super) async fn every_thread(&self) -> RedisResult<Threads> {
        let Depth { waiting, in_flight, delayed } = self.depth().await?;
        let mut met = Threads::about(waiting + in_flight + delayed);
        self.add_delayed(&mut met).await?;
        self.add_waiting(&mut met).await?;
        self.add_taken(&mut met).await?;
        self.add_waiting(&mut met).await?;
        self.add_delayed(&mut met).await?;
        Ok(met)
    }

    async fn add_delayed(&self, met: &mut Threads) -> RedisResult<()> {
        self.each_member(&self.keys.later, |it| met.extend(it.parse::<Uuid>().ok())).await
    }

    async fn add_waiting(&self, met: &mut Threads) -> RedisResult<()> {
        let mut tenants = BTreeSet::new();
        self.each_member(&self.keys.tenants, |it| _ = tenants.insert(it.to_owned())).await?;
        for tenant in tenants {
            for priority in Priority::ALL {
                self.add_lane(&Lane::new(&tenant, priority), met).await?;
            }
        }
        Ok(())
    }

    /// From its end, because it is taken from at its beginning: what remains keeps its distance from the end, and what
    /// is added pushes it further, where it is met again.
    async fn add_lane(&self, lane: &Lane, met: &mut Threads) -> RedisResult<()> {
        let mut last = -1;
        loop {
            let mut command = redis::cmd("LRANGE");
            command.arg(format!("{}{lane}", self.keys.lane)).arg(last - PAGE + 1).arg(last);
            let page: Vec<String> = self.control.ask(&command).await?;
            if page.is_empty() {
                return Ok(());
            }
            let threads = page.iter().map(|it| it.split(' ').next().unwrap_or_default());
            met.extend(threads.filter_map(|it| it.parse::<Uuid>().ok()));
            last -= PAGE;
        }
    }

    async fn add_taken(&self, met: &mut Threads) -> RedisResult<()> {
        self.each_taken(|jobs| met.extend(jobs.map(|it| it.thread))).await
    }

    /// Shows every token that is taken, page by page.
    async fn each_taken(&self, mut see: impl FnMut(&mut dyn Iterator<Item = Job>)) -> RedisResult<()> {
        let mut start = "-".to_owned();
        loop {
            let mut command = redis::cmd("XRANGE");
            command.arg(&self.keys.stream).arg(&start).arg("+").arg("COUNT").arg(PAGE);
            let page: StreamRangeReply = self.control.ask(&command).await?;
            let Some(StreamId { id, .. }) = page.ids.last() else { return Ok(()) };
            start = format!("({id}");
            see(&mut page.ids.into_iter().filter_map(|it| Entry::from(it).job()));
        }
    }

    /// As [`Queue::is_held_besides`](super::Queue::is_held_besides). Whoever asks has reason to think so, which is rare:
    /// so every token that is taken may be looked at.
    pub(super) async fn has_another_holder(&self, job: &Job) -> RedisResult<bool> {
        let mut others = Vec::new();
        let other = |it: &Job| it.token != job.token && it.thread == job.thread;
        self.each_taken(|jobs| others.extend(jobs.filter(other).map(|it| it.token))).await?;
        for token in others {
            let mut command = redis::cmd("XPENDING");
            command.arg(&self.keys.stream).arg(GROUP).arg(&token).arg(&token).arg(1);
            let held: Vec<(String, String, u64, u64)> = self.control.ask(&command).await?;
            if !held.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Shows the members of a sorted set, page by page, and some of them twice if it changes meanwhile.
    async fn each_member(&self, key: &str, mut see: impl FnMut(&str)) -> RedisResult<()> {
        let mut cursor = 0;
        loop {
            let mut command = redis::cmd("ZSCAN");
            command.arg(key).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, members): (u64, Vec<(String, f64)>) = self.control.ask(&command).await?;
            members.iter().for_each(|(member, _)| see(member));
            if next == 0 {
                return Ok(());
            }
            cursor = next;
        }
    }

    pub(super) async fn depth(&self) -> RedisResult<Depth> {
        let mut script = self.keys.prepare(&scripts::DEPTH);
        script.arg(GROUP);
        let (waiting, in_flight, delayed) = self.control.run(&script).await?;
        Ok(Depth { waiting, in_flight, delayed })
    }

    pub(super) async fn places(&self, limit: usize) -> RedisResult<Vec<Listed>> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut script = self.keys.prepare(&scripts::LIST);
        script.arg(GROUP).arg(limit.min(LIST_MAX));
        let rows: Vec<Vec<String>> = self.control.run(&script).await?;
        Ok(rows.iter().filter_map(|row| listed(row)).collect())
    }
}

/// A row of the script; none if it names no thread.
fn listed(row: &[String]) -> Option<Listed> {
    let [kind, thread, lane, first, second] = row else { return None };
    let millis = |text: &str| text.parse().map(Duration::from_millis).unwrap_or_default();
    let place = match kind.as_str() {
        "held" => Place::InFlight { consumer: first.clone(), unrenewed: millis(second) },
        "waiting" => Place::Waiting { position: first.parse().ok()? },
        "delayed" => Place::Delayed { due_in: millis(first), why: Why::read(second) },
        _ => return None,
    };
    Some(Listed { thread: thread.parse().ok()?, lane: lane.parse().unwrap_or_default(), place })
}
