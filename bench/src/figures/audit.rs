//! How fast recorded threads are set against today's code, beside reading them.

use std::path::Path;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use audit::{corpus::Corpus, replay::replay};
use shared::strategies;
use store::{Conditions, Error, Reader, Recorded, Round, Strategies, ThreadId};
use uuid::Uuid;

use super::{Bench, Figure};
use crate::{
    engine::migrated,
    machine::Meter,
    report::Line,
    rows::{self, Rows},
};

/// How many rows are written at once, about: SQLite takes so many values and no more.
const AT_ONCE: usize = 3_000;

/// A corpus of all strategies in SQLite, replayed whole.
pub(super) struct Replay;

/// Reads, and does no more.
struct Decoded;

impl Reader for Decoded {
    fn read(&mut self, _: ThreadId, event: Result<Recorded, Error>) {
        drop(std::hint::black_box(event));
    }
}

#[async_trait]
impl Figure for Replay {
    fn name(&self) -> String {
        "audit.replay".to_owned()
    }

    async fn measure(&self, bench: &mut Bench) -> Result<Vec<Line>> {
        let threads = bench.effort.pick(10_000, 50_000);
        let file = bench.folder().join("audit.db");
        let store = migrated(&format!("sqlite:{}", file.display())).await?;
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
        let corpus = Corpus::of(strategies::all(), &fixtures)?;
        let pool = rows::sqlite(&file).await?;
        let (mut events, mut rows) = (0, Rows::default());
        for number in 0..threads {
            rows.add_log(Uuid::now_v7(), &corpus.log(number)?)?;
            if AT_ONCE <= rows.len() || number + 1 == threads {
                rows.insert_sqlite(&pool).await?;
                events += rows.len() as u64;
                rows = Rows::default();
            }
        }
        let strategies = Strategies::new(strategies::all());
        let round = Round::of(Conditions::default(), 2);
        let (mut rate, mut floor) = (vec![], vec![]);
        for _ in 0..bench.effort.rounds() {
            bench.round()?;
            let meter = Meter::start(&[])?;
            let report = replay(&store, &strategies, &round, true).await?;
            rate.push(events as f64 / meter.read()?.cpu);
            ensure!((report.threads, report.events) == (threads, events), "not all was read: {report:?}");
            ensure!(report.diverged == 0 && report.unchecked == 0, "the corpus diverged: {report:?}");
            let meter = Meter::start(&[])?;
            store.read_logs(&round, || Decoded).await?;
            floor.push(events as f64 / meter.read()?.cpu);
        }
        let line =
            Line::new(self.name(), "events/core s", &rate).over("reading and decoding them", &rate, &floor);
        Ok(vec![
            line.note(format!("{threads} threads of all strategies, {events} events, SQLite; by CPU time")),
        ])
    }
}
