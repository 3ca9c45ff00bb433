//! The events of one append, as rows.

use shared::{Event, is_readable_event};

use crate::{
    Error,
    integrity::hash_chain,
    log::{head::Head, ids::corrupt},
};

/// The events of one append, numbered and chained.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) from: Head,
    pub(crate) end: Head,
    pub(crate) at: i64,
    pub(crate) rows: Vec<Row>,
}

/// The columns of one event.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) kind: &'static str,
    pub(crate) payload: String,
    pub(crate) hash: [u8; 32],
}

impl Batch {
    /// Numbers the events, sets their time and computes their hashes.
    pub(crate) fn new(head: &Head, events: &[Event], at: i64) -> Result<Self, Error> {
        let mut this = Self { from: *head, end: *head, at, rows: Vec::with_capacity(events.len()) };
        for event in events {
            let kind = event.kind();
            let payload = event.payload().map_err(|error| {
                corrupt(
                    head.thread,
                    format_args!("its next event, {kind:?}, cannot be encoded as JSON: {error}"),
                )
            })?;
            if !is_readable_event(&payload) {
                return Err(Error::ContentRejected(format!(
                    "the next event, {kind:?}, is nested so deep that it could not be read again"
                )));
            }
            this.end.hash = hash_chain::link(&this.end.hash, this.end.seq, at, kind, &payload);
            this.end.seq += 1;
            this.rows.push(Row { kind, payload, hash: this.end.hash });
        }
        Ok(this)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the rows with their numbers.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (&Batch, u64, &Row)> {
        (self.from.seq..).zip(&self.rows).map(move |(seq, row)| (self, seq, row))
    }
}
