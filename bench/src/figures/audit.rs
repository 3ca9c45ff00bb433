//! Replay of recorded threads against today's code, compared with only reading them; and detection of one wrong edge.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use async_trait::async_trait;
use audit::{
    replay::{Report, replay},
    testing::{Corpus, Mutant},
};
use store::{Error, Reader, Recorded, ThreadId, ThreadScan};
use threads::StrategyRegistry;
use uuid::Uuid;

use super::{Bench, Figure};
use crate::{
    engine::migrated,
    machine::Meter,
    report::Line,
    rows::{self, Rows},
};

/// Approximate number of rows written at once; SQLite limits the parameters of a statement.
const AT_ONCE: usize = 3_000;

/// The edge that is broken on purpose, after the measurement.
const BROKEN: (&str, &str) = ("planner", "assess");

/// A corpus of all strategies in SQLite, replayed completely.
pub(super) struct Replay;

/// Decodes events and does nothing else.
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
        let strategies = StrategyRegistry::new(strategies::all());
        let round = ThreadScan::of_all(2);
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
        let (strategy, node) = BROKEN;
        let graph = strategies::find(strategy).context("the strategy of the mutant does not exist")?;
        let broken = strategies.with(Box::leak(Box::new(Mutant(graph, node))));
        let report = replay(&store, &broken, &round, true).await?;
        ensure!((report.threads, report.events) == (threads, events), "not all was read: {report:?}");
        let found = found(&report)?;
        let line =
            Line::new(self.name(), "events/core s", &rate).over("reading and decoding them", &rate, &floor);
        Ok(vec![line.note(format!(
            "{threads} threads of all strategies, {events} events, SQLite; by CPU time; none diverged, and with \
             one route broken {found}"
        ))])
    }
}

/// The single cluster of threads that diverge at the broken edge, and their number. Fails if the report differs.
fn found(report: &Report) -> Result<String> {
    let (strategy, node) = BROKEN;
    let told = || report.clusters.iter().map(|it| format!("\n  {} × {}", it.threads, it.place()));
    let [cluster] = report.clusters.as_slice() else {
        bail!(
            "one transition was broken, but the differences do not form one group:{}",
            told().collect::<String>()
        );
    };
    let place = cluster.place();
    ensure!(place == format!("{strategy}/{node}/to"), "{strategy}/{node} was broken, and {place} is named");
    ensure!(report.unchecked == 0, "{} threads were not checked", report.unchecked);
    Ok(format!("{} in one cluster, {place}", cluster.threads))
}

#[cfg(test)]
mod tests {
    use audit::replay::{Cluster, Example};
    use shared::{Divergence, Field};

    use super::*;

    fn cluster(node: &str) -> Cluster {
        let field = Field::Decision("to".to_owned());
        let (then, today) = ("orchestrate".to_owned(), "end".to_owned());
        let divergence = Divergence { seq: 7, node: node.to_owned(), field, then, today };
        let example = Example { thread: Uuid::nil(), divergence };
        let (strategy, node, field) = ("planner".to_owned(), node.to_owned(), "to".to_owned());
        Cluster { strategy, node, field, threads: 5, example }
    }

    #[test]
    fn one_cluster_that_names_the_node_is_wanted_and_nothing_else() {
        let of = |clusters: Vec<Cluster>| found(&Report { clusters, ..Report::default() });
        assert_eq!(of(vec![cluster("assess")]).unwrap(), "5 in one cluster, planner/assess/to");
        assert!(of(vec![]).unwrap_err().to_string().contains("do not form one group"));
        assert!(of(vec![cluster("plan")]).unwrap_err().to_string().contains("planner/plan/to is named"));
        let both = of(vec![cluster("assess"), cluster("plan")]).unwrap_err().to_string();
        assert!(both.contains("5 × planner/assess/to") && both.contains("5 × planner/plan/to"), "{both}");
        let unchecked = Report { clusters: vec![cluster("assess")], unchecked: 1, ..Report::default() };
        assert!(found(&unchecked).is_err());
    }
}
