//! The dashboard of an operator, compared with the logs at the end.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use test_servers::free_port;
use tokio_util::task::AbortOnDropHandle;

use crate::{engine::Engine, operator::sum};

/// Time between two readings of a worker's metrics.
const INTERVAL: Duration = Duration::from_millis(250);

/// Longest time until the API has measured that nothing waits: a worker that was just killed is missing after 30 s, and the
/// API measures every 15 s.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Counters of the workers, read as Prometheus does. Those of a killed process stay as they were last read.
#[derive(Default)]
pub(super) struct Dashboard {
    workers: BTreeMap<String, Watched>,
}

struct Watched {
    url: String,
    last: Arc<Mutex<Counted>>,
    reading: AbortOnDropHandle<()>,
}

#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(super) struct Counted {
    /// Turns that completed.
    pub(super) completed: f64,
    /// Turns that ended otherwise.
    pub(super) others: f64,
    pub(super) steps: f64,
}

impl Dashboard {
    /// Begins to read the metrics of a worker. Returns the override that makes it serve them.
    pub(super) fn watch(&mut self, name: &str) -> String {
        let listen = format!("127.0.0.1:{}", free_port());
        let url = format!("http://{listen}/metrics");
        let last = Arc::<Mutex<Counted>>::default();
        let reading = {
            let (url, last) = (url.clone(), last.clone());
            AbortOnDropHandle::new(tokio::spawn(async move {
                loop {
                    read(&url, &last).await;
                    tokio::time::sleep(INTERVAL).await;
                }
            }))
        };
        self.workers.insert(name.to_owned(), Watched { url, last, reading });
        format!("worker.metrics_listen={listen}")
    }

    /// Reads the metrics of a worker for the last time: its port may then be another's.
    pub(super) async fn leave(&self, name: &str) {
        let worker = &self.workers[name];
        worker.reading.abort();
        read(&worker.url, &worker.last).await;
    }

    /// Returns what all workers counted together.
    pub(super) fn counted(&self) -> Counted {
        self.workers.values().map(|worker| *worker.last.lock().unwrap()).fold(
            Counted::default(),
            |sum, counted| Counted {
                completed: sum.completed + counted.completed,
                others: sum.others + counted.others,
                steps: sum.steps + counted.steps,
            },
        )
    }
}

/// Reads the counters of a worker. One that does not answer keeps what was read before.
async fn read(url: &str, last: &Mutex<Counted>) {
    let asked = reqwest::Client::new().get(url).timeout(INTERVAL * 4).send();
    let Ok(response) = asked.await else { return };
    let Ok(text) = response.text().await else { return };
    let total = sum(&text, "turnfold_turns_total", "");
    let others: f64 = ["interrupted", "failed", "cancelled"]
        .iter()
        .map(|outcome| sum(&text, "turnfold_turns_total", &format!("outcome=\"{outcome}\"")))
        .sum();
    *last.lock().unwrap() =
        Counted { completed: total - others, others, steps: sum(&text, "turnfold_steps_total", "") };
}

/// Waits until the gauges of the API show a deployment at rest: no turn waits, and all workers report.
pub(super) async fn until_idle(engine: &Engine, workers: usize) {
    let began = Instant::now();
    loop {
        let text =
            engine.http.get(format!("{}/metrics", engine.url)).send().await.unwrap().text().await.unwrap();
        let waiting = sum(&text, "turnfold_turns_waiting", "");
        let active = sum(&text, "turnfold_workers", "active");
        #[expect(clippy::cast_precision_loss, reason = "a few workers")]
        if waiting == 0.0 && active == workers as f64 {
            return;
        }
        assert!(began.elapsed() < TIMEOUT, "{waiting} turns wait, {active} workers are active:\n{text}");
        tokio::time::sleep(INTERVAL).await;
    }
}
