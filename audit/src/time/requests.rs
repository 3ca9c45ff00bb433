//! The time of the requests of a node.

use std::collections::BTreeMap;

use api_types::TimeKind;
use shared::{Request, Usage};

use super::{
    open_request::{Open, State, after, wait},
    partition::Segment,
};

/// An attempt at a request, with times in microseconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Node that made the request.
    pub node: String,
    /// Index among the requests of the node.
    pub slot: usize,
    /// Event by which the node made the request.
    pub asked_seq: u64,
    /// Event that ended the attempt; `None` if it is under way, or its worker died.
    pub seq: Option<u64>,
    /// Model, tool, or kind of the request.
    pub name: String,
    /// Use of its time.
    pub kind: TimeKind,
    /// Time at which it was sent.
    pub from: i64,
    /// Time at which its outcome was stored.
    pub to: i64,
    /// True if it was answered.
    pub is_answered: bool,
}

/// The requests of a node, and the uses of their time.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    node: String,
    asked_seq: u64,
    open: BTreeMap<usize, Open>,
    pub(super) uses: Vec<Segment>,
    pub(super) attempts: Vec<Attempt>,
}

/// The end of an attempt.
pub(super) struct End<'a> {
    pub(super) slot: usize,
    pub(super) seq: u64,
    pub(super) at: i64,
    pub(super) usage: Option<&'a Usage>,
    pub(super) is_answered: bool,
}

impl Requests {
    /// Begins the requests of a node.
    pub(super) fn ask(&mut self, node: &str, seq: u64, at: i64, requests: &[Request]) {
        self.leave(at);
        self.node = node.to_owned();
        self.asked_seq = seq;
        self.open = requests.iter().map(|request| Open::of(request, at)).enumerate().collect();
    }

    /// A request is about to be sent.
    pub(super) fn sent(&mut self, slot: usize, at: i64) {
        let Some(open) = self.open.get_mut(&slot) else { return };
        if open.state != State::Sent {
            wait(&mut self.uses, open, at);
            (open.state, open.since) = (State::Sent, at);
        }
    }

    /// A server works on the request as a task.
    pub(super) fn work(&mut self, slot: usize) {
        if let Some(open) = self.open.get_mut(&slot) {
            open.state = State::Task;
        }
    }

    /// An attempt ended. The request is open again, unless it was answered.
    pub(super) fn end(&mut self, end: &End<'_>) {
        let Some(mut open) = self.open.remove(&end.slot) else { return };
        let micros =
            |usage: &Usage| i64::try_from(usage.duration_ms).unwrap_or(i64::MAX).saturating_mul(1_000);
        let known = end.usage.map(|usage| end.at.saturating_sub(micros(usage)).max(open.since));
        match open.state {
            State::Person | State::Input(_) | State::ReadBack { .. } | State::Failed => {
                wait(&mut self.uses, &open, end.at);
            }
            State::Task => self.add(&open, end.slot, Some(end.seq), (open.since, end.at), end.is_answered),
            // It was not sent.
            State::Open | State::Repeated { .. } if known.is_none() && !end.is_answered => {
                wait(&mut self.uses, &open, end.at);
            }
            State::Open | State::Repeated { .. } | State::Sent => {
                let from = known.unwrap_or(open.since);
                if open.state != State::Sent {
                    wait(&mut self.uses, &open, from);
                }
                self.add(&open, end.slot, Some(end.seq), (from, end.at), end.is_answered);
            }
        }
        if !end.is_answered {
            (open.state, open.since) = (State::Open, end.at);
            self.open.insert(end.slot, open);
        }
    }

    /// A request whose attempt failed is repeated after a delay, or not at all.
    pub(super) fn repeat(&mut self, slot: usize, at: i64, after_ms: Option<u64>) {
        let state = after_ms.map_or(State::Failed, |ms| State::Repeated { not_before: after(at, ms) });
        self.set(slot, at, state);
    }

    /// The request is read back after a delay, or a person is asked.
    pub(super) fn doubt(&mut self, slot: usize, at: i64, read_back_after_ms: Option<u64>) {
        let read = read_back_after_ms.map(|ms| State::ReadBack { not_before: after(at, ms) });
        self.set(slot, at, read.unwrap_or(State::Person));
    }

