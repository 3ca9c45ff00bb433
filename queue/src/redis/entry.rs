//! The text form of jobs in Redis.

use std::time::Duration;

use redis::streams::StreamId;
use uuid::Uuid;

use crate::{
    job::{Deaths, Job, Schedule},
    slots::Slots,
};

/// The only field of a stream entry. Redis walks over the fields of neighbouring entries when it deletes one.
const JOB_FIELD: &str = "job";

/// Most jobs that one command claims, so that it does not block Redis for long.
const MAX_CLAIMED: usize = 1000;

/// Returns how many jobs one command may claim: at least 1, because 0 would mean no limit. A claim on slots that were closed
/// a moment ago can therefore receive one job.
pub(super) fn claim_limit(slots: &Slots) -> usize {
    slots.free().clamp(1, MAX_CLAIMED)
}

/// Encodes a schedule for the scripts: the delay in milliseconds, and the text to store.
pub(super) fn encode(thread: Uuid, schedule: &Schedule) -> (u64, String) {
    match (schedule.delay_ms(), schedule.seq()) {
        (Some(delay), _) => {
            let reason = schedule.reason().map(|reason| reason.to_string()).unwrap_or_default();
            (delay, format!("{thread} {reason}"))
        }
        (None, Some(seq)) => match schedule.note() {
            Some(note) => (0, format!("{thread} {seq} {note}")),
            None => (0, format!("{thread} {seq}")),
        },
        (None, None) => (0, thread.to_string()),
    }
}

/// An entry of the stream of claimed jobs.
pub(super) struct Entry {
    pub(super) token: String,
    /// The entry's text; empty if the queue did not write it.
    pub(super) text: String,
    /// Its previous holders, if it was taken over.
    pub(super) deaths: Option<Deaths>,
}

impl Entry {
    /// Decodes the job; `None` if the text names no thread.
    pub(super) fn job(&self) -> Option<Job> {
        let mut words = self.text.splitn(4, ' ');
        let (lane, thread) = (words.next()?.parse().unwrap_or_default(), words.next()?.parse().ok()?);
        let head = words.next().and_then(|word| word.parse().ok());
        let note = words.next().map(str::to_owned);
        Some(Job { thread, token: self.token.clone(), head, note, lane, deaths: self.deaths.clone() })
    }
}

impl From<StreamId> for Entry {
    fn from(id: StreamId) -> Self {
        Self { text: id.get(JOB_FIELD).unwrap_or_default(), token: id.id, deaths: None }
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
