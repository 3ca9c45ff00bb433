//! Error of a log that cannot be folded.

use crate::{
    effect::UnexpectedResponse,
    event::{Event, Unreadable},
};

/// Error of a log that no thread of this strategy could have written.
#[derive(Debug, thiserror::Error)]
pub enum InvalidLog {
    /// An event that cannot follow the ones before it.
    #[error("event {seq} cannot occur at this point: {event}")]
    UnexpectedEvent {
        /// Number of the event.
        seq: usize,
        /// Event that cannot occur at this point.
        event: Box<Event>,
    },
    /// A stored event that this version cannot read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A fact, a node or a configuration that this version of the strategy cannot read.
    #[error("this version of the strategy cannot read the log: {0}")]
    Incompatible(#[from] serde_json::Error),
    /// An answer of the wrong kind.
    #[error("the log contains an answer of the wrong kind: {0}")]
    Refused(#[from] UnexpectedResponse),
}
