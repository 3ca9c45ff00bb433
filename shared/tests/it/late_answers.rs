//! Outcomes of calls in doubt that arrive late.

use std::collections::BTreeMap;

use shared::{
    Answered, Attempt, AttemptFailed, Cancelled, DynThread, Event, InputRequired, Next, Policy, Reconciled,
    Response, RunStatus, TaskStarted, ToolOutput, Verdict, WriteEnded,
};

/// Returns a thread that asks a person about its call, and the number of the attempt.
fn in_doubt() -> (Box<dyn DynThread>, usize) {
    let mut thread = strategies::find("retriever").unwrap().begin();
    let log = include_str!("../../../fixtures/golden/v1/retriever__write_in_doubt.jsonl");
    let mut attempt = 0;
    for line in log.lines() {
        let event: Event = serde_json::from_str(line).unwrap();
        match event {
            Event::Attempted(_) => attempt = thread.seq(),
            Event::Reconciled(_) => break,
            _ => (),
        }
        thread.apply(&event).unwrap();
    }
    assert_eq!(thread.last_attempt(0), Some(Attempt { seq: attempt, is_in_doubt: true }));
    (thread, attempt)
}

fn answered() -> Event {
    let response = Response::Output(ToolOutput::Ok("cancelled e1".to_owned()));
    Answered { slot: 0, response, usage: None, extras: None }.into()
}

fn failed(in_doubt: bool) -> Event {
    let json = serde_json::json!({"slot": 0, "error": "busy", "retry_after_ms": 5, "in_doubt": in_doubt});
    serde_json::from_value::<AttemptFailed>(json).unwrap().into()
}

fn reconciled(verdict: Verdict) -> Event {
    Reconciled { slot: 0, verdict, actor: String::new(), caller: None, read_back: None }.into()
}

#[test]
fn a_late_answer_reconciles_a_call_in_doubt() {
    let (mut thread, seq) = in_doubt();
    thread.apply(&answered()).unwrap();
    assert_eq!(thread.status(), RunStatus::Busy);
    assert_eq!(thread.last_attempt(0), Some(Attempt { seq, is_in_doubt: false }));
    let Next::Append(Event::Decided(decided)) = thread.next().unwrap() else { panic!("it decides") };
    assert_eq!(decided.messages[0].content, "cancelled e1");
}

#[test]
fn a_call_is_made_again_after_a_late_refusal() {
    let (mut thread, _) = in_doubt();
    thread.apply(&failed(false)).unwrap();
    let Next::Perform(due) = thread.next().unwrap() else { panic!("it calls again") };
    assert_eq!((due.len(), due[0].attempts), (1, 1));
}

#[test]
fn a_task_that_was_started_late_is_polled() {
    let (mut thread, _) = in_doubt();
    thread.apply(&TaskStarted { slot: 0, task: "t1".to_owned() }.into()).unwrap();
    let Next::Perform(due) = thread.next().unwrap() else { panic!("it asks nothing") };
    assert_eq!(due[0].task.as_deref(), Some("t1"));
    assert_eq!(thread.unresolved_writes(), [0], "it may have taken effect");
}

#[test]
fn a_late_unknown_outcome_leaves_the_call_in_doubt() {
    let (mut thread, _) = in_doubt();
    let question = InputRequired { slot: 0, input_requests: BTreeMap::new(), request_state: None };
    for event in [failed(true), question.into()] {
        thread.apply(&event).unwrap_err();
    }
    assert!(matches!(thread.status(), RunStatus::Waiting(_)));
}

/// A call whose repetitions are used up is in doubt because of an earlier attempt, of which a refusal of the last one says
/// nothing.
#[test]
fn a_late_refusal_does_not_reconcile_earlier_attempts() {
    let mut thread = strategies::find("planner").unwrap().begin();
    let log = include_str!("../../../fixtures/golden/v1/planner__repeats_of_a_write_run_out_in_doubt.jsonl");
    let events = log.lines().map(|line| serde_json::from_str::<Event>(line).unwrap());
    for event in events.take_while(|event| !matches!(event, Event::Reconciled(_))) {
        thread.apply(&event).unwrap();
    }
    thread.apply(&failed(false)).unwrap_err();
    thread.apply(&answered()).unwrap();
}

#[test]
fn a_late_answer_does_not_change_the_decision_of_a_person() {
    let (mut thread, _) = in_doubt();
    thread.apply(&reconciled(Verdict::Skip)).unwrap();
    thread.apply(&answered()).unwrap_err();

    let (mut thread, first) = in_doubt();
    thread.apply(&reconciled(Verdict::DidNotHappen)).unwrap();
    assert_eq!(thread.last_attempt(0), Some(Attempt { seq: first, is_in_doubt: false }));
    let second = thread.seq();
    let json = r#"[{"event": "attempted", "slot": 0}, {"event": "in_doubt", "slot": 0, "reason": "lost"}]"#;
    for event in serde_json::from_str::<Vec<Event>>(json).unwrap() {
        thread.apply(&event).unwrap();
    }
    assert_eq!(thread.last_attempt(0), Some(Attempt { seq: second, is_in_doubt: true }));
}

fn ended(attempted: usize, ending: &str) -> Event {
    let json = serde_json::json!({"attempted": attempted, "ending": ending, "text": "cancelled e1"});
    serde_json::from_value::<WriteEnded>(json).unwrap().into()
}

#[test]
fn a_call_of_a_cancelled_turn_ends_once_and_in_an_idle_thread() {
    let (mut thread, attempted) = in_doubt();
    thread.apply(&ended(attempted, "made")).unwrap_err();
    thread.apply(&Cancelled { actor: String::new(), caller: None, rolled_back: false }.into()).unwrap();
    assert!(thread.is_cancelled());
    thread.apply(&ended(attempted + 1, "made")).unwrap_err();
    thread.apply(&ended(attempted, "unknown")).unwrap();
    thread.apply(&ended(attempted, "unknown")).unwrap_err();
    let next = |thread: &dyn DynThread, text: &str| {
        let messages = vec![shared::Message::user(text)];
        thread.accept_message(uuid::Uuid::nil(), "", "2026-12-03T09:00:00Z", Policy::Auto, messages).unwrap()
    };
    let mut busy = thread.clone();
    busy.apply(&next(&*busy, "Cancel e2")).unwrap();
    busy.apply(&ended(attempted, "made")).unwrap_err();
    let report = |thread: &dyn DynThread| {
        let Event::TurnStarted(started) = next(thread, "stop") else { panic!("it starts a turn") };
        started.messages.last().unwrap().content.clone()
    };
    assert!(report(&*thread).contains("Not known whether it happened, or still happens:\n- calendar.cancel"));
    thread.apply(&ended(attempted, "made")).unwrap();
    assert_eq!(thread.unended_writes(), []);
    assert!(report(&*thread).contains("Done before that:\n- calendar.cancel"), "{}", report(&*thread));
    thread.apply(&ended(attempted, "failed")).unwrap_err();
}
