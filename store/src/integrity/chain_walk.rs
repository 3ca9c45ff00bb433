//! Walks through the stored events of one thread and reports the first one that does not fit the chain.
//!
//! The hash of an event covers its number and the previous hash. An event that was changed, removed, inserted or moved
//! therefore breaks at least one link. The walk continues from the stored hash after a broken link, so it counts every
//! broken link and still compares the rest of the log.
//!
//! An event that was changed and rehashed together with its successors fits its neighbours. Only heads stored elsewhere
//! ([`AttestedHeads`](super::AttestedHeads)) reveal it.

use std::collections::BTreeMap;

use crate::{
    Error,
    admin::is_admin_log,
    integrity::{Finding, Wrong, attested_heads::Heads, hash_chain},
    log::{
        event_row::EventRow,
        head::Head,
        ids::ThreadId,
        rows::{CODEC, Recorded},
        tables::events,
    },
};

/// Walk through one log.
pub(crate) struct Walk {
    thread: ThreadId,
    next: u64,
    hash: [u8; 32],
    /// The first broken link: the number of the event, and the description.
    first: Option<(u64, String)>,
    /// Number of broken links.
    broken: u64,
    heads: Heads,
    findings: Vec<Finding>,
    /// Hashes of the attachments that events refer to, each with the first such event.
    attachments: BTreeMap<String, u64>,
}

impl Walk {
    /// Starts a walk through the log of this thread, to be compared with its attested heads.
    pub(crate) fn new(thread: ThreadId, heads: Vec<Head>) -> Self {
        Self {
            thread,
            next: 0,
            hash: hash_chain::START,
            first: None,
            broken: 0,
            heads: Heads::new(heads),
            findings: Vec::new(),
            attachments: BTreeMap::new(),
        }
    }

    /// Returns the hashes of the attachments that events refer to, each with the first such event.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.attachments.iter()
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.thread
    }

    /// Returns the length of the log and its last hash.
    pub(crate) fn end(&self) -> (u64, [u8; 32]) {
        (self.next, self.hash)
    }

    /// Returns the number of events that match the attested heads.
    pub(crate) fn attested(&self) -> u64 {
        self.heads.good
    }

    /// Processes the next event, in the order of the stored numbers, and returns it.
    pub(crate) fn step(&mut self, stored: &EventRow) -> Result<Recorded, Error> {
        let is_readable = self.pass(stored);
        let event = stored.recorded();
        if is_readable {
            self.read(&stored.columns, &event);
        }
        event
    }

    /// Passes the next row, in the order of the stored numbers. Returns true if it fits, and each value has its type.
    pub(crate) fn pass(&mut self, stored: &EventRow) -> bool {
        let row = &stored.columns;
        let expected = self.next;
        let seq = u64::try_from(row.seq).unwrap_or_default();
        let hash = hash_chain::link(&self.hash, seq, row.at, &row.kind, &row.payload);
        let fits = u64::try_from(row.seq) == Ok(expected) && hash.as_slice() == row.hash;
        if !fits {
            let what = match seq.checked_sub(expected) {
                Some(1) => format!("event {expected} is missing: the next one is {seq}"),
                Some(2..) => {
                    format!("events {expected} to {} are missing: the next one is {seq}", seq - 1)
                }
                Some(0) | None => format!("event {seq} does not fit the events before it"),
            };
            self.first.get_or_insert((expected, what));
            self.broken += 1;
        }
        self.next = seq + 1;
        self.hash = row.hash.as_slice().try_into().unwrap_or(hash);
        self.heads.pass(row, self.next);
        if let Some(what) = &stored.mistyped {
            let table = if is_admin_log(self.thread) { "admin_events" } else { "events" };
            self.find(seq, Wrong::Mistyped, format!("table {table}, event {seq}: {what}"));
        }
        fits && stored.mistyped.is_none()
    }

    /// Returns the findings, ordered by event number.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        if let Some((seq, first)) = self.first.take() {
            let what = match self.broken {
                1 => first,
                links => format!("{first}; {links} links of this chain are broken"),
            };
            self.find(seq, Wrong::Broken, what);
        }
        self.compare_with_attested();
        self.findings.sort_by_key(|finding| (finding.seq, finding.wrong));
        self.findings
    }

    /// Compares the log with its attested heads, where its own hashes show no difference.
    fn compare_with_attested(&mut self) {
        let known = |below| self.findings.iter().any(|it| it.wrong != Wrong::Unreadable && it.seq < below);
        let rewritten = self.heads.amiss.filter(|(_, end)| !known(*end));
        if let Some((from, end)) = rewritten {
            let what = format!(
                "{} not what was attested, though the hashes fit each other: changed, and hashed anew",
                span(from, end, "is", "are")
            );
            self.find(from, Wrong::Rewritten, what);
        }
        if let Some(head) = self.heads.ahead.back()
            && head.hash.as_slice() != self.heads.seen
        {
            let end = head.seq;
            let what = format!("{} cut off: {end} events were attested", span(self.next, end, "is", "are"));
            self.find(self.next, Wrong::Truncated, what);
        }
    }

    fn read(&mut self, row: &events::Model, event: &Result<Recorded, Error>) {
        let seq = u64::try_from(row.seq).unwrap_or_default();
        match event {
            Ok(recorded) => {
                for attachment in recorded.event.attachments() {
                    self.attachments.entry(attachment.sha256.clone()).or_insert(seq);
                }
            }
            Err(error) => self.unreadable(row, error),
        }
    }

    /// Adds the finding for a row that fits but cannot be decoded.
    pub(crate) fn unreadable(&mut self, row: &events::Model, error: &Error) {
        let seq = u64::try_from(row.seq).unwrap_or_default();
        // The hash does not cover the codec; only events stored as JSON are ever attested.
        if row.codec != CODEC && seq < self.heads.last {
            let what = format!("event {seq} has the codec {:?}, but {CODEC:?} was attested", row.codec);
            self.find(seq, Wrong::Rewritten, what);
        } else {
            self.find(seq, Wrong::Unreadable, error.to_string());
        }
    }

    fn find(&mut self, seq: u64, wrong: Wrong, what: String) {
        self.findings.push(Finding { thread: self.thread, seq, wrong, what });
    }
}

/// Formats the range from `from` to the event before `end`, with its verb.
fn span(from: u64, end: u64, one: &str, many: &str) -> String {
    match end.saturating_sub(from) {
        0 | 1 => format!("event {from} {one}"),
        _ => format!("events {from} to {} {many}", end - 1),
    }
}
