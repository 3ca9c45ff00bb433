//! The time of turns: the parts follow each other without a gap, and each has the use that the log shows.

use audit::{
    schema::GOLDEN,
    time::{TimeKind, Timekeeper, TurnTime},
};
use serde_json::{Value, json};
use shared::{Event, RunStatus, TakenOver};
use store::Recorded;
use uuid::Uuid;

use crate::fixtures;

/// Asserts that the parts of every turn add up to it, also in the whole milliseconds of the API.
fn adds_up(log: &[Recorded], now: i64, case: &str) -> usize {
    let times = Timekeeper::of_log(log, now);
    for time in &times {
        let time = time.clone().ready_from(time.from - 12_345);
        let mut at = time.from;
        for part in &time.segments {
            assert!(part.from == at && part.from < part.to, "{case}: {time:#?}");
            at = part.to;
        }
        assert_eq!(at, time.to, "{case}: {time:#?}");
        let all: i64 = TimeKind::ALL.into_iter().map(|kind| time.total(kind)).sum();
        assert_eq!(all, time.to - time.from, "{case}");
        let timeline = time.timeline(Uuid::nil());
        assert_eq!(timeline.totals.iter().map(|total| total.ms).sum::<u64>(), timeline.ms, "{case}");
        let within = |attempt: &audit::time::Attempt| attempt.from <= attempt.to && attempt.to <= time.to;
        assert!(time.attempts.iter().all(within), "{case}: {time:#?}");
    }
    times.len()
}

/// Gives a log times that differ by up to four seconds, often by nothing.
fn timed(log: impl IntoIterator<Item = Event>, seed: u64) -> Vec<Recorded> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut at = 1_000_000_000;
    let row = |(seq, event)| {
        at += if random.bool() { 0 } else { random.i64(0..4_000_000) };
        Recorded { seq, at, event }
    };
    (0..).zip(log).map(row).collect()
}

#[test]
fn the_time_of_every_turn_of_every_fixture_adds_up() {
    let mut turns = 0;
    for (nth, fixture) in fixtures::all().into_iter().enumerate() {
        let mut random = fastrand::Rng::with_seed(nth as u64);
        let mut thread = fixture.graph.begin();
        let mut log = Vec::new();
        for event in &fixture.log {
            thread.apply(event).unwrap();
            log.push(event.clone());
            if thread.status() == RunStatus::Busy && random.u8(0..4) == 0 {
                let silent_ms = random.bool().then(|| random.u64(0..5_000));
                let taken: Event =
                    TakenOver { worker: "b".to_owned(), from: "a".to_owned(), silent_ms }.into();
                thread.apply(&taken).unwrap();
                log.push(taken);
            }
        }
        for cut in 1..=log.len() {
            let log = timed(log[..cut].iter().cloned(), (nth * 1_000 + cut) as u64);
            let now = log.last().unwrap().at + 777_777;
            turns += adds_up(&log, now, &fixture.name);
        }
    }
    assert!(1_000 < turns, "{turns}");
}

#[test]
fn the_time_of_every_golden_log_adds_up() {
    for (name, text) in GOLDEN {
        let log = text.lines().map(|line| serde_json::from_str(line).unwrap());
        assert!(0 < adds_up(&timed(log, 7), i64::MAX / 2, name), "{name}");
    }
}

/// A log whose events have these times in milliseconds.
fn log(events: &[(i64, Value)]) -> Vec<Recorded> {
    let row = |(seq, (ms, event)): (u64, &(i64, Value))| Recorded {
        seq,
        at: ms * 1_000,
        event: serde_json::from_value(event.clone()).unwrap(),
    };
    (0..).zip(events).map(row).collect()
}

fn started() -> Value {
    json!({"event": "turn_started", "turn": Uuid::from_u128(1), "messages": []})
}

fn asked(node: &str, requests: Value) -> Value {
    json!({"event": "asked", "node": node, "requests": requests})
}

fn chat() -> Value {
    json!({"request": "chat", "model": "p/m", "system": "", "context": {"start": 0, "end": 1}})
}

fn call() -> Value {
    json!({"request": "call_tool", "server": "s", "call": {"id": "c", "name": "t", "arguments": {}}})
}

fn answered(slot: u64, ms: u64) -> Value {
    json!({"event": "answered", "slot": slot, "usage": {"duration_ms": ms},
           "response": {"response": "output", "status": "ok", "text": "x"}})
}

fn ended() -> Value {
    json!({"event": "decided", "node": "act", "to": "end"})
}

/// The uses of the only turn in milliseconds.
fn uses(log: &[Recorded]) -> Vec<(TimeKind, i64)> {
    uses_of(Timekeeper::of_log(log, 0).pop().unwrap())
}

