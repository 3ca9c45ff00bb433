//! Where a batch and an item can stand, and how the database and the wire spell it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::log::{UnknownStatus, status::status};

status! {
    /// How far a batch has come; the names are OpenAI's.
    BatchStatus {
        /// Its lines are read, and what is wrong with them is found; those that were read and are good are run already.
        Validating = "validating",
        /// It failed as a whole: it had no line that could be run.
        Failed = "failed",
        /// All of its lines were read, and they are run.
        InProgress = "in_progress",
        /// All have ended; the files of its results are written.
        Finalizing = "finalizing",
        /// Its results are there.
        Completed = "completed",
        /// Its window passed before all lines had ended; the results of the others are there.
        Expired = "expired",
        /// It is being called off.
        Cancelling = "cancelling",
        /// It was called off; the results of what had ended are there.
        Cancelled = "cancelled",
    }
}

impl BatchStatus {
    /// Those in which somebody must look after it.
    pub const OPEN: [Self; 4] = [Self::Validating, Self::InProgress, Self::Finalizing, Self::Cancelling];

    /// Those in which its lines are run.
    pub const RUNNING: [Self; 2] = [Self::Validating, Self::InProgress];

    /// Whether somebody must look after it.
    pub fn is_open(self) -> bool {
        Self::OPEN.contains(&self)
    }
}

status! {
    /// How far an item has come.
    ItemState {
        /// It has no turn yet.
        Waiting = "waiting",
        /// Its turn is queued or under way.
        Fed = "fed",
        /// Its turn waits for a person.
        Asked = "asked",
        /// Its turn ended with words of the assistant.
        Completed = "completed",
        /// An earlier result of the same line was taken.
        Reused = "reused",
        /// Its turn failed.
        Failed = "failed",
        /// Its line could not be run.
        Bad = "bad",
        /// Its time was over.
        Expired = "expired",
        /// It was called off.
        Cancelled = "cancelled",
    }
}

impl ItemState {
    /// Whether it has ended.
    pub fn is_over(self) -> bool {
        match self {
            ItemState::Waiting | ItemState::Fed | ItemState::Asked => false,
            ItemState::Completed
            | ItemState::Reused
            | ItemState::Failed
            | ItemState::Bad
            | ItemState::Expired
            | ItemState::Cancelled => true,
        }
    }

    /// Whether it has ended well.
    pub fn is_good(self) -> bool {
        match self {
            ItemState::Completed | ItemState::Reused => true,
            ItemState::Waiting
            | ItemState::Fed
            | ItemState::Asked
            | ItemState::Failed
            | ItemState::Bad
            | ItemState::Expired
            | ItemState::Cancelled => false,
        }
    }
}

status! {
    /// Why nothing more of a batch is begun.
    Stopped {
        /// Somebody paused it.
        Paused = "paused",
        /// It has cost what it may.
        MaxUsd = "max_usd",
    }
}
