//! Failures of requests, and the reactions that they permit.

use crate::{pending::BlockedBy, usage::Usage};

/// Failure of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Error text that an operator can act on.
    pub error: String,
    /// Reaction that the error permits.
    pub kind: FaultKind,
    /// Usage of the failed attempt. Boxed, because it is rare and would enlarge every result.
    pub usage: Option<Box<Usage>>,
    /// The server offers other tools than its pin.
    pub pin_changed: bool,
}

impl Fault {
    /// Creates a fault without usage.
    pub fn new(error: impl Into<String>, kind: FaultKind) -> Self {
        Self { error: error.into(), kind, usage: None, pin_changed: false }
    }

    /// Creates a fault that may be retried.
    pub fn transient(error: impl Into<String>) -> Self {
        Self::new(error, FaultKind::Transient { retry_after_ms: None })
    }

    /// Creates the fault of a model or server that took no request.
    pub fn unavailable(error: impl Into<String>, retry_after_ms: Option<u64>) -> Self {
        Self::new(error, FaultKind::Unavailable { retry_after_ms, sent: false, by: BlockedBy::Provider })
    }

    /// Creates the fault of a model or server that answered nothing in time.
    pub fn unanswered(error: impl Into<String>) -> Self {
        let by = BlockedBy::Provider;
        Self::new(error, FaultKind::Unavailable { retry_after_ms: None, sent: true, by })
    }

    /// Makes the fault count as an attempt: the model or server takes requests, and failed this one.
    #[must_use]
    pub fn as_attempt(self) -> Self {
        let kind = match self.kind {
            FaultKind::Unavailable { retry_after_ms, sent: false, .. } => {
                FaultKind::Transient { retry_after_ms }
            }
            FaultKind::Unavailable { retry_after_ms, sent: true, .. } => {
                FaultKind::InDoubt { retry_after_ms }
            }
            other @ (FaultKind::Transient { .. }
            | FaultKind::InDoubt { .. }
            | FaultKind::Permanent
            | FaultKind::ContextExceeded { .. }
            | FaultKind::Oversized(_)) => other,
        };
        Self { kind, ..self }
    }

    /// Creates a fault that only an operator can resolve.
    pub fn permanent(error: impl Into<String>) -> Self {
        Self::new(error, FaultKind::Permanent)
    }

    /// Creates the permanent fault of a server that offers other tools than its pin.
    pub fn pin_changed(error: impl Into<String>) -> Self {
        Self { pin_changed: true, ..Self::permanent(error) }
    }

    /// Creates a fault of a request that may have taken effect.
    pub fn in_doubt(error: impl Into<String>) -> Self {
        Self::new(error, FaultKind::InDoubt { retry_after_ms: None })
    }
}

/// Permitted reaction to a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The request may be retried.
    Transient {
        /// Delay that the server requested (`Retry-After`), in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// The model or server refuses requests for now, or takes fewer than are sent. The request waits and counts no attempt.
    Unavailable {
        /// Delay that the server requested, in milliseconds.
        retry_after_ms: Option<u64>,
        /// The request was sent, and nothing was answered in time. It may be billed. A call that may change something is
        /// then in doubt.
        sent: bool,
        /// Cause for which the request waits.
        by: BlockedBy,
    },
    /// Retrying does not help. An operator must act.
    Permanent,
    /// The model takes fewer tokens than the request has. A smaller request may succeed.
    ContextExceeded {
        /// Context window of the model in tokens, if the endpoint names it.
        context_tokens: Option<u64>,
    },
    /// The endpoint refused the request, possibly because of its size. A smaller request may succeed.
    Oversized(Oversize),
    /// The request was sent and its response was lost. It may have taken effect.
    InDoubt {
        /// Delay that the server requested, in milliseconds, for requests that are safe to repeat.
        retry_after_ms: Option<u64>,
    },
}

/// Sign that the size of a request is the cause of its refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oversize {
    /// The endpoint says that the request has too many images or files, or too large ones.
    Attachments {
        /// Maximum number of them, if the endpoint names it.
        max: Option<u64>,
    },
    /// The status or the code says so, and nothing names the part that is too large.
    Status,
    /// Nothing says so. The endpoint refused the request as invalid, for a reason that is not known.
    Unknown,
}
