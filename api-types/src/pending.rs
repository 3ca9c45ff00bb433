//! Turns that are not running, and the reasons.

use serde::{Deserialize, Serialize};
use shared::{PendingCause, Priority};
use utoipa::ToSchema;
use uuid::Uuid;

/// Turns that are not running for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PendingGroup {
    /// Reason why they are not running.
    pub cause: PendingCause,
    /// Explanation of the reason, if there is more to say.
    #[schema(examples("model openai/gpt-4o is at its limit of 20 concurrent requests"))]
    pub detail: Option<String>,
    /// Number of turns.
    pub turns: u64,
    /// Time since which the first of them is pending (RFC 3339). With the cause `stalled`, the last renewal of a lease.
    pub since: String,
    /// Time at which the first of them may continue (RFC 3339), if known.
    pub until: Option<String>,
    /// First and last position in their lane. Only with the cause `worker`.
    #[schema(value_type = Option<Vec<u64>>, min_items = 2, max_items = 2)]
    pub places: Option<(u64, u64)>,
}

/// A turn that is not running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PendingTurn {
    /// Id of the turn.
    pub turn_id: Uuid,
    /// Id of its thread.
    pub thread_id: Uuid,
    /// Tenant that owns the thread.
    pub tenant: String,
    /// Strategy of the thread.
    pub strategy: String,
    /// Priority of the turn.
    pub priority: Priority,
    /// Reason why it is not running.
    pub cause: PendingCause,
    /// Explanation of the reason, if there is more to say.
    pub detail: Option<String>,
    /// Position in its lane, counted from 1. Only with the cause `worker`.
    pub place: Option<u64>,
    /// Time at which it was submitted, started or asked its question (RFC 3339). With the cause `stalled`, the last renewal
    /// of its lease.
    pub since: String,
    /// Time at which it may continue (RFC 3339), if known.
    pub until: Option<String>,
}

/// Turns that are not running, counted and listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PendingTurns {
    /// Number of turns for each reason.
    pub groups: Vec<PendingGroup>,
    /// Number of runnable turns in no group, because there are too many to inspect or a Redis Cluster node does not
    /// answer.
    pub not_inspected: u64,
    /// The first turns, in the order of the groups.
    pub data: Vec<PendingTurn>,
    /// True if there are more turns than these.
    pub has_more: bool,
}
