//! The end of a turn as it is announced: what those who wait for it would read from its row and its log.
//!
//! It saves them two reads and a fold. Nothing depends on it: where an announcement is lost or left out, they read.

use serde::{Deserialize, Serialize};
use shared::{DynThread, Event, Message, OutcomeKind, TurnStatus};
use store::{Head, Turn, TurnId, TurnUpdate};

use crate::turn_result::{Course, TurnResult};

/// Longest announcement in bytes.
const MAX_BYTES: usize = 8 << 10;

/// The end of a turn that was completed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    turn: TurnId,
    /// Time of the last event, in microseconds since the Unix epoch.
    at: i64,
    started_seq: u64,
    ended_seq: u64,
    outcome: Option<OutcomeKind>,
    cause: Option<String>,
    /// Strategy of the thread.
    pub strategy: String,
    /// Result of the turn.
    pub result: TurnResult,
}

impl TurnEnd {
    /// Parses the end of a turn from its announcement; `None` if it is that of another turn, or of another version of turnfold.
    pub fn of(turn: TurnId, announced: &str) -> Option<Self> {
        serde_json::from_str(announced).ok().filter(|end: &Self| end.turn == turn)
    }

    /// Returns the row of the turn, of which `queued` is an earlier reading.
    pub fn row(&self, queued: Turn) -> Turn {
        Turn {
            status: TurnStatus::Completed,
            started_seq: Some(self.started_seq),
            ended_seq: Some(self.ended_seq),
            error: None,
            outcome: self.outcome,
            cause: self.cause.clone(),
            updated_at: self.at,
            ..queued
        }
    }
}

/// The turn that runs, as far as its end needs it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningTurn {
    /// `None` if the log was not read from before its start.
    started_seq: Option<u64>,
    /// Number of messages up to those that started it.
    first_message: usize,
    course: Course,
}

impl RunningTurn {
    /// Notes an event that `thread` has just folded.
    pub(crate) fn folded(&mut self, event: &Event, thread: &dyn DynThread) {
        if event.turn_started().is_some() {
            self.started_seq = thread.seq().checked_sub(1).and_then(|seq| u64::try_from(seq).ok());
            self.first_message = thread.messages().len();
        }
    }

    /// Notes the time of an event, in microseconds since the Unix epoch.
    pub(crate) fn stored(&mut self, at: i64, event: &Event) {
        self.course.add(at, event);
    }

    /// Returns the time of the last noted event.
    pub(crate) fn last_at(&self) -> Option<i64> {
        self.course.ended_at
    }

    /// Returns the announcement of its end with `last`; `None` if it was not completed, or is large.
    pub(crate) fn end(
        &self,
        update: &TurnUpdate,
        head: &Head,
        thread: &dyn DynThread,
        last: &Event,
    ) -> Option<String> {
        let messages = thread.messages().get(self.first_message..)?;
        let bytes: usize = messages.iter().map(Message::retained_bytes).sum();
        if update.status != TurnStatus::Completed || MAX_BYTES < bytes {
            return None;
        }
        let end = TurnEnd {
            turn: update.turn,
            at: self.course.ended_at?,
            started_seq: self.started_seq?,
            ended_seq: head.seq.checked_sub(1)?,
            outcome: update.outcome.as_ref().map(|outcome| outcome.kind),
            cause: update.cause(),
            strategy: thread.strategy().to_owned(),
            result: TurnResult::of(thread, self.first_message, Some(last), self.course.clone()),
        };
        serde_json::to_string(&end).ok().filter(|text| text.len() <= MAX_BYTES)
    }
}
