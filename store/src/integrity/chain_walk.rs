//! Walks through the stored events of one thread and reports each deviation from what was appended.
//!
//! ## Distinguishing moved events from changed ones
//!
//! The hash of an event covers its number and the previous hash. An event whose hash fits none of its neighbours was
//! therefore changed, and an event that fits a neighbour under another number was moved. The walk keeps a few
//! neighbours on both sides to decide this. Of two events with the same original number, the one without a successor
//! was inserted.
//!
//! An event that was changed and rehashed together with its successors fits its neighbours. Only heads stored elsewhere
//! ([`AttestedHeads`](super::AttestedHeads)) reveal it.

use std::collections::VecDeque;

use crate::{
    integrity::{Finding, Wrong, attested_heads::Heads, hash_chain},
    log::{
        append::Head,
        ids::ThreadId,
        read::{CODEC, recorded},
        tables::events,
    },
};

/// Number of earlier hashes that an event is compared with, and of unmatched events kept for a later match.
const NEIGHBOURS: usize = 8;

/// Maximum number of consecutive deleted events across which a moved event is still matched.
const TAKEN: u64 = 4;

/// A position in the chain that an event may follow.
struct Link {
    /// Number of the following event.
    next: u64,
    hash: [u8; 32],
    /// True if the number itself is known to be correct.
    placed: bool,
}

/// Walk through one log.
pub(crate) struct Walk {
    thread: ThreadId,
    next: u64,
    trail: VecDeque<Link>,
    /// Events that follow none of the known positions.
    suspects: VecDeque<events::Model>,
    /// Distance by which the last event was moved. Of several events moved together only the first is reported.
    moved: i128,
    /// The last matched events: original number and current number.
    placed: VecDeque<(u64, u64)>,
    /// Events that were moved to a later number, with the distance.
    pushed: Vec<(u64, u64)>,
    heads: Heads,
    findings: Vec<Finding>,
}

impl Walk {
    /// Starts a walk through the log of this thread, to be compared with its attested heads.
    pub(crate) fn new(thread: ThreadId, heads: Vec<Head>) -> Self {
        let trail = VecDeque::from([Link { next: 0, hash: hash_chain::START, placed: true }]);
        Self {
            thread,
            next: 0,
            trail,
            suspects: VecDeque::new(),
            moved: 0,
            placed: VecDeque::new(),
            pushed: Vec::new(),
            heads: Heads::new(heads),
            findings: Vec::new(),
        }
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.thread
    }

    /// Returns the length of the log and its last hash.
    pub(crate) fn end(&self) -> (u64, [u8; 32]) {
        (self.next, self.trail.back().map_or(hash_chain::START, |it| it.hash))
    }

    /// Returns the number of events that match the attested heads.
    pub(crate) fn attested(&self) -> u64 {
        self.heads.good
    }

    /// Processes the next event, in the order of the stored numbers.
    pub(crate) fn step(&mut self, row: events::Model) {
        let seq = u64::try_from(row.seq).unwrap_or_default();
        let gap = self.next < seq;
        if gap {
            let what = match seq - self.next {
                1 => format!("event {} is missing: the next one is {seq}", self.next),
                _ => format!("events {} to {} are missing: the next one is {seq}", self.next, seq - 1),
            };
            self.find(self.next, Wrong::Missing, what);
        }
        self.next = seq + 1;
        self.heads.pass(&row, self.next);
        let place = self.trail.iter().rev().find_map(|it| it.place_of(&row));
        let hash = <[u8; 32]>::try_from(row.hash.as_slice()).ok();
        match (place, hash) {
            (Some(place), Some(hash)) => {
                self.read(&row);
                self.moved(seq, place);
                self.placed.push_back((place, seq));
                if NEIGHBOURS < self.placed.len() {
                    self.placed.pop_front();
                }
                self.settle(place, hash);
            }
            // The preceding event is missing, so the hash cannot be checked.
            (None, Some(hash)) if gap => {
                self.read(&row);
                self.push(Link { next: seq + 1, hash, placed: false });
            }
            (_, hash) => {
                if let Some(before) = self.trail.back() {
                    let whole = hash_chain::link(&before.hash, seq, row.at, &row.kind, &row.payload);
                    self.push(Link { next: seq + 1, hash: whole, placed: true });
                }
                if let Some(hash) = hash {
                    self.push(Link { next: seq + 1, hash, placed: false });
                }
                self.suspects.push_back(row);
                if NEIGHBOURS < self.suspects.len()
                    && let Some(oldest) = self.suspects.pop_front()
                {
                    self.edited(&oldest);
                }
            }
        }
    }

    /// Returns the findings, ordered by event number.
    pub(crate) fn finish(mut self) -> Vec<Finding> {
        while let Some(row) = self.suspects.pop_front() {
            self.edited(&row);
        }
        self.inserted();
        self.attested_otherwise();
        self.findings.sort_by_key(|it| (it.seq, it.wrong));
        self.findings
    }

