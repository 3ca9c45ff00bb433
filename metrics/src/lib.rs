//! Metrics of this process, for Prometheus.
//!
//! Every crate counts into the one registry of the process, [`metrics`]. Its names, labels and units follow the conventions
//! of Prometheus.
//!
//! **Invariant:** the hot path (claim, step, append, acknowledgement) only increments counters that were looked up before.
//! Metrics with labels are looked up once per turn, request or commit.
//!
//! **Invariant:** the number of series is bounded. Labels have a fixed set of values, or are a bounded set of names.

#![warn(missing_docs)]

mod bounded;
mod catalog;
mod engine;
mod http;
mod in_use;
mod labels;
mod requests;
mod turns;
mod waiting;

use std::sync::LazyLock;

use prometheus_client::{encoding::prometheus_text, registry::Registry};

use self::{catalog::Catalog, labels::GaugeFamily};
pub use self::{
    catalog::Description,
    engine::{Commits, Connections, Jobs, QueueOperations},
    http::Http,
    in_use::InUse,
    requests::{ModelRequest, RequestKind, Requests},
    turns::Turns,
    waiting::{Waiting, WorkersByStatus},
};

/// Content type of [`Metrics::to_prometheus`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    descriptions: Vec<Description>,
    /// Turns that ended.
    pub turns: Turns,
    /// Requests to models, MCP servers and others.
    pub requests: Requests,
    /// Jobs and slots of the worker.
    pub jobs: Jobs,
    /// Commits of steps.
    pub commits: Commits,
    /// Operations of the job queue.
    pub queue: QueueOperations,
    /// Connections to the database.
    pub connections: Connections,
    /// Turns that wait.
    pub waiting: Waiting,
    /// Workers that report.
    pub workers: WorkersByStatus,
    /// Requests to the API.
    pub http: Http,
}

impl Metrics {
    fn new() -> Self {
        let mut catalog = Catalog::new();
        let of = &mut catalog;
        let build = of.gauge(
            "build_info",
            &["version"],
            "Version of turnfold. The value is 1.",
            GaugeFamily::default(),
        );
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION").into())]).set(1);
        let (turns, waiting, workers) =
            (Turns::register(of), Waiting::register(of), WorkersByStatus::register(of));
        let (jobs, requests) = (Jobs::register(of), Requests::register(of));
        let (commits, queue, connections) =
            (Commits::register(of), QueueOperations::register(of), Connections::register(of));
        let http = Http::register(of);
        let (registry, descriptions) = catalog.finish();
        Self {
            registry,
            descriptions,
            turns,
            requests,
            jobs,
            commits,
            queue,
            connections,
            waiting,
            workers,
            http,
        }
    }

    /// Returns all metrics in the text format of Prometheus. A metric with labels appears with its first value.
    pub fn to_prometheus(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = prometheus_text::encode(&mut text, &self.registry);
        text
    }

    /// Returns a description of each metric.
    pub fn descriptions(&self) -> &[Description] {
        &self.descriptions
    }
}

static METRICS: LazyLock<Metrics> = LazyLock::new(Metrics::new);

/// Returns the metrics of this process.
pub fn metrics() -> &'static Metrics {
    &METRICS
}
