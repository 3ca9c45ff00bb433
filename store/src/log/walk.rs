//! Walks along the stored events of one thread and says what is not as it was appended.
//!
//! ## How a moved event is told from a changed one
//!
//! The hash of an event is taken over its number and the hash before it. So an event whose hash fits none of its
//! neighbours was changed, and one that fits a neighbour under another number was moved. A few neighbours on both sides
//! are kept for that.

use std::collections::VecDeque;

use serde::Serialize;

use super::{ThreadId, chain, read::recorded, tables::events};

/// How many hashes before an event are held against it, and how many events wait for one after them.
const NEIGHBOURS: usize = 8;

/// How many numbers may lie between an event and the one before it that was taken away with its number.
const TAKEN: u64 = 4;

/// Something that is not as it was appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// In whose log.
    pub thread: ThreadId,
    /// At which number.
    pub seq: u64,
    /// What happened to it.
    pub wrong: Wrong,
    /// The same in words.
    pub what: String,
}

/// What may have happened to stored events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// It is not what was appended.
    Edited,
    /// It is gone.
    Missing,
    /// It stands under another number than it was appended with.
    Reordered,
    /// It is what was appended, and this build cannot read it.
    Unreadable,
}

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
    findings: Vec<Finding>,
}

impl Walk {
    pub(super) fn new(thread: ThreadId) -> Self {
        let trail = VecDeque::from([Link { next: 0, hash: chain::START, placed: true }]);
        Self { thread, next: 0, trail, suspects: VecDeque::new(), moved: 0, findings: Vec::new() }
    }

    pub(super) fn thread(&self) -> ThreadId {
        self.thread
    }

    /// How far the log goes, and the last hash.
    pub(super) fn end(&self) -> (u64, [u8; 32]) {
        (self.next, self.trail.back().map_or(chain::START, |it| it.hash))
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
        let place = self.trail.iter().rev().find_map(|it| it.place_of(&row));
        let hash = <[u8; 32]>::try_from(row.hash.as_slice()).ok();
        match (place, hash) {
            (Some(place), Some(hash)) => {
                self.read(&row);
                self.moved(seq, place);
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
        self.findings.sort_by_key(|it| (it.seq, it.wrong));
        self.findings
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
            self.find(seq, Wrong::Reordered, format!("event {seq} was appended as event {place}"));
        }
        self.moved = by;
    }

    fn read(&mut self, row: &events::Model) {
        if let Err(error) = recorded(row) {
            self.find(u64::try_from(row.seq).unwrap_or_default(), Wrong::Unreadable, error.to_string());
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
