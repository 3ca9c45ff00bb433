//! Where a thread and a turn can stand, and how the database and the wire spell it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// A status that this build does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("status {text:?} is unknown: it is one of {known}")]
pub struct UnknownStatus {
    /// What was read.
    pub text: String,
    /// What could have been.
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
            /// Every one there is.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name in the database and on the wire.
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
    /// Where a thread stands, for those who only look.
    ThreadStatus {
        /// A person may speak.
        Idle = "idle",
        /// It can move.
        Busy = "busy",
        /// A person is asked.
        Interrupted = "interrupted",
        /// A node gave up: an operator may retry, a person may say something new.
        Error = "error",
    }
}

status! {
    /// How far a turn has come.
    TurnStatus {
        /// It waits for its thread's rest.
        Queued = "queued",
        /// Its thread has heard it.
        Running = "running",
        /// It ended with words of the assistant.
        Completed = "completed",
        /// It waits for a person.
        Interrupted = "interrupted",
        /// A node gave up, or its thread could not hear it.
        Failed = "failed",
        /// It was called off.
        Cancelled = "cancelled",
    }
}

impl TurnStatus {
    /// Whether nothing of it is left to do, unless a person acts.
    pub fn is_over(self) -> bool {
        match self {
            TurnStatus::Queued | TurnStatus::Running => false,
            TurnStatus::Completed | TurnStatus::Interrupted | TurnStatus::Failed | TurnStatus::Cancelled => {
                true
            }
        }
    }
}
