//! Turns that wait, and workers. The API measures both when its metrics are read.

use prometheus_client::metrics::family::Family;

use crate::{catalog::Catalog, labels::GaugeFamily};

/// Turns that have not ended and do not run.
#[derive(Debug)]
pub struct Waiting {
    turns: GaugeFamily<1>,
    oldest: GaugeFamily<1>,
}

impl Waiting {
    pub(crate) fn register(of: &mut Catalog) -> Self {
        Self {
            turns: of.gauge(
                "turns_waiting",
                &["cause"],
                "Turns that wait, by the cause that `turnfold queue ls` shows. Every API reports those of the whole deployment.",
                Family::default(),
            ),
            oldest: of.gauge(
                "turns_oldest_waiting_seconds",
                &["cause"],
                "Longest time that a turn of the cause has waited. Every API reports that of the whole deployment.",
                Family::default(),
            ),
        }
    }

    /// Sets the number of turns that wait for a cause, and the seconds since the first of them began to wait.
    pub fn set(&self, cause: &str, turns: u64, oldest_seconds: i64) {
        let turns = i64::try_from(turns).unwrap_or(i64::MAX);
        self.turns.get_or_create(&[("cause", cause.to_owned().into())]).set(turns);
        self.oldest.get_or_create(&[("cause", cause.to_owned().into())]).set(oldest_seconds);
    }
}

/// Workers by status.
#[derive(Debug)]
pub struct WorkersByStatus(GaugeFamily<1>);

impl WorkersByStatus {
    pub(crate) fn register(of: &mut Catalog) -> Self {
        Self(of.gauge(
            "workers",
            &["status"],
            "Workers that report (`active`), and that do not (`missing`). Every API reports those of the whole deployment.",
            Family::default(),
        ))
    }

    /// Sets the number of workers with a status.
    pub fn set(&self, status: &'static str, workers: usize) {
        let workers = i64::try_from(workers).unwrap_or(i64::MAX);
        self.0.get_or_create(&[("status", status.into())]).set(workers);
    }
}
