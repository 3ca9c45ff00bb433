//! The note of a job: what its worker would read first, of a thread that has just been created.
//!
//! Nothing depends on it. The worker appends to the log that the note describes, and the append is rejected if the log has grown
//! or the turn is no longer queued; a later job of the thread has no note, so its worker reads.

use serde::{Deserialize, Serialize};
use shared::{Event, Opened};
use store::{Head, Queued, Recorded, Turn};

/// Longest note in bytes.
const MAX_BYTES: usize = 4 << 10;

/// A new thread and its only turn.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobNote {
    opened: Opened,
    /// Time of the event `opened`, in microseconds since the Unix epoch.
    at: i64,
    /// Hash of the log after it. Another version of turnfold may write the event in another way.
    hash: String,
    queued: Queued,
}

impl JobNote {
    /// Returns the note of a new thread as text, with the seq of its next event; `None` if it is too long.
    pub fn of(opened: Opened, turn: &Turn, history_hash: Option<String>) -> Option<(u64, String)> {
        let Turn { id, priority, policy, answers_seq, created_at: at, .. } = *turn;
        let head = Head::start(turn.thread).after(&[opened.clone().into()], at).ok()?;
        let queued = Queued {
            id,
            priority,
            policy,
            messages: turn.messages.clone(),
            reply_options: turn.reply_options.clone(),
            author: turn.author.clone(),
            caller: turn.caller.clone(),
            answers_seq,
            created_at: at,
            history_hash,
            metadata: turn.metadata.clone(),
        };
        let note = Self { opened, at, hash: hex::encode(head.hash), queued };
        let note = serde_json::to_string(&note).ok().filter(|text| text.len() <= MAX_BYTES)?;
        Some((head.seq, note))
    }

    /// Parses a note of a thread: its log and the turn that it starts next. `None` if this version of turnfold would write another
    /// log.
    pub(crate) fn parse(thread: store::ThreadId, text: &str) -> Option<(Head, Recorded, Queued)> {
        let Self { opened, at, hash, queued } = serde_json::from_str(text).ok()?;
        let event = Event::from(opened);
        let head = Head::start(thread).after(std::slice::from_ref(&event), at).ok()?;
        let is_same = hex::encode(head.hash) == hash;
        is_same.then_some((head, Recorded { seq: 0, at, event }, queued))
    }
}
