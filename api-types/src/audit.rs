//! Audits: pages of threads whose logs were verified and replayed, and checkpoints.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::Divergence;

/// An entry of an administrative log: what was decided, by whom, when and why.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AdminEntry {
    /// Id of the entry: its log and its number there.
    #[schema(examples("1f3a7c52-0d4e-8b6a-9c1d-2e5f60718293.4"))]
    pub id: String,
    /// Number in the log, from 0.
    pub seq: u64,
    /// Time of the decision (RFC 3339).
    pub at: String,
    /// Tenant that the decision concerns. Null: it concerns no single tenant, such as the pin of an MCP server.
    pub tenant: Option<String>,
    /// User who decided, as the client names them.
    pub by: String,
    /// Id of the API key that made the request. Null: none was required, or the command line made it.
    pub key: Option<String>,
    /// Name of the key, or subject of the token.
    pub subject: Option<String>,
    /// Reason, if one was given.
    pub reason: Option<String>,
    /// True if the row is older than the log: an upgrade found it, and the time is that of the upgrade.
    pub adopted: bool,
    /// Kind of the decision.
    #[schema(examples("hold_released"))]
    pub kind: String,
    /// Fields of the decision, which depend on the kind.
    pub what: Value,
    /// SHA-256 of the entry and of all entries before it, in hexadecimal.
    pub hash: String,
}

/// Result of auditing some threads: their hash chains, and whether today's code decides as recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AuditPage {
    /// Number of threads that were read.
    pub threads: u64,
    /// Number of events that were replayed.
    pub events: u64,
    /// Threads whose hash chain is broken.
    pub broken: Vec<BrokenChain>,
    /// Number of threads that would now go differently.
    pub diverged: u64,
    /// Divergent threads, grouped by their first divergence: decisions before requests before prompts.
    pub clusters: Vec<DivergenceCluster>,
    /// Threads that could not be replayed.
    pub not_checked: Vec<NotReplayed>,
    /// Value of `after` for the next page. Null: all threads have been read.
    pub next: Option<Uuid>,
}

/// A thread whose hash chain is broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BrokenChain {
    /// Id of the thread.
    pub thread_id: Uuid,
    /// First event that does not fit.
    pub seq: u64,
    /// Reason why the chain breaks there.
    pub problem: String,
}

/// Threads with the same first divergence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DivergenceCluster {
    /// Strategy of the threads.
    #[schema(examples("planner"))]
    pub strategy: String,
    /// Node that decides differently.
    pub node: String,
    /// Path of the differing value, with `*` in place of list indexes.
    pub field: String,
    /// Number of threads in the cluster.
    pub threads: u64,
    /// The oldest thread of the cluster.
    pub thread_id: Uuid,
    /// First divergence of that thread.
    pub divergence: Divergence,
}

/// A thread that could not be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NotReplayed {
    /// Id of the thread.
    pub thread_id: Uuid,
    /// Reason why it could not be replayed.
    pub problem: String,
}

/// A checkpoint, as `turnfold audit checkpoint` reported it. It proves nothing: only the signed note does, which is kept
/// elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Checkpoint {
    /// Name of the key that signed it.
    pub origin: String,
    /// File of the note.
    pub file: String,
    /// Number of heads that it attests.
    pub heads: u64,
    /// Number of threads that were read.
    pub threads: u64,
    /// Number of threads whose log was damaged or did not continue what was attested before.
    pub findings: u64,
    /// Time at which it was made (RFC 3339).
    pub made_at: String,
}
