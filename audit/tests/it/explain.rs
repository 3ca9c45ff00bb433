//! A decision is explained by the node's reason and by its basis.

use api_types::{Explanation, LogStatus};
use audit::Explainer;
use serde_json::json;
use shared::{Event, Graph, Next};

use crate::fixtures::{FixtureLog, all, fixture_log};

fn why(fixture: &FixtureLog, at: usize) -> Explanation {
    let mut explainer = Explainer::new(fixture.graph);
    fixture.log[..=at].iter().for_each(|event| explainer.see(event).unwrap());
    explainer.finish().unwrap()
}

#[test]
fn every_decision_is_explained_by_its_own_requests_and_answers() {
    let mut reasons = 0;
    for fixture in all() {
        for (seq, event) in fixture.log.iter().enumerate() {
            let Event::Decided(decided) = event else { continue };
            let why = why(&fixture, seq).decision.unwrap();
            assert_eq!(
                (why.seq, &why.node, &why.reason),
                (seq as u64, &decided.node, &decided.reason),
                "{}",
                fixture.name
            );
            reasons += usize::from(why.reason.is_some());
            // The requests are the last ones before the decision, if they belong to the same turn and to no earlier
            // decision.
            let ends = |event: &Event| matches!(event, Event::Decided(_) | Event::TurnStarted(_));
            let since = fixture.log[..seq].iter().rposition(ends).unwrap_or(0);
            let asked = fixture.log[since..seq].iter().rposition(|event| matches!(event, Event::Asked(_)));
            assert_eq!(
                why.requests.first().map(|request| request.seq),
                asked.map(|index| (index + since) as u64),
                "{} {seq}",
                fixture.name
            );
            assert!(!why.alternatives.contains(&why.to), "{} {seq}", fixture.name);
        }
    }
    assert!(50 < reasons, "{reasons} decisions gave a reason");
}

#[test]
fn a_decision_by_threshold_shows_the_compared_value() {
    let fixture = fixture_log("planner", "confidence_at_the_threshold");
    let why = why(&fixture, 17);
    let decision = why.decision.unwrap();
    assert_eq!(decision.reason.as_deref(), Some("done with confidence 0.69 < 0.7"));
    assert_eq!((decision.node.as_str(), decision.to.as_str()), ("assess", "orchestrate"));
    assert!(
        decision.answers[0].text.contains("0.69") && decision.alternatives.contains(&"advance".to_owned())
    );
    assert_eq!((why.status, why.node.as_deref()), (LogStatus::Busy, Some("orchestrate")));
}

#[test]
fn a_thread_shows_its_question_or_its_pending_requests() {
    let fixture = fixture_log("planner", "clarification");
    let asks =
        fixture.log.iter().position(|event| event.to_string().contains("asks for clarification")).unwrap();
    let asking = why(&fixture, asks);
    assert_eq!((asking.status, asking.question.as_deref()), (LogStatus::Waiting, Some("Book what?")));
    let before = why(&fixture, asks - 1);
    assert_eq!((before.status, before.pending), (LogStatus::Busy, vec![]));
    let calling = why(&fixture, asks - 2);
    assert!(calling.pending[0].starts_with("chat openai/gpt-4o"), "{calling:?}");
    assert_eq!(calling.pending.len(), 1);
    assert_eq!(why(&fixture, 1).decision, None, "nothing is decided when a turn begins");
    assert_eq!(why(&fixture, fixture.log.len() - 1).status, LogStatus::Idle);
}

/// A log of the probe: after each of these events it continues as far as it can without answers.
fn run_probe(script: &[serde_json::Value]) -> FixtureLog {
    let graph: &'static dyn Graph =
        strategies::all().into_iter().find(|strategy| strategy.name() == "probe").unwrap();
    let (mut thread, mut log) = (graph.begin(), Vec::new());
    for event in script {
        let mut event: Event = serde_json::from_value(event.clone()).unwrap();
        loop {
            thread.apply(&event).unwrap();
            log.push(event);
            let Next::Append(next) = thread.next().unwrap() else { break };
            event = next;
        }
    }
    FixtureLog { graph, name: String::new(), log }
}

fn turn_started(text: &str) -> serde_json::Value {
    json!({"event": "turn_started", "messages": [{"role": "user", "content": text}]})
}

/// Requests of a turn that ended without a decision are no basis for decisions of the next.
#[test]
fn a_decision_has_no_requests_of_another_turn() {
    let opened = json!({"event": "opened", "strategy": "probe"});
    let answered =
        json!({"event": "answered", "slot": 0, "response": {"response": "echo", "text": "call 1"}});
    let failed_for_good = json!({"event": "attempt_failed", "slot": 1, "error": "gone"});
    for ends in [json!({"event": "cancelled"}), failed_for_good] {
        let probe = run_probe(&[
            opened.clone(),
            turn_started("call 2"),
            answered.clone(),
            ends,
            turn_started("nested"),
        ]);
        assert!(
            probe.log.iter().any(|event| matches!(event, Event::Cancelled(_) | Event::Failed(_))),
            "{:?}",
            probe.log
        );
        let read = probe
            .log
            .iter()
            .rposition(|event| matches!(event, Event::Decided(event) if event.node == "read"))
            .unwrap();
        let decision = why(&probe, read).decision.unwrap();
        assert_eq!((decision.requests, decision.answers), (vec![], vec![]));
    }

    // A retry continues with the answers received before.
    let script = [
        opened.clone(),
        turn_started("call 2"),
        answered.clone(),
        json!({"event": "attempt_failed", "slot": 1, "error": "gone"}),
        json!({"event": "retried"}),
        json!({"event": "answered", "slot": 1, "response": {"response": "echo", "text": "call 2"}}),
    ];
    let probe = run_probe(&script);
    let called = probe
        .log
        .iter()
        .position(|event| matches!(event, Event::Decided(event) if event.node == "call"))
        .unwrap();
    let decision = why(&probe, called).decision.unwrap();
    assert_eq!((decision.requests.len(), decision.answers.len()), (1, 3));

    // A fork repeats requests without an outcome; facts that it adds may leave nothing to request.
    let forked = |learned: serde_json::Value| json!({"event": "forked", "thread": uuid::Uuid::nil(), "seq": 4, "hash": "", "facts": learned});
    let failed = json!({"event": "attempt_failed", "slot": 0, "error": "busy", "retry_after_ms": 100});
    let nothing = forked(json!([{"read": [{"call": 0}]}, "began"]));
    let probe = run_probe(&[opened.clone(), turn_started("call 1"), failed, nothing]);
    let called = probe
        .log
        .iter()
        .position(|event| matches!(event, Event::Decided(event) if event.node == "call"))
        .unwrap();
    let decision = why(&probe, called).decision.unwrap();
    assert_eq!((decision.requests, decision.answers), (vec![], vec![]));

    let rest = json!({"event": "answered", "slot": 1, "response": {"response": "echo", "text": "call 2"}});
    let probe = run_probe(&[opened, turn_started("call 2"), answered, forked(json!([])), rest]);
    let called = probe
        .log
        .iter()
        .position(|event| matches!(event, Event::Decided(event) if event.node == "call"))
        .unwrap();
    let decision = why(&probe, called).decision.unwrap();
    assert_eq!((decision.requests.len(), decision.answers.len()), (1, 2), "what has an answer is kept");
}
