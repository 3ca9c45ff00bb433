//! Differences between two threads.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Usage;

/// Differences between two threads, `left` and `right`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ThreadDiff {
    /// Number of events that are the same in both logs.
    pub same: u64,
    /// All other events, in order.
    pub rows: Vec<DiffRow>,
    /// Point at which the threads diverge; null if they do not. A fork alone is not a divergence.
    pub split: Option<Divide>,
}

/// An event that differs or is in only one of the logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DiffRow {
    /// Position in the left log; null if the event is not there.
    pub left: Option<u64>,
    /// Position in the right log; null if the event is not there.
    pub right: Option<u64>,
    /// Summary of the event if one log has it, or the name of the step if both do.
    pub text: String,
    /// Values that differ. Empty if only one log has the event.
    pub differs: Vec<Difference>,
}

/// A value that differs between two threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Difference {
    /// Path of the value.
    #[schema(examples("state.plan.tasks.1.expert"))]
    pub path: String,
    /// Value in the left thread.
    pub left: String,
    /// Value in the right thread.
    pub right: String,
}

/// Point at which two threads diverge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Divide {
    /// Number of events of the left log before that point.
    pub left: u64,
    /// Number of events of the right log before that point.
    pub right: u64,
    /// Differences between the states directly after that point.
    pub state: Vec<Difference>,
    /// Usage up to that point.
    pub before: UsagePair,
    /// Usage of the whole threads.
    pub all: UsagePair,
}

/// Usage of two threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsagePair {
    /// Usage of the left thread.
    pub left: Usage,
    /// Usage of the right thread.
    pub right: Usage,
}
