//! A step: the events and the change of the read model that are written together.

use shared::Event;

use crate::{
    Error,
    log::{
        batch::Batch,
        ids::{ThreadId, signed},
        read_model_update::ReadModelUpdate,
    },
    webhooks::Notice,
};

/// Events and read-model change of one step.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) batch: Batch,
    pub(crate) update: Option<ReadModelUpdate>,
    /// Number of the event that starts the turn of `update`, if this step contains it.
    pub(crate) started: Option<u64>,
    /// Notices of the step for webhooks; empty if none wants them.
    pub(crate) notices: Vec<Notice>,
}

impl Step {
    pub(crate) fn new(batch: Batch, events: &[Event], update: Option<&ReadModelUpdate>) -> Self {
        let turn = update.and_then(|update| update.turn.as_ref()).map(|turn| turn.turn);
        let hears = |event: &Event| turn.is_some() && event.turn_started() == turn;
        let started = (batch.from.seq..).zip(events).find(|(_, event)| hears(event)).map(|(seq, _)| seq);
        Self { batch, update: update.cloned(), started, notices: Vec::new() }
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.batch.from.thread
    }

    /// Builds the error for a step whose first number is taken.
    pub(crate) fn stale(&self) -> Error {
        let from = self.batch.from;
        Error::Stale { thread: from.thread, seq: from.seq }
    }

    /// Builds the error for a step whose thread has a request to cancel its turn.
    pub(crate) fn cancel_requested(&self) -> Error {
        Error::CancelRequested { thread: self.thread() }
    }

    /// Returns the number of the event that ended the turn or left it waiting for a person.
    pub(crate) fn ended(&self) -> Option<i64> {
        let over = self.update.as_ref()?.turn.as_ref()?.status.is_over();
        over.then_some(signed(self.batch.end.seq.saturating_sub(1)))
    }
}

/// Builds the error for a batch in which a read-model row did not match a step.
pub(crate) fn unexpected() -> Error {
    Error::Database("a row of a read model did not match a step of the batch".to_owned())
}