fn uses_of(time: TurnTime) -> Vec<(TimeKind, i64)> {
    time.segments.iter().map(|part| (part.kind, (part.to - part.from) / 1_000)).collect()
}

#[test]
fn a_request_waits_for_a_limit_until_it_is_sent() {
    let waited = log(&[
        (100, started()),
        (100, asked("act", json!([chat()]))),
        (5_000, answered(0, 900)),
        (5_000, ended()),
    ]);
    assert_eq!(uses(&waited), [(TimeKind::Limit, 4_000), (TimeKind::Model, 900)]);
    let at_once = log(&[
        (100, started()),
        (110, asked("act", json!([chat()]))),
        (1_050, answered(0, 900)),
        (1_050, ended()),
    ]);
    assert_eq!(uses(&at_once), [(TimeKind::Slot, 10), (TimeKind::Engine, 40), (TimeKind::Model, 900)]);
    let [attempt] = &Timekeeper::of_log(&at_once, 0)[0].attempts[..] else { panic!("one attempt") };
    assert_eq!((attempt.name.as_str(), attempt.from, attempt.to), ("p/m", 150_000, 1_050_000));
}

#[test]
fn a_turn_waits_for_a_slot_from_when_it_could_run() {
    let log = log(&[
        (0, json!({"event": "opened", "strategy": "probe"})),
        (400, started()),
        (400, ended()),
        (900, started()),
        (950, ended()),
    ]);
    let [first, second] = &Timekeeper::of_log(&log, 0)[..] else { panic!("two turns") };
    let ready = |time: &TurnTime, ms: i64| uses_of(time.clone().ready_from(ms * 1_000));
    assert_eq!(ready(first, 100), [(TimeKind::Slot, 300)]);
    assert_eq!(ready(second, 100), [(TimeKind::Slot, 550)], "not before the first one ended");
    assert_eq!(ready(second, 5_000), [(TimeKind::Slot, 50)]);
}

#[test]
fn what_a_dead_worker_left_is_no_ones_time() {
    let taken = json!({"event": "taken_over", "worker": "b", "from": "a", "silent_ms": 2_000});
    let log = log(&[
        (0, started()),
        (0, asked("act", json!([call()]))),
        (0, json!({"event": "attempted", "slot": 0})),
        (3_000, taken),
        (3_000, json!({"event": "attempted", "slot": 0})),
        (3_700, answered(0, 700)),
        (3_700, ended()),
    ]);
    assert_eq!(uses(&log), [(TimeKind::Tool, 1_000), (TimeKind::NoWorker, 2_000), (TimeKind::Tool, 700)]);
    let time = &Timekeeper::of_log(&log, 0)[0];
    let ends: Vec<_> = time.attempts.iter().map(|it| (it.from / 1_000, it.to / 1_000, it.seq)).collect();
    assert_eq!(ends, [(0, 1_000, None), (3_000, 3_700, Some(5))], "both attempts");
    assert_eq!(time.timeline(Uuid::nil()).takeovers[0].at_ms, 3_000);
}

#[test]
fn calls_side_by_side_count_once_and_failures_wait() {
    let failed = json!({"event": "attempt_failed", "slot": 1, "error": "busy", "retry_after_ms": 500,
                        "usage": {"duration_ms": 100}});
    let log = log(&[
        (0, started()),
        (0, asked("act", json!([chat(), call()]))),
        (100, failed),
        (400, answered(0, 400)),
        (1_000, answered(1, 300)),
        (1_000, ended()),
    ]);
    assert_eq!(uses(&log), [(TimeKind::Model, 400), (TimeKind::Limit, 300), (TimeKind::Tool, 300)]);
}

#[test]
fn people_have_the_time_of_doubts_and_of_retries() {
    let log = log(&[
        (0, started()),
        (0, asked("act", json!([call()]))),
        (0, json!({"event": "attempted", "slot": 0})),
        (200, json!({"event": "in_doubt", "slot": 0, "reason": "lost"})),
        (5_200, json!({"event": "reconciled", "slot": 0, "verdict": "skip"})),
        (5_200, json!({"event": "failed", "node": "act", "reason": "x"})),
        (9_200, json!({"event": "retried"})),
        (9_200, json!({"event": "decided", "node": "act", "to": "end"})),
    ]);
    assert_eq!(uses(&log), [(TimeKind::Tool, 200), (TimeKind::Person, 9_000)]);
    assert_eq!(
        uses(&log[..6]),
        [(TimeKind::Tool, 200), (TimeKind::Person, 5_000)],
        "the failed turn is over"
    );
}
