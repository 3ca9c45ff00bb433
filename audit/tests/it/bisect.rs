//! Search for the first event that meets a condition.

use audit::{Condition, Found, Search};
use shared::{Event, Goto};
use threads::Predicate;

use crate::fixtures::{FixtureLog, fixture_log};

fn first(fixture: &FixtureLog, sought: Condition) -> Option<Found> {
    let mut search = Search::new(fixture.graph, sought);
    fixture.log.iter().find_map(|event| search.see(event).unwrap())
}

fn first_match(fixture: &FixtureLog, predicate: &str) -> Option<usize> {
    first(fixture, Condition::Holds(Predicate::parse(predicate).unwrap())).map(|found| found.seq)
}

#[test]
fn the_first_event_that_meets_a_predicate() {
    let fixture = fixture_log("planner", "confidence_at_the_threshold");
    assert_eq!(first_match(&fixture, "event = opened"), Some(0));
    assert_eq!(first_match(&fixture, "state.plan.tasks.0.expert = calendar"), Some(4));
    assert_eq!(first_match(&fixture, "node = assess"), Some(14));
    assert_eq!(first_match(&fixture, "state.plan.rounds > 0"), Some(17));
    assert_eq!(first_match(&fixture, "reply ~ booked and status = busy"), Some(20));
    assert_eq!(first_match(&fixture, "state.ending = finished"), Some(24));
    assert_eq!(first_match(&fixture, "status = failed"), None);
}

#[test]
fn the_first_event_where_todays_code_decides_differently() {
    let mut fixture = fixture_log("planner", "confidence_at_the_threshold");
    assert_eq!(first(&fixture, Condition::Diverges), None);
    let Event::Decided(decided) = &mut fixture.log[23] else { panic!("event 23 is no decision") };
    decided.to = Goto::Node("respond".to_owned());
    let found = {
        fixture.log.truncate(24);
        first(&fixture, Condition::Diverges).unwrap()
    };
    let divergence = found.divergence.unwrap();
    assert_eq!((found.seq, divergence.node.as_str(), divergence.field.path()), (23, "assess", "to"));
}
