//! Ids that are found by a part of them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

shared::status! {
    /// Kind of a thing that has an id.
    #[derive(ToSchema)]
    IdKind {
        /// A conversation with an agent.
        Thread = "thread",
        /// A message to a thread, and the work on it.
        Turn = "turn",
        /// A file of turns that runs as a whole.
        Batch = "batch",
    }
}

/// An id that a text may mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FoundId {
    /// Kind of the thing.
    pub kind: IdKind,
    /// The whole id, that of a batch with `batch_`.
    #[schema(examples("019aa7f0-7d5e-7c3a-9d0b-3f6c1a2b4c5d", "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"))]
    pub id: String,
    /// The short form of the id: its last eight characters, which are random. The first ones are a time.
    #[schema(examples("1a2b4c5d"))]
    pub short: String,
}
