//! Holds, which protect threads from deletion, and the deletion of a thread.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

/// Request to protect a thread from deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewHold {
    /// Reason, for those who want to release the thread.
    #[schema(examples("a lawsuit"))]
    pub reason: String,
}

/// A hold on a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hold {
    /// Id of the thread.
    pub thread_id: Uuid,
    /// Reason of the hold.
    pub reason: String,
    /// User who placed it.
    pub by: String,
    /// Time of the hold (RFC 3339).
    pub at: String,
}

/// A thread that was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedThread {
    /// Id of the thread.
    pub id: Uuid,
    /// Number of turns deleted with it.
    pub turns: u64,
    /// Number of events deleted with it.
    pub events: u64,
}
