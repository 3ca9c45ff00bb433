//! Turns that end in this process, for an exporter.

use tokio::sync::mpsc;
use tracing::warn;

use super::{
    Store,
    ids::{ThreadId, TurnId},
};

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
pub(crate) struct EndedTurns(Option<mpsc::Sender<EndedTurn>>);

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

impl Store {
    /// Reports a turn that ended, without waiting.
    pub fn turn_ended(&self, ended: EndedTurn) {
        self.ended_turns.report(ended);
    }

    /// Reports each turn that ends in this process to `receiver`, without waiting for it.
    #[must_use]
    pub fn reporting_ended_turns(mut self, receiver: mpsc::Sender<EndedTurn>) -> Self {
        self.ended_turns = EndedTurns(Some(receiver));
        self
    }
}
