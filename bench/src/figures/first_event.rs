//! Latency from the submission of a turn until its first event is in the log and listeners are notified.

use std::{sync::Arc, time::Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use futures::StreamExt as _;
use queue::{Lane, Notification, Schedule};
use store::Opening;
use worker::{Shutdown, Worker};

use super::{Bench, Figure};
use crate::{
    bare,
    engine::{self, Echo, Engine, Mode},
    report::Line,
    rows,
    stats::{median, percentile},
    walk,
};

pub(super) struct FirstEvent;

#[async_trait]
impl Figure for FirstEvent {
    fn name(&self) -> String {
        "first_event".to_owned()
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let (servers, url) = (bench.servers().await?, bench.database().await?);
        let engine = Engine::postgres(&servers, &url).await?;
        let pool = rows::postgres(&url, 1).await?;
        rows::make_floor(&pool).await?;
        let mut redis = bare::Cycle::connect(&servers.redis.url(), 1).await?;
        let thread = engine.lap(Mode::Local, 1, 1, 1).await?.threads[0];
        let stop = Shutdown::default();
        let worker = Worker::new(engine.hands(Arc::new(Echo)), Mode::Local.limits(8));
        let worker = tokio::spawn(worker.run(stop.clone()));
        let (mut p50, mut p99, mut floor) = (vec![], vec![], vec![]);
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            let mut took = Vec::new();
            for _ in 0..bench.effort.pick(20, 100) {
                took.push(once(&engine, thread).await?);
            }
            p50.push(percentile(&took, 50));
            p99.push(percentile(&took, 99));
            let commits = bare::commits(&pool, &walk::log(1)?[2..], 50).await?;
            floor.push(2.0 * median(&commits) + median(&redis.cycles(100).await?));
        }
        stop.drain();
        worker.await?;
        let what = "two bare commits and one bare cycle in Redis";
        Ok(vec![
            Line::new("first_event.p50", "µs", &p50).over(what, &p50, &floor).note(
                "from the submission to the notification of `turn_started`, in an idle thread, on PostgreSQL and Redis",
            ),
            Line::new("first_event.p99", "µs", &p99),
        ])
    }
}

/// Runs one turn of one step; returns once its thread is idle again.
async fn once(engine: &Engine, thread: store::ThreadId) -> Result<f64> {
    let end = engine.parts.store.head(thread).await?.seq;
    let mut news = engine.parts.notifications.subscribe(thread).await?;
    let began = Instant::now();
    engine.parts.store.submit(engine::turn(Opening::Existing(thread))).await?;
    engine.parts.queue.enqueue(thread, &Lane::default(), Schedule::Now).await?;
    let mut first = None;
    loop {
        match news.next().await.context("the notifications ended")? {
            Notification::Appended { seq, .. } => {
                let took = *first.get_or_insert(began.elapsed().as_secs_f64() * 1e6);
                // The events `turn_started` and `decided`.
                if seq == end + 2 {
                    return Ok(took);
                }
            }
            Notification::Delta(_)
            | Notification::Changed { .. }
            | Notification::FollowerJoined { .. }
            | Notification::PausesChanged
            | Notification::ModelResumed { .. }
            | Notification::KeysChanged => {}
        }
    }
}
