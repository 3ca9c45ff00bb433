//! What is in Redis, for the sweep and for whoever looks.

use std::{collections::BTreeSet, time::Duration};

use redis::{
    RedisResult,
    streams::{StreamId, StreamRangeReply},
};
use uuid::Uuid;

use super::{
    Depth, LIST_MAX, Lane, Listed, Place, Priority, Rung,
    keys::GROUP,
    partition::{Partition, read},
    scripts,
};

/// How many one command reads at most, so that Redis is never busy with it for long.
const PAGE: isize = 250;

impl Partition {
    /// Every thread with a token or a delayed ring.
    ///
    /// Delayed rings come to wait, what waits is taken, and what is taken waits or is delayed again. So whoever looks in
    /// that order, and then back, meets all that changed its place once.
    pub(super) async fn every_thread(&self) -> RedisResult<Rung> {
        let mut rung = Rung::default();
        self.add_delayed(&mut rung).await?;
        self.add_waiting(&mut rung).await?;
        self.add_taken(&mut rung).await?;
        self.add_waiting(&mut rung).await?;
        self.add_delayed(&mut rung).await?;
        Ok(rung)
    }

    async fn add_delayed(&self, rung: &mut Rung) -> RedisResult<()> {
        rung.add(self.members(&self.keys.later).await?.iter().filter_map(|it| it.parse::<Uuid>().ok()));
        Ok(())
    }

    async fn add_waiting(&self, rung: &mut Rung) -> RedisResult<()> {
        for tenant in self.members(&self.keys.tenants).await? {
            for priority in Priority::ALL {
                self.add_lane(&Lane::new(&tenant, priority), rung).await?;
            }
        }
        Ok(())
    }

    /// From its end, because it is taken from at its beginning: what remains keeps its distance from the end, and what
    /// is added pushes it further, where it is met again.
    async fn add_lane(&self, lane: &Lane, rung: &mut Rung) -> RedisResult<()> {
        let mut last = -1;
        loop {
            let mut command = redis::cmd("LRANGE");
            command.arg(format!("{}{lane}", self.keys.lane)).arg(last - PAGE + 1).arg(last);
            let page: Vec<String> = self.control.ask(&command).await?;
            let threads = page.iter().map(|it| it.split(' ').next().unwrap_or_default());
            rung.add(threads.filter_map(|it| it.parse::<Uuid>().ok()));
            if page.is_empty() {
                return Ok(());
            }
            last -= PAGE;
        }
    }

    async fn add_taken(&self, rung: &mut Rung) -> RedisResult<()> {
        let mut start = "-".to_owned();
        loop {
            let mut command = redis::cmd("XRANGE");
            command.arg(&self.keys.stream).arg(&start).arg("+").arg("COUNT").arg(PAGE);
            let page: StreamRangeReply = self.control.ask(&command).await?;
            rung.add(page.ids.iter().filter_map(read).map(|(_, thread, _)| thread));
            let Some(StreamId { id, .. }) = page.ids.last() else { return Ok(()) };
            start = format!("({id}");
        }
    }

    /// All members of a sorted set.
    async fn members(&self, key: &str) -> RedisResult<BTreeSet<String>> {
        let (mut all, mut cursor) = (BTreeSet::new(), 0);
        loop {
            let mut command = redis::cmd("ZSCAN");
            command.arg(key).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, members): (u64, Vec<(String, f64)>) = self.control.ask(&command).await?;
            all.extend(members.into_iter().map(|(member, _)| member));
            if next == 0 {
                return Ok(all);
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
        "delayed" => {
            let why = Some(second.clone()).filter(|it| !it.is_empty());
            Place::Delayed { due_in: millis(first), why }
        }
        _ => return None,
    };
    Some(Listed { thread: thread.parse().ok()?, lane: lane.parse().unwrap_or_default(), place })
}
