//! Approvals are read from logs, with their payloads, their answers and what was executed.

use std::{fs, path::Path};

use audit::approvals::{Approval, ApprovalReader, Ending};
use serde_json::json;
use shared::{CallerId, Event};
use store::{Recorded, ThreadId};

use crate::audit_test::all_strategies;

/// Runs a fixture whose person has a key, and reads the approvals of its log.
fn approvals(fixture: &str) -> Vec<Approval> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/action_plan").join(fixture);
    let script = fs::read_to_string(file).unwrap();
    let caller = Some(CallerId { key: Some("tf_7".to_owned()), subject: Some("ann".to_owned()) });
    let script: Vec<Event> = script
        .lines()
        .map(|line| serde_json::from_str::<Event>(line).unwrap().sent_by(caller.clone()))
        .collect();
    let log = shared::rerun(strategies::find("action_plan").unwrap(), &script).unwrap().log;
    let mut reader = ApprovalReader::begin(&all_strategies(), ThreadId::nil(), &log[0]).unwrap();
    for (seq, event) in (0..).zip(log) {
        let at = i64::try_from(seq).unwrap() * 1_000_000;
        reader.read(&Recorded { seq, at, event }).unwrap();
    }
    reader.end()
}

#[test]
fn an_approval_has_its_payloads_and_what_was_executed() {
    let found = approvals("approve_the_plan_alone_and_change_what_was_shown.jsonl");
    let [first, second] = found.as_slice() else { panic!("two questions: {found:#?}") };
    let answer = first.answer.as_ref().unwrap();
    assert_eq!((first.event, first.shown_at.as_str()), (11, "1970-01-01T00:00:11.000000Z"));
    assert!(first.question.contains("\"hour\":12"), "{first:#?}");
    assert_eq!((answer.event, answer.text.as_str(), answer.approved), (12, "yes", true));
    assert_eq!((answer.key.as_deref(), answer.subject.as_deref()), (Some("tf_7"), Some("ann")));

    let [book, cancel] = first.calls.as_slice() else { panic!("two calls: {first:#?}") };
    let shown = json!({"day": "Friday", "hour": 12, "title": "lunch with Ann"});
    assert_eq!((book.tool.as_str(), book.arguments.as_ref()), ("book", Some(&shown)));
    let [taken] = book.executions.as_slice() else { panic!("executed once: {book:#?}") };
    assert_eq!((taken.ending, taken.result.as_str()), (Ending::Failed, "12:00 is taken"));
    assert_eq!(taken.attempted_at.as_deref(), Some("1970-01-01T00:00:15.000000Z"));
    let shown = json!({"event_id": "e7"});
    assert_eq!((cancel.tool.as_str(), cancel.arguments.as_ref()), ("cancel", Some(&shown)));
    assert_eq!(cancel.executions[0].arguments, json!({"event_id": "e7"}));

    let booked = &second.calls[0].executions[0];
    assert_eq!((booked.ending, booked.result.as_str(), booked.event), (Ending::Made, "booked e1", 26));
}

#[test]
fn an_unclear_answer_approves_nothing() {
    let found = approvals("approved_in_words_with_accents.jsonl");
    let answers = found.iter().map(|asked| asked.answer.as_ref().unwrap());
    let answers: Vec<_> = answers.map(|answer| (answer.text.as_str(), answer.approved)).collect();
    let [first, second, (third, approved)] = answers.as_slice() else { panic!("three answers: {answers:?}") };
    assert_eq!([*first, *second], [("don't stop", false), ("yes, change it; no", false)]);
    assert!(*approved && third.ends_with("por favor."), "{third}");
    let executed: Vec<usize> = found.iter().map(|asked| asked.calls[0].executions.len()).collect();
    assert_eq!(executed, [0, 0, 1], "{found:#?}");
}
