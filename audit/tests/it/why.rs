//! A route is explained by what the node said and by what it stood on.

use audit::{Explainer, Why};
use shared::Event;

use crate::fixtures::{Lived, all, lived};

fn why(it: &Lived, at: usize) -> Why {
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
            assert_eq!((why.seq, &why.node, &why.because), (seq, &decided.node, &decided.why), "{}", it.name);
            because += usize::from(why.because.is_some());
            // The question is the last one before the decision, if it is of the same node and not of a decision before.
            let since = it.log[..seq].iter().rposition(|it| matches!(it, Event::Decided(_))).unwrap_or(0);
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
    assert!(
        why(&it, asks - 1).stands.starts_with("under way at plan; next comes: decided"),
        "{:?}",
        why(&it, asks - 1)
    );
    assert!(why(&it, asks - 2).stands.contains("waits for: chat openai/gpt-4o"));
    assert_eq!(why(&it, 1).decision, None, "nothing is decided when a turn begins");
    assert_eq!(why(&it, it.log.len() - 1).stands, "idle: a person speaks next");
}
