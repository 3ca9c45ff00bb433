//! Replay reports each difference between the current code and a log: the event, the node and the field.

use serde_json::{Value, json};
use shared::{Decided, Divergence, Event, Field, Graph, Request, replay, rerun};

use crate::fixtures::each_fixture;

/// Returns the log that the current code writes for this fixture.
fn recorded(strategy: &str, fixture: &str) -> (&'static dyn Graph, Vec<Event>) {
    let mut found = None;
    each_fixture(|graph, name, script| {
        if (graph.name(), name) == (strategy, fixture) {
            found = Some((graph, rerun(graph, &script).unwrap().log));
        }
    });
    found.unwrap()
}

/// Replays a log whose first decision of `node` has been changed by `then`.
#[track_caller]
fn decided(node: &str, then: impl Fn(&mut Decided)) -> Divergence {
    let (graph, mut log) = recorded("planner", "two_tasks");
    let seq = log
        .iter()
        .position(|event| matches!(event, Event::Decided(decision) if decision.node == node))
        .unwrap();
    let Event::Decided(decision) = &mut log[seq] else { unreachable!() };
    then(decision);
    // Events after the changed decision may not follow from it, so the log ends there.
    let found = replay(graph, &log[..=seq]).unwrap();
    let [one] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.seq, one.node.as_str()), (seq, node));
    one.clone()
}

#[test]
fn another_route_is_reported_before_other_differences() {
    let difference = decided("assess", |decision| {
        decision.to = shared::Goto::End;
        decision.reason = None;
    });
    assert_eq!(
        (difference.field.path(), difference.then.as_str(), difference.today.as_str()),
        ("to", "end", "advance")
    );
}

#[test]
fn a_difference_in_the_state_is_named_by_its_path() {
    let difference = decided("plan", |decision| {
        let task = decision.facts[0].pointer_mut("/planned/tasks/1/task").unwrap();
        *task = json!("something else");
    });
    assert_eq!(difference.field, Field::Decision("state.plan.tasks.1.task".to_owned()));
    assert_eq!(difference.then, "“something else”");
    assert_ne!(difference.today, difference.then);
}

#[test]
fn messages_and_reasons_are_reported_last() {
    let difference = decided("respond", |decision| decision.messages[0].content += "!");
    assert_eq!(difference.field.path(), "messages.0.content");
    let difference = decided("assess", |decision| decision.reason = Some("the dice".to_owned()));
    assert_eq!((difference.field.path(), difference.then.as_str()), ("reason", "“the dice”"));
}

#[test]
fn a_changed_prompt_is_named_by_its_line_if_nothing_else_differs() {
    let (graph, log) = recorded("planner", "two_tasks");
    let reworded = |also: fn(&mut Request)| {
        let mut log = log.clone();
        let Some(Event::Asked(asked)) = log.iter_mut().find(|event| matches!(event, Event::Asked(_))) else {
            panic!("nothing is asked")
        };
        let Request::Chat { system, .. } = &mut asked.requests[0] else { panic!("no prompt") };
        let third = system.lines().nth(2).unwrap().to_owned();
        *system = system.replacen(&third, "Mumble.", 1);
        also(&mut asked.requests[0]);
        replay(graph, &log).unwrap().remove(0)
    };
    let difference = reworded(|_| ());
    assert_eq!(difference.field, Field::Prompt("requests.0.system".to_owned()));
    assert_eq!((difference.node.as_str(), difference.then.as_str()), ("plan", "line 3: “Mumble.”"));
    let difference = reworded(|request| {
        let Request::Chat { model, .. } = request else { return };
        *model = "openai/old".to_owned();
    });
    assert_eq!(difference.field, Field::Request("requests.0.model".to_owned()));
    assert_eq!(difference.then, "“openai/old”");
}

/// A changed decision is reported at its own event and nowhere else, in every strategy.
#[test]
fn every_changed_decision_is_found() {
    let mut found = 0;
    each_fixture(|graph, name, script| {
        let log = rerun(graph, &script).unwrap().log;
        for seq in 0..log.len() {
            let mut then = log[..=seq].to_vec();
            let Event::Decided(decision) = &mut then[seq] else { continue };
            decision.reason = Some("because I say so".to_owned());
            let node = decision.node.clone();
            let divergences = replay(graph, &then).unwrap();
            let [one] = divergences.as_slice() else { panic!("{name} {seq}: {divergences:?}") };
            assert_eq!((one.seq, one.field.path(), &one.node), (seq, "reason", &node), "{name}");
            found += 1;
        }
    });
    assert!(500 < found, "{found} decisions of {} strategies", strategies::all().len());
}

#[test]
fn a_different_event_is_reported_with_both_events() {
    let (graph, log) = recorded("planner", "dead_server");
    let seq = log.iter().position(|event| matches!(event, Event::Abandoned(_))).unwrap();
    let mut then = log[..seq].to_vec();
    let (node, reason) = ("equip".to_owned(), "the server is dead".to_owned());
    then.push(shared::Failed { node, reason, worker: None }.into());
    let found = replay(graph, &then).unwrap();
    let [one] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.node.as_str(), one.field.path()), ("equip", "event"));
    assert!(one.then.starts_with("failed") && one.today.trim_start().starts_with("abandoned"), "{one:?}");
    assert_eq!(serde_json::to_value(one).unwrap()["field"], Value::from("event"));
}
