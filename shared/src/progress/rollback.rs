//! Rollback of a turn: the thread continues as if the turn had not been.
//!
//! ## Why calls are named and a question is not asked again
//!
//! The outside world cannot be rolled back. The next turn must know which calls were made, or it makes them twice. For the
//! same reason the question that a rolled back turn answered stays closed: a second yes would repeat what the first one began.
//!
//! Usage, limits that were learned, and the sessions of servers remain as well.

use super::{
    Progress,
    stop::{ReportTexts, list, may_have_changed},
    window::Summary,
};
use crate::{language::Language, message::Message, strategy::Strategy};

/// A thread as it was when its turn began.
#[derive(Clone)]
pub(super) struct TurnStart<T> {
    /// Number of messages.
    messages: usize,
    state: T,
    summary: Option<Summary>,
}

impl<S: Strategy> Progress<S> {
    /// Keeps what a rollback of the turn returns to.
    pub(super) fn mark_turn_start(&mut self) {
        let (messages, state) = (self.thread.messages.len(), self.thread.state.clone());
        let summary = self.window.summary().cloned();
        self.turn_start = Some(Box::new(TurnStart { messages, state, summary }));
    }

    /// Returns to the messages and the state before the turn.
    pub(super) fn rewind(&mut self) {
        let Some(start) = self.turn_start.take() else { return };
        let TurnStart { messages, state, summary } = *start;
        self.thread.messages.truncate(messages);
        self.thread.state = state;
        self.thread.turn.from = messages;
        self.window.rewind(messages, summary);
    }

    /// Adds a message that names the calls of the request which may have changed something.
    pub(super) fn name_writes(&mut self) {
        if !may_have_changed(&self.writes) {
            return;
        }
        let texts = ReportTexts::of(Language::of_people(self.thread.messages.iter()));
        let mut text = texts.rolled_back.to_owned();
        list(&mut text, &self.writes, &texts);
        self.say(Message::assistant(text));
    }
}
