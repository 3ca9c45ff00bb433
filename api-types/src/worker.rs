//! Workers that report, and their status.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Status of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkerStatus {
    /// It reported within the last 30 seconds.
    Active,
    /// It did not: it was killed, is disconnected, or its machine is too busy.
    Missing,
}

/// A worker, as it last reported. A worker reports every ten seconds, and is removed when it stops in order. One that does
/// not report is forgotten after a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Worker {
    /// Id of the worker; new at each start.
    pub id: Uuid,
    /// Name of the worker in log messages and in the queue.
    #[schema(examples("host-1-4711"))]
    pub name: String,
    /// Status by its last report.
    pub status: WorkerStatus,
    /// Name of its machine.
    #[schema(examples("host-1"))]
    pub host: String,
    /// Id of its process.
    #[schema(examples(4711))]
    pub pid: u32,
    /// Version of turnfold.
    #[schema(examples("0.1.0"))]
    pub version: String,
    /// Versions of the strategies that it runs, by name.
    pub strategies: BTreeMap<String, u32>,
    /// Maximum concurrent jobs.
    pub slots: u64,
    /// Jobs that were running at the last report.
    pub in_flight: u64,
    /// Steps a second between its last two reports; null before the second one. A step runs one node, or finds that none is
    /// due.
    pub steps_per_second: Option<f64>,
    /// Start of the worker (RFC 3339).
    pub started_at: String,
    /// Last report (RFC 3339).
    pub last_seen_at: String,
}
