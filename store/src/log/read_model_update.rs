//! Changes of the rows of threads and turns, written together with events.

use shared::{Outcome, ThreadStatus, TurnStatus};

use crate::log::{
    error_fingerprint::error_fingerprint,
    ids::{TurnId, plain},
};

/// A change of the read model, written in the same transaction as the events that cause it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadModelUpdate {
    /// New status of the thread.
    pub status: ThreadStatus,
    /// New status of a turn, if it changed.
    pub turn: Option<TurnUpdate>,
}

/// A change of a turn's row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnUpdate {
    /// Id of the turn.
    pub turn: TurnId,
    /// New status of the turn.
    pub status: TurnStatus,
    /// Error of a failed turn.
    pub error: Option<String>,
    /// Outcome of a completed turn.
    pub outcome: Option<Outcome>,
}

impl TurnUpdate {
    /// Returns the cause by which turns are counted.
    pub fn cause(&self) -> Option<String> {
        cause(self.error.as_deref(), self.outcome.as_ref())
    }

    /// Returns the name of the outcome.
    pub fn outcome(&self) -> Option<&'static str> {
        self.outcome.as_ref().map(|outcome| outcome.kind.name())
    }
}

/// Returns the error of a failed turn without the parts that differ between occurrences, or the causes of an outcome.
pub(crate) fn cause(error: Option<&str>, outcome: Option<&Outcome>) -> Option<String> {
    let outcome = || outcome.filter(|outcome| !outcome.is_answered());
    error.map(error_fingerprint).or_else(|| outcome().map(|outcome| plain(&outcome.cause())))
}
