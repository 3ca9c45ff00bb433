//! A decision is explained by the node's reason and by its basis.

use audit::{Explainer, Explanation};
use serde_json::json;
use shared::{Event, Graph, Next, strategies};

use crate::fixtures::{Lived, all, lived};

fn why(it: &Lived, at: usize) -> Explanation {
    let mut explainer = Explainer::new(it.graph);
    it.log[..=at].iter().for_each(|event| explainer.see(event).unwrap());
    explainer.finish().unwrap()
}

#[test]
fn every_decision_is_explained_by_its_own_question_and_answers() {
    let mut because = 0;
    for it in all() {
        for (seq, event) in it.log.iter().enumerate() {
            let Event::Decided(decided) = event else { continue };
            let why = why(&it, seq).decision.unwrap();
            assert_eq!(
                (why.seq, &why.node, &why.because),
                (seq, &decided.node, &decided.reason),
                "{}",
                it.name
            );
            because += usize::from(why.because.is_some());
            // The requests are the last ones before the decision, if they belong to the same turn and to no earlier
            // decision.
            let ends = |it: &Event| matches!(it, Event::Decided(_) | Event::TurnStarted(_));
            let since = it.log[..seq].iter().rposition(ends).unwrap_or(0);
            let asked = it.log[since..seq].iter().rposition(|it| matches!(it, Event::Asked(_)));
            assert_eq!(why.asked.first().map(|it| it.seq), asked.map(|it| it + since), "{} {seq}", it.name);
            assert!(!why.instead.contains(&why.to), "{} {seq}", it.name);
        }
    }
    assert!(50 < because, "{because} decisions gave a reason");
}

#[test]
fn a_threshold_is_told_with_what_was_held_against_it() {
    let it = lived("planner", "confidence_at_the_threshold");
    let why = why(&it, 17);
    let decision = why.decision.unwrap();
    assert_eq!(decision.because.as_deref(), Some("done with confidence 0.69 < 0.7"));
    assert_eq!((decision.node.as_str(), decision.to.as_str()), ("assess", "orchestrate"));
    assert!(decision.heard[0].text.contains("0.69") && decision.instead.contains(&"advance".to_owned()));
    assert!(why.stands.starts_with("under way at orchestrate"), "{}", why.stands);
}

#[test]
fn what_a_thread_waits_for_is_told() {
    let it = lived("planner", "clarification");
    let asks = it.log.iter().position(|it| it.to_string().contains("asks for clarification")).unwrap();
    assert_eq!(why(&it, asks).stands, "asks a person for clarification: Book what?");
    let next = format!("under way at plan; next comes: {}", it.log[asks]);
    assert_eq!(why(&it, asks - 1).stands, next);
    assert!(why(&it, asks - 2).stands.contains("waits for: chat openai/gpt-4o"));
    assert_eq!(why(&it, 1).decision, None, "nothing is decided when a turn begins");
    assert_eq!(why(&it, it.log.len() - 1).stands, "idle: a person speaks next");
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
        assert_eq!((decision.asked, decision.heard), (vec![], vec![]));
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
    assert_eq!((decision.asked.len(), decision.heard.len()), (1, 3));

    // A fork repeats requests without an outcome; facts that it adds may leave nothing to request.
    let forked = |learned: serde_json::Value| json!({"event": "forked", "thread": uuid::Uuid::nil(), "seq": 4, "hash": "", "facts": learned});
    let falter = json!({"event": "attempt_failed", "slot": 0, "error": "busy", "retry_after_ms": 100});
    let nothing = forked(json!([{"read": [{"call": 0}]}, "began"]));
    let it = probed(&[opened.clone(), heard("call 1"), falter, nothing]);
    let called = it.log.iter().position(|it| matches!(it, Event::Decided(it) if it.node == "call")).unwrap();
    let decision = why(&it, called).decision.unwrap();
    assert_eq!((decision.asked, decision.heard), (vec![], vec![]));

    let rest = json!({"event": "answered", "slot": 1, "response": {"response": "echo", "text": "call 2"}});
    let it = probed(&[opened, heard("call 2"), answered, forked(json!([])), rest]);
    let called = it.log.iter().position(|it| matches!(it, Event::Decided(it) if it.node == "call")).unwrap();
    let decision = why(&it, called).decision.unwrap();
    assert_eq!((decision.asked.len(), decision.heard.len()), (1, 2), "what has an answer is kept");
}
