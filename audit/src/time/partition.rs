//! The time of a turn as parts that follow each other without a gap.

use api_types::{Takeover, TimeKind, TimeSegment, TimeTotal, TimedAttempt, TurnTimeline};
use queue::clock::rfc3339;
use store::{ThreadId, TurnId};

use super::requests::Attempt;

/// Time with one use, in microseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Use of the time.
    pub kind: TimeKind,
    /// First moment of the part.
    pub from: i64,
    /// First moment after the part.
    pub to: i64,
}

/// The time of a turn, in microseconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnTime {
    /// Id of the turn.
    pub turn: TurnId,
    /// Time of the event before its first one.
    pub before: i64,
    /// Time of its first event, or the one from which it could run.
    pub from: i64,
    /// Its end, or the present if it is not over.
    pub to: i64,
    /// True if the turn is over.
    pub is_over: bool,
    /// The parts, in order. **Invariant:** they follow each other from `from` to `to`.
    pub segments: Vec<Segment>,
    /// Attempts at requests, in the order of their ends.
    pub attempts: Vec<Attempt>,
    /// Takeovers with their times.
    pub takeovers: Vec<(i64, u64, shared::TakenOver)>,
}

impl TurnTime {
    /// Returns the time of a turn that has not started, and could run from `ready` on.
    pub fn queued(turn: TurnId, ready: i64, to: i64, is_over: bool) -> Self {
        let (attempts, takeovers) = (Vec::new(), Vec::new());
        let (before, from) = (ready.min(to), to);
        Self { turn, before, from, to, is_over, segments: Vec::new(), attempts, takeovers }.ready_from(ready)
    }

    /// Adds the wait for a slot of a turn that could run from `ready` on: it was submitted and due. The turn before it had ended by
    /// the event before its first one.
    #[must_use]
    pub fn ready_from(mut self, ready: i64) -> Self {
        let from = ready.max(self.before).min(self.from);
        match self.segments.first_mut() {
            _ if from == self.from => {}
            Some(first) if first.kind == TimeKind::Slot => first.from = from,
            Some(_) | None => {
                self.segments.insert(0, Segment { kind: TimeKind::Slot, from, to: self.from });
            }
        }
        self.from = from;
        self
    }

    /// Returns the microseconds of one use.
    pub fn total(&self, kind: TimeKind) -> i64 {
        let of_kind = self.segments.iter().filter(|segment| segment.kind == kind);
        of_kind.map(|segment| segment.to.saturating_sub(segment.from)).sum()
    }

    /// Returns the timeline in whole milliseconds. Ends are rounded and not durations, so the parts still add up.
    pub fn timeline(&self, thread: ThreadId) -> TurnTimeline {
        let ms = |at: i64| at.saturating_sub(self.from).max(0).unsigned_abs() / 1_000;
        let segments: Vec<TimeSegment> = self
            .segments
            .iter()
            .map(|part| TimeSegment { kind: part.kind, from_ms: ms(part.from), to_ms: ms(part.to) })
            .collect();
        let total = |kind| {
            let of_kind = segments.iter().filter(|segment| segment.kind == kind);
            TimeTotal { kind, ms: of_kind.map(|segment| segment.to_ms - segment.from_ms).sum() }
        };
        let attempt = |attempt: &Attempt| TimedAttempt {
            node: attempt.node.clone(),
            slot: attempt.slot,
            asked_seq: attempt.asked_seq,
            seq: attempt.seq,
            name: attempt.name.clone(),
            kind: attempt.kind,
            from_ms: ms(attempt.from),
            to_ms: ms(attempt.to),
            is_answered: attempt.is_answered,
        };
        TurnTimeline {
            turn_id: self.turn,
            thread_id: thread,
            from: rfc3339(self.from),
            to: rfc3339(self.to),
            is_over: self.is_over,
            ms: ms(self.to),
            totals: TimeKind::ALL.map(total).into_iter().filter(|total| 0 < total.ms).collect(),
            attempts: self.attempts.iter().map(attempt).collect(),
            takeovers: self.takeovers.iter().map(|taken| takeover(taken, ms(taken.0))).collect(),
            segments,
        }
    }
}

fn takeover((_, seq, taken): &(i64, u64, shared::TakenOver), at_ms: u64) -> Takeover {
    Takeover { seq: *seq, at_ms, worker: taken.worker.clone(), from: taken.from.clone() }
}

/// Uses in the order in which they count where several apply: no worker ran anything, a model is the longest to wait for, and the
/// engine has what remains.
const PRECEDENCE: [TimeKind; 7] = [
    TimeKind::NoWorker,
    TimeKind::Model,
    TimeKind::Tool,
    TimeKind::Limit,
    TimeKind::Person,
    TimeKind::Slot,
    TimeKind::Engine,
];

/// Divides the time between two moments by uses that may overlap. Where none applies, the engine has it.
pub(super) fn partition(from: i64, to: i64, uses: &[Segment]) -> Vec<Segment> {
    let rank =
        |kind: TimeKind| PRECEDENCE.iter().position(|other| *other == kind).unwrap_or(PRECEDENCE.len());
    // Starts and ends, each with the change that it makes.
    let mut changes: Vec<(i64, usize, i64)> = Vec::with_capacity(uses.len() * 2);
    for part in uses {
        let (start, end) = (part.from.clamp(from, to), part.to.clamp(from, to));
        if start < end {
            changes.extend([(start, rank(part.kind), 1), (end, rank(part.kind), -1)]);
        }
    }
    changes.sort_unstable();
    let mut open = [0_i64; PRECEDENCE.len()];
    let (mut segments, mut since) = (Vec::<Segment>::new(), from);
    let mut add = |kind: TimeKind, until: i64, since: &mut i64| {
        match segments.last_mut() {
            Some(last) if last.kind == kind => last.to = until,
            Some(_) | None => segments.push(Segment { kind, from: *since, to: until }),
        }
        *since = until;
    };
    for (at, rank, change) in changes {
        if since < at {
            let now = PRECEDENCE.iter().zip(open).find(|(_, count)| 0 < *count);
            add(now.map_or(TimeKind::Engine, |(kind, _)| *kind), at, &mut since);
        }
        if let Some(count) = open.get_mut(rank) {
            *count += change;
        }
    }
    if since < to {
        add(TimeKind::Engine, to, &mut since);
    }
    segments
}