    /// This many inputs of a person are missing.
    pub(super) fn require(&mut self, slot: usize, at: i64, inputs: usize) {
        self.set(slot, at, if inputs == 0 { State::Open } else { State::Input(inputs) });
    }

    /// A person provided an input.
    pub(super) fn provide(&mut self, slot: usize, at: i64) {
        let missing = match self.open.get(&slot).map(|open| open.state) {
            Some(State::Input(missing)) => missing.saturating_sub(1),
            Some(_) | None => 0,
        };
        self.require(slot, at, missing);
    }

    /// A doubt was settled; the request is open again if it did not happen.
    pub(super) fn settle(&mut self, slot: usize, at: i64, is_repeated: bool) {
        let Some(open) = self.open.get(&slot) else { return };
        wait(&mut self.uses, open, at);
        if is_repeated {
            self.set(slot, at, State::Open);
        } else {
            self.open.remove(&slot);
        }
    }

    /// The request is given up.
    pub(super) fn abandon(&mut self, slot: usize, at: i64) {
        if let Some(open) = self.open.remove(&slot) {
            wait(&mut self.uses, &open, at);
        }
    }

    /// The worker died at a time, and another one continues at a later time.
    pub(super) fn take_over(&mut self, died: i64, at: i64) {
        self.pass(died);
        for open in self.open.values_mut() {
            open.since = at;
            if open.state == State::Sent {
                open.state = State::Open;
            }
        }
    }

    /// Adds the time of all requests until now. They stay as they are.
    pub(super) fn pass(&mut self, at: i64) {
        for (slot, open) in self.open.clone() {
            match open.state {
                State::Open | State::Sent | State::Task => {
                    self.add(&open, slot, None, (open.since, at), false)
                }
                State::Repeated { not_before } | State::ReadBack { not_before } => {
                    let from = not_before.clamp(open.since, at.max(open.since));
                    self.uses.push(Segment { kind: TimeKind::Limit, from: open.since, to: from });
                    self.add(&open, slot, None, (from, at), false);
                }
                State::Person | State::Input(_) | State::Failed => wait(&mut self.uses, &open, at),
            }
        }
        self.open.values_mut().for_each(|open| open.since = open.since.max(at));
    }

    /// Ends all requests.
    pub(super) fn leave(&mut self, at: i64) {
        self.pass(at);
        self.open.clear();
    }

    /// An operator retries the node.
    pub(super) fn retry(&mut self, at: i64) {
        for open in self.open.values_mut() {
            (open.state, open.since) = (State::Open, at);
        }
    }

    /// Returns true if nothing is under way but inputs of a person, so that the turn is over.
    pub(super) fn awaits_input(&self) -> bool {
        let mut states = self.open.values().map(|open| open.state);
        states.clone().any(|state| matches!(state, State::Input(_)))
            && states.all(|state| matches!(state, State::Input(_) | State::Person))
    }

    /// Forgets the requests, which another turn replaces.
    pub(super) fn open_none(&mut self) {
        self.open.clear();
    }

    /// Forgets all time before now. The requests stay as they are.
    pub(super) fn forget_until(&mut self, at: i64) {
        self.uses.clear();
        self.attempts.clear();
        self.open.values_mut().for_each(|open| open.since = at);
    }

    fn set(&mut self, slot: usize, at: i64, state: State) {
        if let Some(open) = self.open.get_mut(&slot) {
            (open.state, open.since) = (state, at);
        }
    }

    fn add(&mut self, open: &Open, slot: usize, seq: Option<u64>, (from, to): (i64, i64), is_answered: bool) {
        if seq.is_none() && to <= from {
            return;
        }
        self.uses.push(Segment { kind: open.kind, from, to });
        let (node, asked_seq, name) = (self.node.clone(), self.asked_seq, open.name.clone());
        let kind = open.kind;
        self.attempts.push(Attempt { node, slot, asked_seq, seq, name, kind, from, to, is_answered });
    }
}
