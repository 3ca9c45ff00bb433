//! A decision is explained by the node's reason and by its basis.

use api_types::{Explanation, LogStatus};
use audit::Explainer;
use serde_json::json;
use shared::{Event, Graph, Next};

use crate::fixtures::{Lived, all, lived};

fn why(it: &Lived, at: usize) -> Explanation {
    let mut explainer = Explainer::new(it.graph);
    it.log[..=at].iter().for_each(|event| explainer.see(event).unwrap());
    explainer.finish().unwrap()
}

#[test]
fn every_decision_is_explained_by_its_own_question_and_answers() {
    let mut reasons = 0;
    for it in all() {
        for (seq, event) in it.log.iter().enumerate() {
            let Event::Decided(decided) = event else { continue };
            let why = why(&it, seq).decision.unwrap();
            assert_eq!(
                (why.seq, &why.node, &why.reason),
                (seq as u64, &decided.node, &decided.reason),
                "{}",
                it.name
            );
            reasons += usize::from(why.reason.is_some());
            // The requests are the last ones before the decision, if they belong to the same turn and to no earlier
            // decision.
            let ends = |it: &Event| matches!(it, Event::Decided(_) | Event::TurnStarted(_));
            let since = it.log[..seq].iter().rposition(ends).unwrap_or(0);
            let asked = it.log[since..seq].iter().rposition(|it| matches!(it, Event::Asked(_)));
            assert_eq!(
                why.requests.first().map(|it| it.seq),
                asked.map(|it| (it + since) as u64),
                "{} {seq}",
                it.name
            );
            assert!(!why.alternatives.contains(&why.to), "{} {seq}", it.name);
        }
    }
    assert!(50 < reasons, "{reasons} decisions gave a reason");
}

#[test]
fn a_threshold_is_told_with_what_was_held_against_it() {
    let it = lived("planner", "confidence_at_the_threshold");
    let why = why(&it, 17);
    let decision = why.decision.unwrap();
    assert_eq!(decision.reason.as_deref(), Some("done with confidence 0.69 < 0.7"));
    assert_eq!((decision.node.as_str(), decision.to.as_str()), ("assess", "orchestrate"));
    assert!(
        decision.answers[0].text.contains("0.69") && decision.alternatives.contains(&"advance".to_owned())
    );
    assert_eq!((why.status, why.node.as_deref()), (LogStatus::Busy, Some("orchestrate")));
}

#[test]
fn what_a_thread_waits_for_is_told() {
    let it = lived("planner", "clarification");
    let asks = it.log.iter().position(|it| it.to_string().contains("asks for clarification")).unwrap();
    let asking = why(&it, asks);
    assert_eq!((asking.status, asking.question.as_deref()), (LogStatus::Waiting, Some("Book what?")));
    let before = why(&it, asks - 1);
    assert_eq!((before.status, before.pending), (LogStatus::Busy, vec![]));
    let calling = why(&it, asks - 2);
    assert!(calling.pending[0].starts_with("chat openai/gpt-4o"), "{calling:?}");
    assert_eq!(calling.pending.len(), 1);
    assert_eq!(why(&it, 1).decision, None, "nothing is decided when a turn begins");
    assert_eq!(why(&it, it.log.len() - 1).status, LogStatus::Idle);
}

/// A log of the probe: after each of these events it continues as far as it can without answers.
fn probed(script: &[serde_json::Value]) -> Lived {
    let graph: &'static dyn Graph = strategies::all().into_iter().find(|it| it.name() == "probe").unwrap();
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
    Lived { graph, name: String::new(), log }
}

fn heard(words: &str) -> serde_json::Value {
    json!({"event": "turn_started", "messages": [{"role": "user", "content": words}]})
}

/// Requests of a turn that ended without a decision are no basis for decisions of the next.
#[test]
fn a_decision_does_not_stand_on_what_another_turn_heard() {
    let opened = json!({"event": "opened", "strategy": "probe"});
    let answered =
        json!({"event": "answered", "slot": 0, "response": {"response": "echo", "text": "call 1"}});
    let hopeless = json!({"event": "attempt_failed", "slot": 1, "error": "gone"});
    for ends in [json!({"event": "cancelled"}), hopeless] {
        let it = probed(&[opened.clone(), heard("call 2"), answered.clone(), ends, heard("nested")]);
        assert!(it.log.iter().any(|it| matches!(it, Event::Cancelled(_) | Event::Failed(_))), "{:?}", it.log);
        let read =
            it.log.iter().rposition(|it| matches!(it, Event::Decided(it) if it.node == "read")).unwrap();
        let decision = why(&it, read).decision.unwrap();
        assert_eq!((decision.requests, decision.answers), (vec![], vec![]));
    }

    // A retry continues with the answers received before.
    let script = [
        opened.clone(),
        heard("call 2"),
        answered.clone(),
        json!({"event": "attempt_failed", "slot": 1, "error": "gone"}),
        json!({"event": "retried"}),
        json!({"event": "answered", "slot": 1, "response": {"response": "echo", "text": "call 2"}}),
    ];
    let it = probed(&script);
    let called = it.log.iter().position(|it| matches!(it, Event::Decided(it) if it.node == "call")).unwrap();
    let decision = why(&it, called).decision.unwrap();
    assert_eq!((decision.requests.len(), decision.answers.len()), (1, 3));

    // A fork repeats requests without an outcome; facts that it adds may leave nothing to request.
    let forked = |learned: serde_json::Value| json!({"event": "forked", "thread": uuid::Uuid::nil(), "seq": 4, "hash": "", "facts": learned});
    let failed = json!({"event": "attempt_failed", "slot": 0, "error": "busy", "retry_after_ms": 100});
    let nothing = forked(json!([{"read": [{"call": 0}]}, "began"]));
    let it = probed(&[opened.clone(), heard("call 1"), failed, nothing]);
    let called = it.log.iter().position(|it| matches!(it, Event::Decided(it) if it.node == "call")).unwrap();
    let decision = why(&it, called).decision.unwrap();
    assert_eq!((decision.requests, decision.answers), (vec![], vec![]));

    let rest = json!({"event": "answered", "slot": 1, "response": {"response": "echo", "text": "call 2"}});
    let it = probed(&[opened, heard("call 2"), answered, forked(json!([])), rest]);
    let called = it.log.iter().position(|it| matches!(it, Event::Decided(it) if it.node == "call")).unwrap();
    let decision = why(&it, called).decision.unwrap();
    assert_eq!((decision.requests.len(), decision.answers.len()), (1, 2), "what has an answer is kept");
}