    /// Reports events as inserted if they match nothing and the events after them were moved by exactly their number.
    fn inserted(&mut self) {
        for (seq, by) in std::mem::take(&mut self.pushed) {
            let put = seq - by..seq;
            let edited = |nth| self.findings.iter().any(|it| it.seq == nth && it.wrong == Wrong::Edited);
            if !put.clone().all(edited) {
                continue;
            }
            self.findings.retain(|it| match it.wrong {
                Wrong::Edited => !put.contains(&it.seq),
                Wrong::Reordered => it.seq != seq,
                Wrong::Missing
                | Wrong::Inserted
                | Wrong::Truncated
                | Wrong::Rewritten
                | Wrong::Exchanged
                | Wrong::Removed
                | Wrong::Reappeared
                | Wrong::Unreadable => true,
            });
            self.put(put.start, seq);
        }
    }

    /// Compares the log with its attested heads, where its own hashes show no difference.
    fn attested_otherwise(&mut self) {
        let told = |below| self.findings.iter().any(|it| it.wrong != Wrong::Unreadable && it.seq < below);
        let rewritten = self.heads.amiss.filter(|(_, end)| !told(*end));
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

    /// Accepts an event as a position to follow, and then matches earlier unmatched events with it.
    fn settle(&mut self, mut place: u64, mut hash: [u8; 32]) {
        loop {
            let link = Link { next: place + 1, hash, placed: true };
            let follower = self.suspects.iter().position(|it| link.is_followed_by(it));
            self.push(link);
            let Some(row) = follower.and_then(|it| self.suspects.remove(it)) else { return };
            self.moved = 0;
            self.moved(u64::try_from(row.seq).unwrap_or_default(), place + 1);
            place += 1;
            let Ok(next) = row.hash.as_slice().try_into() else { return };
            hash = next;
        }
    }

    fn moved(&mut self, seq: u64, place: u64) {
        let by = i128::from(seq) - i128::from(place);
        if by != 0 && by != self.moved {
            let twin = self.placed.iter().find(|it| it.0 == place).map(|it| it.1);
            match twin {
                Some(from) if self.moved < by => self.put(from, seq),
                Some(_) | None => {
                    self.find(seq, Wrong::Reordered, format!("event {seq} was appended as event {place}"));
                }
            }
            if let Ok(by) = u64::try_from(by - self.moved)
                && by <= seq
            {
                self.pushed.push((seq, by));
            }
        }
        self.moved = by;
    }

    fn put(&mut self, from: u64, end: u64) {
        let what =
            format!("{} inserted: what follows builds on what is before", span(from, end, "was", "were"));
        self.find(from, Wrong::Inserted, what);
    }

    fn read(&mut self, row: &events::Model) {
        let Err(error) = recorded(row) else { return };
        let seq = u64::try_from(row.seq).unwrap_or_default();
        // The hash does not cover the codec; only events stored as JSON are ever attested.
        if row.codec != CODEC && seq < self.heads.last {
            let what = format!(
                "event {seq} says that it is stored as {:?}: it was attested as {CODEC:?}",
                row.codec
            );
            self.find(seq, Wrong::Edited, what);
        } else {
            self.find(seq, Wrong::Unreadable, error.to_string());
        }
    }

    fn edited(&mut self, row: &events::Model) {
        let what = format!("event {} is not what was appended: its hash does not fit", row.seq);
        self.find(u64::try_from(row.seq).unwrap_or_default(), Wrong::Edited, what);
    }

    fn find(&mut self, seq: u64, wrong: Wrong, what: String) {
        self.findings.push(Finding { thread: self.thread, seq, wrong, what });
    }

    fn push(&mut self, link: Link) {
        self.trail.push_back(link);
        // A changed event leaves two positions.
        if 2 * NEIGHBOURS < self.trail.len() {
            self.trail.pop_front();
        }
    }
}

/// Formats the range from `from` to the event before `end`, with its verb.
fn span(from: u64, end: u64, one: &str, many: &str) -> String {
    match end.saturating_sub(from) {
        0 | 1 => format!("event {from} {one}"),
        _ => format!("events {from} to {} {many}", end - 1),
    }
}

impl Link {
    fn is_followed_by(&self, row: &events::Model) -> bool {
        self.follows_as(row, self.next)
    }

    /// Returns the original number of the event if it follows this position.
    fn place_of(&self, row: &events::Model) -> Option<u64> {
        let last = if self.placed { self.next } else { self.next + TAKEN };
        (self.next..=last).find(|it| self.follows_as(row, *it))
    }

    fn follows_as(&self, row: &events::Model, seq: u64) -> bool {
        hash_chain::link(&self.hash, seq, row.at, &row.kind, &row.payload).as_slice() == row.hash
    }
}
