//! Status of a thread and of its turn, as its folded log says.

use shared::{DynThread, InterruptKind, RunStatus};
use shared::{ThreadStatus, TurnStatus};
use store::TurnUpdate;

/// The status of a thread and of its current turn in the read model.
#[derive(PartialEq)]
pub(crate) struct Status {
    pub(crate) thread: ThreadStatus,
    pub(crate) turn: Option<TurnUpdate>,
}

impl Status {
    /// Status of a thread that has just been opened.
    pub(crate) const START: Self = Self { thread: ThreadStatus::Idle, turn: None };
}

/// Returns the read-model status of a thread.
pub(crate) fn status(thread: &dyn DynThread) -> Status {
    let (status, turn, error) = match thread.status() {
        RunStatus::Busy => (ThreadStatus::Busy, TurnStatus::Running, None),
        RunStatus::Waiting(_) => (ThreadStatus::Interrupted, TurnStatus::Interrupted, None),
        RunStatus::Failed { node, reason } => {
            (ThreadStatus::Error, TurnStatus::Failed, Some(format!("{node}: {reason}")))
        }
        RunStatus::Idle if thread.is_cancelled() => (ThreadStatus::Idle, TurnStatus::Cancelled, None),
        RunStatus::Idle => (ThreadStatus::Idle, TurnStatus::Completed, None),
    };
    let outcome = (turn == TurnStatus::Completed).then(|| thread.outcome().clone());
    let update = |id| TurnUpdate { turn: id, status: turn, error, outcome };
    Status { thread: status, turn: thread.turn().map(update) }
}

/// Returns true if the thread waits until a call in doubt is settled.
pub(crate) fn is_in_doubt(thread: &dyn DynThread) -> bool {
    matches!(thread.status(), RunStatus::Waiting(interrupt) if interrupt.kind == InterruptKind::InDoubt)
}
