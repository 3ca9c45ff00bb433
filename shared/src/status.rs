//! Statuses and other enumerations with one name each, which rows, the queue, the API and the command line share.

use utoipa::ToSchema;

/// A name that this build does not know.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("status {text:?} is unknown; hint: use one of {known}")]
pub struct UnknownStatus {
    /// Text that could not be parsed.
    pub text: String,
    /// List of the known names.
    pub known: String,
}

/// Declares an enumeration whose values have one name in the database, the queue, the API and metrics. A missing name does
/// not compile.
#[macro_export]
macro_rules! status {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $text:tt),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$of])* #[serde(rename = $text)] $variant,)*
        }

        impl $name {
            /// All values, in order of declaration.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// Returns the name in the database, the queue, the API and metrics.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownStatus;

            fn from_str(text: &str) -> Result<Self, $crate::UnknownStatus> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err($crate::UnknownStatus {
                        text: text.to_owned(),
                        known: [$($text),*].join(", "),
                    }),
                }
            }
        }
    };
}

status! {
    /// Status of a thread in the list of threads.
    #[derive(ToSchema)]
    ThreadStatus {
        /// It is ready for the next message.
        Idle = "idle",
        /// It has work to do.
        Busy = "busy",
        /// It asked a person and has no answer yet.
        Interrupted = "interrupted",
        /// A node failed. Retry the turn, or send a new message.
        Error = "error",
    }
}

status! {
    /// Status of a turn.
    #[derive(ToSchema)]
    TurnStatus {
        /// It has not started.
        Queued = "queued",
        /// Its thread is working on it.
        Running = "running",
        /// It ended with a reply of the assistant.
        Completed = "completed",
        /// It ended with a question to a person. The answer is another turn.
        Interrupted = "interrupted",
        /// A node failed, or the thread rejected the turn.
        Failed = "failed",
        /// It was cancelled.
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

status! {
    /// Priority of a turn within its tenant. It is strict: `low` turns wait until no other turn of the tenant is runnable.
    #[derive(Default, ToSchema)]
    Priority {
        /// Before all other turns of the tenant.
        High = "high",
        /// In order of submission.
        #[default]
        Normal = "normal",
        /// After all other turns of the tenant.
        Low = "low",
    }
}

impl Priority {
    /// The index in [`Self::ALL`], which the database stores so that rows sort by priority.
    pub fn rank(self) -> u8 {
        match self {
            Self::High => 0,
            Self::Normal => 1,
            Self::Low => 2,
        }
    }

    /// The priority with this [rank](Self::rank); `None` if there is none.
    pub fn from_rank(rank: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|priority| i64::from(priority.rank()) == rank)
    }
}

status! {
    /// Treatment of input when a thread may be waiting for an answer.
    #[derive(Default, ToSchema)]
    Policy {
        /// The answer if the thread is waiting for one, otherwise a new request.
        #[default]
        Auto = "auto",
        /// The answer. The turn fails if the thread is not waiting for one.
        Answer = "answer",
        /// A new request, even if the thread is waiting for an answer.
        Replan = "replan",
    }
}

status! {
    /// Treatment of a turn that is submitted while another one of its thread is running, in doubt or queued. The names are
    /// LangGraph's.
    #[derive(Default, ToSchema, schemars::JsonSchema)]
    MultitaskStrategy {
        /// The new turn is refused, and nothing is stored.
        Reject = "reject",
        /// The new turn starts after the others.
        #[default]
        Enqueue = "enqueue",
        /// The running turn is cancelled before its next write, queued ones never start, and the new turn follows.
        Interrupt = "interrupt",
        /// The same, and the new turn does not see the messages of the cancelled one. Its writes are not undone, but named.
        Rollback = "rollback",
    }
}

status! {
    /// End of a turn other than an answer.
    #[derive(ToSchema)]
    TurnEnd {
        /// The turn failed.
        Failed = "failed",
        /// The turn completed with the outcome `partial`.
        Partial = "partial",
        /// The turn completed with the outcome `declined`.
        Declined = "declined",
    }
}

status! {
    /// Status of a batch; the names are OpenAI's.
    #[derive(ToSchema)]
    BatchStatus {
        /// Its file is being read. Valid lines already run.
        Validating = "validating",
        /// No line can be run.
        Failed = "failed",
        /// Its file has been read and its lines are running.
        InProgress = "in_progress",
        /// All lines have ended and the result files are being written.
        Finalizing = "finalizing",
        /// The result files are complete.
        Completed = "completed",
        /// The completion window ended before all lines did.
        Expired = "expired",
        /// Its lines are being cancelled.
        Cancelling = "cancelling",
        /// It was cancelled.
        Cancelled = "cancelled",
    }
}

impl BatchStatus {
    /// Statuses in which the batch still needs processing, and lines may still run.
    pub const OPEN: [Self; 4] = [Self::Validating, Self::InProgress, Self::Finalizing, Self::Cancelling];

    /// Statuses in which lines run.
    pub const RUNNING: [Self; 2] = [Self::Validating, Self::InProgress];

    /// Returns true if the batch still needs processing.
    pub fn is_open(self) -> bool {
        Self::OPEN.contains(&self)
    }
}

status! {
    /// Reason why a batch submits no more lines.
    #[derive(ToSchema)]
    StopReason {
        /// It was paused.
        Paused = "paused",
        /// It reached its maximum cost.
        MaxUsd = "max_usd",
    }
}

status! {
    /// Kind of thing that can be paused.
    #[derive(ToSchema)]
    PauseKind {
        /// Every thread of a strategy.
        Strategy = "strategy",
        /// Every request to a model.
        Model = "model",
        /// Every thread of a tenant, by an operator.
        Tenant = "tenant",
        /// Every thread of a tenant, by the tenant itself.
        OwnTenant = "own_tenant",
    }
}

status! {
    /// State of a delivery.
    #[derive(ToSchema)]
    DeliveryState {
        /// Another attempt will be made.
        Pending = "pending",
        /// The receiver accepted it.
        Delivered = "delivered",
        /// All attempts failed.
        Failed = "failed",
    }
}

status! {
    /// Treatment of firings of a schedule that were missed: those that could not be submitted within a minute.
    #[derive(Default, ToSchema)]
    MissedFirings {
        /// They are left out.
        #[default]
        Skip = "skip",
        /// The last of them is submitted late.
        Once = "once",
        /// All of them are submitted late, at most the last 100.
        All = "all",
    }
}

status! {
    /// Status of a schedule.
    #[derive(ToSchema)]
    ScheduleStatus {
        /// It fires at its times.
        Active = "active",
        /// A person paused it.
        Paused = "paused",
        /// It may no longer submit anything.
        Stopped = "stopped",
    }
}

status! {
    /// Kind of request that a schedule submits.
    ScheduleTarget {
        /// It submits a turn.
        Turn = "turn",
        /// It creates a batch.
        Batch = "batch",
    }
}
