//! Reads what a log says about its turns.

use std::collections::{BTreeSet, HashMap};

use audit::{
    Spending,
    time::{Attempt, Timekeeper},
};
use shared::Event;
use store::{Recorded, TurnId};

/// Number of characters of the message of a turn.
const INPUT: usize = 200;

/// Turns of a log, read event by event.
#[derive(Default)]
pub(super) struct LogReader {
    pub(super) spending: Spending,
    pub(super) keeper: Timekeeper,
    pub(super) starts: HashMap<TurnId, Start>,
    pub(super) tasks: Tasks,
    /// True after the start of the first turn that does not depend on events before those that are read.
    is_whole: bool,
}

/// The start of a turn.
#[derive(Default)]
pub(super) struct Start {
    pub(super) seq: u64,
    pub(super) input: String,
}

/// The requests on which a server worked as a task, by the event that made them. A task survives its worker.
#[derive(Default)]
pub(super) struct Tasks {
    asked_seq: u64,
    known: BTreeSet<(u64, usize)>,
}

impl LogReader {
    /// Starts to read at this event.
    pub(super) fn from(seq: u64) -> Self {
        Self { is_whole: seq == 0, ..Self::default() }
    }

    /// Reads the next event.
    pub(super) fn see(&mut self, recorded: &Recorded) {
        let event = &recorded.event;
        self.is_whole |= matches!(event, Event::TurnStarted(_));
        if !self.is_whole {
            // A turn that brings an input continues the requests of the one before it.
            if !matches!(event, Event::InputProvided(_)) {
                self.keeper.see(recorded);
            }
            return;
        }
        self.spending.apply(event, recorded.at, &|_, _| None);
        if let Some(turn) = event.turn_started() {
            self.starts.insert(turn, Start { seq: recorded.seq, input: input(event) });
        }
        self.tasks.see(recorded);
        self.keeper.see(recorded);
    }
}

impl Tasks {
    /// Reports whether a server worked as a task on the request of an attempt.
    pub(super) fn has(&self, attempt: &Attempt) -> bool {
        self.known.contains(&(attempt.asked_seq, attempt.slot))
    }

    fn see(&mut self, recorded: &Recorded) {
        if let Event::Asked(_) = recorded.event {
            self.asked_seq = recorded.seq;
        } else if let Event::TaskStarted(started) = &recorded.event {
            self.known.insert((self.asked_seq, started.slot));
        }
    }
}

/// Returns the beginning of the message that starts a turn.
fn input(event: &Event) -> String {
    let Event::TurnStarted(started) = event else { return String::new() };
    let last = started.messages.last();
    last.map(|message| message.content.chars().take(INPUT).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    fn read(from: u64, events: &[Value]) -> LogReader {
        let mut log = LogReader::from(from);
        for (seq, event) in (from..).zip(events) {
            let event = serde_json::from_value(event.clone()).unwrap();
            log.see(&Recorded { seq, at: i64::try_from(seq).unwrap() * 1_000_000, event });
        }
        log
    }

    fn started() -> Value {
        json!({"event": "turn_started", "turn": Uuid::from_u128(1), "messages": []})
    }

    #[test]
    fn a_log_is_read_from_the_first_turn_that_starts() {
        let provided = json!({"event": "input_provided", "slot": 0, "name": "n", "response": "decline",
                              "turn": Uuid::from_u128(2)});
        let abandoned = json!({"event": "abandoned", "slot": 0, "reason": "gone"});
        let cut = read(7, &[abandoned, provided, started()]);
        assert_eq!(cut.starts.keys().collect::<Vec<_>>(), [&Uuid::from_u128(1)]);
        let turns: Vec<_> =
            cut.keeper.finish(9_000_000).iter().map(|time| (time.turn, time.before)).collect();
        assert_eq!(turns, [(Uuid::from_u128(1), 7_000_000)]);
    }

    #[test]
    fn a_task_survives_a_takeover_and_another_attempt_does_not() {
        let call =
            json!({"request": "call_tool", "server": "s", "call": {"id": "c", "name": "t", "arguments": {}}});
        let log = read(
            0,
            &[
                started(),
                json!({"event": "asked", "node": "act", "requests": [call, call]}),
                json!({"event": "task_started", "slot": 1, "task": "t"}),
                json!({"event": "taken_over", "worker": "b", "from": "a", "silent_ms": 500}),
            ],
        );
        let time = log.keeper.finish(4_000_000).remove(0);
        let at_takeover = time.attempts.iter().filter(|attempt| attempt.to == 2_500_000);
        let tasks: Vec<_> = at_takeover.map(|attempt| (attempt.slot, log.tasks.has(attempt))).collect();
        assert_eq!(tasks, [(0, false), (1, true)]);
    }
}
