//! Reads a log event by event and attributes the time of its turns.

use api_types::TimeKind;
use shared::{Event, Goto, TurnKind, Verdict};
use store::{Recorded, TurnId};

use super::{
    partition::{Segment, TurnTime, partition},
    requests::{End, Requests},
};

/// The time of the turns of one log, read event by event, from the event that starts each of them. Turns of the thread that a fork
/// copied are left out.
#[derive(Default)]
pub struct Timekeeper {
    turns: Vec<TurnTime>,
    open: Option<OpenTurn>,
    requests: Requests,
    /// Time of the last event. A clock that went back is followed no further.
    at: i64,
}

struct OpenTurn {
    turn: TurnId,
    /// Time of the event before it.
    before: i64,
    from: i64,
    uses: Vec<Segment>,
    takeovers: Vec<(i64, u64, shared::TakenOver)>,
    /// Use of the time since the last event, if no request has it.
    rest: TimeKind,
}

impl Timekeeper {
    /// Returns the times of the turns of a whole log, until `now` in microseconds since the Unix epoch.
    pub fn of_log(log: &[Recorded], now: i64) -> Vec<TurnTime> {
        let mut keeper = Self::default();
        log.iter().for_each(|recorded| keeper.see(recorded));
        keeper.finish(now)
    }

    /// Reads the next event.
    pub fn see(&mut self, recorded: &Recorded) {
        let (before, seq) = (self.at, recorded.seq);
        let at = recorded.at.max(before);
        if let Event::TakenOver(taken) = &recorded.event {
            self.take_over(taken, seq, before, at);
        } else {
            self.rest_until(before, at);
        }
        self.at = at;
        match &recorded.event {
            Event::Opened(_) | Event::WriteEnded(_) | Event::TakenOver(_) | Event::Rated(_) => {}
            Event::TurnStarted(started) => {
                self.end(before);
                self.requests.open_none();
                self.begin(started.turn, before, at);
                if started.kind == TurnKind::Stop {
                    self.end(at);
                }
            }
            Event::InputProvided(provided) => {
                self.end(before);
                self.begin(provided.turn, before, at);
                self.requests.provide(provided.slot, at);
                self.rest(TimeKind::Engine);
            }
            Event::Asked(asked) => {
                self.requests.ask(&asked.node, seq, at, &asked.requests);
                self.rest(TimeKind::Engine);
            }
            Event::Attempted(attempted) => self.requests.sent(attempted.slot, at),
            Event::TaskStarted(started) => self.requests.work(started.slot),
            Event::Answered(answered) => {
                let usage = answered.usage.as_ref();
                self.requests.end(&End { slot: answered.slot, seq, at, usage, is_answered: true });
            }
            Event::AttemptFailed(failed) => {
                let usage = failed.usage.as_ref();
                self.requests.end(&End { slot: failed.slot, seq, at, usage, is_answered: false });
                match failed.read_back {
                    true => self.requests.doubt(failed.slot, at, failed.retry_after_ms),
                    false => self.requests.repeat(failed.slot, at, failed.retry_after_ms),
                }
            }
            Event::Abandoned(abandoned) => self.requests.abandon(abandoned.slot, at),
            Event::InDoubt(doubt) => {
                self.requests.end(&End { slot: doubt.slot, seq, at, usage: None, is_answered: false });
                self.requests.doubt(doubt.slot, at, doubt.read_back_after_ms);
            }
            Event::Reconciled(reconciled) => {
                let is_repeated = matches!(reconciled.verdict, Verdict::DidNotHappen);
                self.requests.settle(reconciled.slot, at, is_repeated);
            }
            Event::InputRequired(required) => {
                self.requests.end(&End { slot: required.slot, seq, at, usage: None, is_answered: false });
                self.requests.require(required.slot, at, required.input_requests.len());
            }
            Event::Summarised(_) => self.leave_node(at),
            Event::Decided(decided) => {
                self.leave_node(at);
                match decided.to {
                    Goto::Node(_) => {}
                    Goto::End | Goto::Interrupt(_) => self.end(at),
                }
            }
            Event::Failed(_) => {
                self.requests.pass(at);
                self.end(at);
            }
            Event::Retried(_) => self.retry(at),
            Event::Cancelled(_) => {
                self.requests.leave(at);
                self.end(at);
            }
            Event::Forked(_) => self.fork(at),
        }
    }

    /// Returns the times. A turn that is not over has lasted until `now`.
    pub fn finish(mut self, now: i64) -> Vec<TurnTime> {
        if self.open.is_some() {
            if self.requests.awaits_input() {
                self.end(self.at);
            } else {
                let now = now.max(self.at);
                self.rest_until(self.at, now);
                self.requests.pass(now);
                self.close(now, false);
            }
        }
        self.turns
    }

    fn begin(&mut self, turn: TurnId, before: i64, at: i64) {
        let (uses, takeovers, rest) = (Vec::new(), Vec::new(), TimeKind::Slot);
        self.open = Some(OpenTurn { turn, before, from: at, uses, takeovers, rest });
    }

    fn take_over(&mut self, taken: &shared::TakenOver, seq: u64, before: i64, at: i64) {
        let silent = i64::try_from(taken.silent_ms.unwrap_or_default()).unwrap_or(i64::MAX);
        let died = at.saturating_sub(silent.saturating_mul(1_000)).clamp(before, at);
        self.rest_until(before, died);
        self.requests.take_over(died, at);
        if let Some(open) = &mut self.open {
            open.uses.push(Segment { kind: TimeKind::NoWorker, from: died, to: at });
            open.takeovers.push((at, seq, taken.clone()));
            open.rest = TimeKind::Engine;
        }
    }

    fn leave_node(&mut self, at: i64) {
        self.requests.leave(at);
        self.rest(TimeKind::Slot);
    }

    fn rest(&mut self, kind: TimeKind) {
        if let Some(open) = &mut self.open {
            open.rest = kind;
        }
    }

    fn rest_until(&mut self, from: i64, to: i64) {
        if let Some(open) = &mut self.open {
            open.uses.push(Segment { kind: open.rest, from, to });
        }
    }

    fn retry(&mut self, at: i64) {
        self.requests.retry(at);
        let Some(failed) = self.turns.pop() else { return };
        let TurnTime { turn, before, from, to, segments: mut uses, attempts, takeovers, .. } = failed;
        uses.push(Segment { kind: TimeKind::Person, from: to, to: at });
        self.requests.attempts = attempts;
        self.open = Some(OpenTurn { turn, before, from, uses, takeovers, rest: TimeKind::Slot });
    }

    fn fork(&mut self, at: i64) {
        self.turns.clear();
        self.requests.forget_until(at);
        if let Some(open) = &mut self.open {
            (open.before, open.from, open.rest) = (at, at, TimeKind::Slot);
            open.uses.clear();
            open.takeovers.clear();
        }
    }

    fn end(&mut self, at: i64) {
        self.close(at, true);
    }

    fn close(&mut self, to: i64, is_over: bool) {
        let attempts = std::mem::take(&mut self.requests.attempts);
        let of_requests = std::mem::take(&mut self.requests.uses);
        let Some(open) = self.open.take() else { return };
        let OpenTurn { turn, before, from, takeovers, uses, .. } = open;
        let uses: Vec<Segment> = uses.into_iter().chain(of_requests).collect();
        let segments = partition(from, to, &uses);
        self.turns.push(TurnTime { turn, before, from, to, is_over, segments, attempts, takeovers });
    }
}
