//! States of items, with their names in the database and the API.

use shared::status;

status! {
    /// State of an item.
    ItemState {
        /// No turn was submitted yet.
        Waiting = "waiting",
        /// The turn is queued or running.
        Submitted = "submitted",
        /// The turn waits for a person.
        AwaitingInput = "awaiting_input",
        /// The turn was answered.
        Completed = "completed",
        /// The turn ended with a partial answer.
        Partial = "partial",
        /// The turn ended with a reply, and its request was declined.
        Declined = "declined",
        /// An earlier result of the same line was reused.
        Reused = "reused",
        /// The turn failed.
        Failed = "failed",
        /// The line could not be run.
        Invalid = "invalid",
        /// The time limit passed.
        Expired = "expired",
        /// Cancelled before it ended.
        Cancelled = "cancelled",
    }
}

impl ItemState {
    /// Returns true if the state is final.
    pub fn is_over(self) -> bool {
        match self {
            ItemState::Waiting | ItemState::Submitted | ItemState::AwaitingInput => false,
            ItemState::Completed
            | ItemState::Partial
            | ItemState::Declined
            | ItemState::Reused
            | ItemState::Failed
            | ItemState::Invalid
            | ItemState::Expired
            | ItemState::Cancelled => true,
        }
    }

    /// Returns true if the item ended with a reply.
    pub fn is_good(self) -> bool {
        match self {
            ItemState::Completed | ItemState::Partial | ItemState::Declined | ItemState::Reused => true,
            ItemState::Waiting
            | ItemState::Submitted
            | ItemState::AwaitingInput
            | ItemState::Failed
            | ItemState::Invalid
            | ItemState::Expired
            | ItemState::Cancelled => false,
        }
    }
}
