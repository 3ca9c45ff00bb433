//! Walks along the stored events of one thread and says what is not as it was appended.
//!
//! ## How a moved event is told from a changed one
//!
//! The hash of an event is taken over its number and the hash before it. So an event whose hash fits none of its
//! neighbours was changed, and one that fits a neighbour under another number was moved. A few neighbours on both sides
//! are kept for that. Of two that were appended under one number, the one that nothing builds on was inserted.
//!
//! What was changed and hashed anew fits its neighbours again. That is told by heads that are kept elsewhere
//! ([`Attested`](super::Attested)) and by nothing else.

use std::collections::VecDeque;

use super::{
    Finding, Head, ThreadId, Wrong,
    attest::Heads,
    chain,
    read::{CODEC, recorded},
    tables::events,
};

/// How many hashes before an event are held against it, and how many events wait for one after them.
const NEIGHBOURS: usize = 8;

/// How many numbers may lie between an event and the one before it that was taken away with its number.
const TAKEN: u64 = 4;

/// What an event may follow.
struct Link {
    /// The number of whatever follows.
    next: u64,
    hash: [u8; 32],
    /// Whether the number itself is known to be right.
    placed: bool,
}

/// A walk along one log.
pub(super) struct Walk {
    thread: ThreadId,
    next: u64,
    trail: VecDeque<Link>,
    /// Events that fit nothing before them.
    suspects: VecDeque<events::Model>,
    /// By how much the last event was moved: of many that were moved together only the first is told.
    moved: i128,
    /// The last events that were found to fit: as what they were appended, and where they stand.
    placed: VecDeque<(u64, u64)>,
    /// Events that were moved behind so many others.
    pushed: Vec<(u64, u64)>,
    heads: Heads,
    findings: Vec<Finding>,
}

impl Walk {
    /// Along the log of this thread, of which this was attested.
    pub(super) fn new(thread: ThreadId, heads: Vec<Head>) -> Self {
        let trail = VecDeque::from([Link { next: 0, hash: chain::START, placed: true }]);
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

    pub(super) fn thread(&self) -> ThreadId {
        self.thread
    }

    /// How far the log goes, and the last hash.
    pub(super) fn end(&self) -> (u64, [u8; 32]) {
        (self.next, self.trail.back().map_or(chain::START, |it| it.hash))
    }

    /// How many of its events are as they were attested.
    pub(super) fn attested(&self) -> u64 {
        self.heads.good
    }

    /// Goes on by one event, in the order of their numbers.
    pub(super) fn step(&mut self, row: events::Model) {
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
            // What it followed is gone, so nobody can tell.
            (None, Some(hash)) if gap => {
                self.read(&row);
                self.push(Link { next: seq + 1, hash, placed: false });
            }
            (_, hash) => {
                if let Some(before) = self.trail.back() {
                    let whole = chain::link(&before.hash, seq, row.at, &row.kind, &row.payload);
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

    /// What was found, in the order of the numbers.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        while let Some(row) = self.suspects.pop_front() {
            self.edited(&row);
        }
        self.inserted();
        self.attested_otherwise();
        self.findings.sort_by_key(|it| (it.seq, it.wrong));
        self.findings
    }

    /// Events that fit nothing, and behind which others were moved by as many numbers, were put there.
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

    /// What the log was attested to be, where its own hashes do not tell the difference.
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

    /// Takes an event as what may be followed, by those too that stand before it and fitted nothing.
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
        // The hash is not taken over the codec: only what is stored as JSON is ever attested.
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
        // An event that was changed leaves two.
        if 2 * NEIGHBOURS < self.trail.len() {
            self.trail.pop_front();
        }
    }
}

/// Events `from` to the one before `end`, with the verb.
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

    /// The number that the event was appended with, if it follows.
    fn place_of(&self, row: &events::Model) -> Option<u64> {
        let last = if self.placed { self.next } else { self.next + TAKEN };
        (self.next..=last).find(|it| self.follows_as(row, *it))
    }

    fn follows_as(&self, row: &events::Model, seq: u64) -> bool {
        chain::link(&self.hash, seq, row.at, &row.kind, &row.payload).as_slice() == row.hash
    }
}
