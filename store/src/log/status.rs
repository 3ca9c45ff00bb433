//! Statuses of threads and turns, with their names in the database and the API.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A status that this build does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("status {text:?} is unknown; hint: use one of {known}")]
pub struct UnknownStatus {
    /// Text that could not be parsed.
    pub text: String,
    /// List of the known statuses.
    pub known: String,
}

macro_rules! status {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            /// All statuses, in order of declaration.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name in the database and the API.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownStatus;

            fn from_str(text: &str) -> Result<Self, UnknownStatus> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(UnknownStatus { text: text.to_owned(), known: [$($text),*].join(", ") }),
                }
            }
        }
    };
}

pub(crate) use status;

status! {
    /// Status of a thread in the read model.
    ThreadStatus {
        /// No turn is running; a new turn can start.
        Idle = "idle",
        /// A turn is running.
        Busy = "busy",
        /// The thread waits for a person's answer.
        Interrupted = "interrupted",
        /// A node failed permanently: an operator may retry it, or a person may submit a new turn.
        Error = "error",
    }
}

status! {
    /// Status of a turn.
    TurnStatus {
        /// Waits for its thread.
        Queued = "queued",
        /// Started by its thread.
        Running = "running",
        /// Ended with a reply.
        Completed = "completed",
        /// Waits for a person's answer.
        Interrupted = "interrupted",
        /// A node failed permanently, or the thread could not start the turn.
        Failed = "failed",
        /// Cancelled before it ended.
        Cancelled = "cancelled",
    }
}

impl TurnStatus {
    /// Returns true if the turn needs no more work unless a person acts.
    pub fn is_over(self) -> bool {
        match self {
            TurnStatus::Queued | TurnStatus::Running => false,
            TurnStatus::Completed | TurnStatus::Interrupted | TurnStatus::Failed | TurnStatus::Cancelled => {
                true
            }
        }
    }
}
