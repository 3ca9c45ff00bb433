//! Jobs, commits, the job queue and the connections of the database.

use std::time::Duration;

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram};

use crate::{
    catalog::Catalog,
    in_use::InUse,
    labels::{CounterFamily, GaugeFamily},
};

/// Upper bounds of the durations of commits, in seconds.
const COMMIT_SECONDS: [f64; 10] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 5.0];

/// Upper bounds of the steps of a commit.
const COMMIT_STEPS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

/// Jobs and slots of the worker.
#[derive(Debug)]
pub struct Jobs {
    /// Jobs that ran: each executed at most one node.
    pub steps: Counter,
    slots: Gauge,
    in_use: Gauge,
    blocked: CounterFamily<1>,
    /// Threads that were parked.
    pub parked: Counter,
}

impl Jobs {
    pub(crate) fn register(of: &mut Catalog) -> Self {
        Self {
            steps: of.counter(
                "steps_total",
                &[],
                "Steps: nodes that ran, and jobs that found no node to run.",
                Counter::default(),
            ),
            slots: of.gauge("slots", &[], "Maximum concurrent jobs of the worker.", Gauge::default()),
            in_use: of.gauge("slots_in_use", &[], "Jobs that run.", Gauge::default()),
            blocked: of.counter(
                "jobs_blocked_total",
                &["cause"],
                "Jobs that were delayed by a `limit`, a `provider`, a `pause`, a `retry` or another `worker`.",
                Family::default(),
            ),
            parked: of.counter(
                "threads_parked_total",
                &[],
                "Threads that were parked because they cannot continue.",
                Counter::default(),
            ),
        }
    }

    /// Adds the slots of a worker that starts.
    pub fn add_slots(&self, slots: usize) {
        self.slots.inc_by(i64::try_from(slots).unwrap_or(i64::MAX));
    }

    /// Counts a slot as in use until the guard is dropped.
    pub fn occupy_slot(&self) -> InUse {
        InUse::of(&self.in_use)
    }

    /// Counts a job that something blocks.
    pub fn blocked(&self, cause: &'static str) {
        self.blocked.get_or_create(&[("cause", cause.into())]).inc();
    }
}

/// Commits of steps.
#[derive(Debug)]
pub struct Commits {
    duration: Histogram,
    steps: Histogram,
    /// Attempts that the database did not take, or whose answer was lost.
    pub errors: Counter,
}

impl Commits {
    pub(crate) fn register(of: &mut Catalog) -> Self {
        Self {
            duration: of.histogram(
                "commit_duration_seconds",
                &[],
                "Duration of the commits of steps, with their repetitions.",
                Histogram::new(COMMIT_SECONDS),
            ),
            steps: of.histogram(
                "commit_steps",
                &[],
                "Steps that were committed together.",
                Histogram::new(COMMIT_STEPS),
            ),
            errors: of.counter(
                "commit_errors_total",
                &[],
                "Attempts to commit that the database did not take, or whose answer was lost.",
                Counter::default(),
            ),
        }
    }

    /// Counts a commit of this many steps.
    pub fn add(&self, steps: usize, duration: Duration) {
        self.steps.observe(f64::from(u32::try_from(steps).unwrap_or(u32::MAX)));
        self.duration.observe(duration.as_secs_f64());
    }
}

/// Operations of the job queue, each with its counter.
#[derive(Debug)]
pub struct QueueOperations {
    /// Jobs that were enqueued.
    pub enqueued: Counter,
    /// Jobs that were claimed.
    pub claimed: Counter,
    /// Jobs that were acknowledged, with or without a successor.
    pub acknowledged: Counter,
    /// Leases that were renewed.
    pub renewed: Counter,
    /// Jobs that were taken over from workers that did not renew their leases.
    pub taken_over: Counter,
}

impl QueueOperations {
    pub(crate) fn register(of: &mut Catalog) -> Self {
        let operations = of.counter(
            "queue_operations_total",
            &["operation"],
            "Jobs `enqueued`, `claimed`, `acknowledged`, `renewed` and `taken_over` from dead workers by this process.",
            CounterFamily::default(),
        );
        let operation =
            |operation: &'static str| operations.get_or_create_owned(&[("operation", operation.into())]);
        Self {
            enqueued: operation("enqueued"),
            claimed: operation("claimed"),
            acknowledged: operation("acknowledged"),
            renewed: operation("renewed"),
            taken_over: operation("taken_over"),
        }
    }
}

/// Connections to the database.
#[derive(Debug)]
pub struct Connections(GaugeFamily<2>);

impl Connections {
    pub(crate) fn register(of: &mut Catalog) -> Self {
        Self(of.gauge(
            "database_connections",
            &["pool", "state"],
            "Connections to the database that are `idle` and `in_use`, by pool: `read`, `write`, `steps`.",
            Family::default(),
        ))
    }

    /// Sets the connections of a pool.
    pub fn set(&self, pool: &'static str, all: u32, idle: usize) {
        let idle = i64::try_from(idle).unwrap_or(i64::MAX).min(all.into());
        for (state, connections) in [("idle", idle), ("in_use", i64::from(all) - idle)] {
            self.0.get_or_create(&[("pool", pool.into()), ("state", state.into())]).set(connections);
        }
    }
}
