//! States of batches and items, with their names in the database and the API.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::log::{UnknownStatus, status::status};

status! {
    /// Status of a batch; the names are OpenAI's.
    BatchStatus {
        /// Lines are being validated; valid lines run already.
        Validating = "validating",
        /// Failed: no line could be run.
        Failed = "failed",
        /// All lines are validated and running.
        InProgress = "in_progress",
        /// All lines have ended; result files are being written.
        Finalizing = "finalizing",
        /// The result files are complete.
        Completed = "completed",
        /// The completion window passed first; results of ended lines are available.
        Expired = "expired",
        /// Being cancelled: running lines are still ending.
        Cancelling = "cancelling",
        /// Cancelled; results of ended lines are available.
        Cancelled = "cancelled",
    }
}

impl BatchStatus {
    /// Statuses in which the batch still needs processing.
    pub const OPEN: [Self; 4] = [Self::Validating, Self::InProgress, Self::Finalizing, Self::Cancelling];

    /// Statuses in which lines run.
    pub const RUNNING: [Self; 2] = [Self::Validating, Self::InProgress];

    /// Returns true if the batch still needs processing.
    pub fn is_open(self) -> bool {
        Self::OPEN.contains(&self)
    }
}

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

status! {
    /// Reason for which a batch starts no further items.
    Stopped {
        /// Paused by a person.
        Paused = "paused",
        /// The budget is spent.
        MaxUsd = "max_usd",
    }
}
