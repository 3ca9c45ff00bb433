//! Search for the first event that meets a condition.

use audit::{Condition, Found, Search};
use shared::{Event, Goto};
use threads::Predicate;

use crate::fixtures::{Lived, lived};

fn first(it: &Lived, sought: Condition) -> Option<Found> {
    let mut search = Search::new(it.graph, sought);
    it.log.iter().find_map(|event| search.see(event).unwrap())
}

fn holds(it: &Lived, words: &str) -> Option<usize> {
    first(it, Condition::Holds(Predicate::parse(words).unwrap())).map(|it| it.seq)
}

#[test]
fn a_predicate_on_the_thread() {
    let it = lived("planner", "confidence_at_the_threshold");
    assert_eq!(holds(&it, "event = opened"), Some(0));
    assert_eq!(holds(&it, "state.plan.tasks.0.expert = calendar"), Some(4));
    assert_eq!(holds(&it, "node = assess"), Some(14));
    assert_eq!(holds(&it, "state.plan.rounds > 0"), Some(17));
    assert_eq!(holds(&it, "reply ~ booked and status = busy"), Some(20));
    assert_eq!(holds(&it, "state.ending = finished"), Some(24));
    assert_eq!(holds(&it, "status = failed"), None);
}

#[test]
fn where_todays_code_decides_otherwise() {
    let mut it = lived("planner", "confidence_at_the_threshold");
    assert_eq!(first(&it, Condition::Diverges), None);
    let Event::Decided(decided) = &mut it.log[23] else { panic!("event 23 is no decision") };
    decided.to = Goto::Node("respond".to_owned());
    let found = {
        it.log.truncate(24);
        first(&it, Condition::Diverges).unwrap()
    };
    let divergence = found.divergence.unwrap();
    assert_eq!((found.seq, divergence.node.as_str(), divergence.field.path()), (23, "assess", "to"));
}
