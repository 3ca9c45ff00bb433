//! Turns that end in this process, for an exporter.

use tokio::sync::mpsc;
use tracing::warn;

use super::ids::{ThreadId, TurnId};

/// A turn that ended, and its thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTurn {
    /// Thread of the turn.
    pub thread: ThreadId,
    /// Turn that ended.
    pub turn: TurnId,
}

/// Receivers of ended turns. Nothing waits for them.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedTurns(pub(super) Option<mpsc::Sender<EndedTurn>>);

impl EndedTurns {
    /// Reports a turn. It is dropped if too many wait.
    pub(crate) fn report(&self, ended: EndedTurn) {
        let EndedTurn { thread, turn } = ended;
        if let Some(sender) = &self.0
            && sender.try_send(ended).is_err()
        {
            warn!(%thread, %turn, "too many turns wait for their export; export it later with: turnfold otel export");
        }
    }
}
