//! Replay reports each difference between the current code and a log: the event, the node and the field.

use serde_json::{Value, json};
use shared::{Decided, Divergence, Event, Field, Graph, Request, replay, rerun};

use crate::fixtures::each_fixture;

/// Returns the log that the current code writes for this fixture.
fn lived(strategy: &str, fixture: &str) -> (&'static dyn Graph, Vec<Event>) {
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
    let (graph, mut log) = lived("planner", "two_tasks");
    let seq = log.iter().position(|it| matches!(it, Event::Decided(it) if it.node == node)).unwrap();
    let Event::Decided(decision) = &mut log[seq] else { unreachable!() };
    then(decision);
    // Events after the changed decision may not follow from it, so the log ends there.
    let found = replay(graph, &log[..=seq]).unwrap();
    let [one] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.seq, one.node.as_str()), (seq, node));
    one.clone()
}

#[test]
fn another_route_is_named_before_what_else_differs() {
    let it = decided("assess", |it| {
        it.to = shared::Goto::End;
        it.reason = None;
    });
    assert_eq!((it.field.path(), it.then.as_str(), it.today.as_str()), ("to", "end", "advance"));
}

#[test]
fn what_is_remembered_is_named_by_its_path() {
    let it = decided("plan", |it| {
        let task = it.facts[0].pointer_mut("/planned/tasks/1/task").unwrap();
        *task = json!("something else");
    });
    assert_eq!(it.field, Field::Decision("state.plan.tasks.1.task".to_owned()));
    assert_eq!(it.then, "“something else”");
    assert_ne!(it.today, it.then);
}

#[test]
fn what_is_said_and_why_are_named_last() {
    let it = decided("respond", |it| it.messages[0].content += "!");
    assert_eq!(it.field.path(), "messages.0.content");
    let it = decided("assess", |it| it.reason = Some("the dice".to_owned()));
    assert_eq!((it.field.path(), it.then.as_str()), ("reason", "“the dice”"));
}

#[test]
fn a_prompt_is_named_by_its_line_and_only_if_nothing_else_differs() {
    let (graph, log) = lived("planner", "two_tasks");
    let reworded = |also: fn(&mut Request)| {
        let mut log = log.clone();
        let Some(Event::Asked(asked)) = log.iter_mut().find(|it| matches!(it, Event::Asked(_))) else {
            panic!("nothing is asked")
        };
        let Request::Chat { system, .. } = &mut asked.requests[0] else { panic!("no prompt") };
        let third = system.lines().nth(2).unwrap().to_owned();
        *system = system.replacen(&third, "Mumble.", 1);
        also(&mut asked.requests[0]);
        replay(graph, &log).unwrap().remove(0)
    };
    let it = reworded(|_| ());
    assert_eq!(it.field, Field::Prompt("requests.0.system".to_owned()));
    assert_eq!((it.node.as_str(), it.then.as_str()), ("plan", "line 3: “Mumble.”"));
    let it = reworded(|it| {
        let Request::Chat { model, .. } = it else { return };
        *model = "openai/old".to_owned();
    });
    assert_eq!(it.field, Field::Request("requests.0.model".to_owned()));
    assert_eq!(it.then, "“openai/old”");
}

/// A changed decision is reported at its own event and nowhere else, in every strategy.
#[test]
fn every_decision_that_is_changed_is_found() {
    let mut found = 0;
    each_fixture(|graph, name, script| {
        let log = rerun(graph, &script).unwrap().log;
        for seq in 0..log.len() {
            let mut then = log[..=seq].to_vec();
            let Event::Decided(it) = &mut then[seq] else { continue };
            it.reason = Some("because I say so".to_owned());
            let node = it.node.clone();
            let divergences = replay(graph, &then).unwrap();
            let [one] = divergences.as_slice() else { panic!("{name} {seq}: {divergences:?}") };
            assert_eq!((one.seq, one.field.path(), &one.node), (seq, "reason", &node), "{name}");
            found += 1;
        }
    });
    assert!(500 < found, "{found} decisions of {} strategies", strategies::all().len());
}

#[test]
fn where_another_event_would_follow_both_are_told_whole() {
    let (graph, log) = lived("planner", "dead_server");
    let seq = log.iter().position(|it| matches!(it, Event::Abandoned(_))).unwrap();
    let mut then = log[..seq].to_vec();
    let (node, reason) = ("equip".to_owned(), "the server is dead".to_owned());
    then.push(shared::Failed { node, reason, worker: None }.into());
    let found = replay(graph, &then).unwrap();
    let [one] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((one.node.as_str(), one.field.path()), ("equip", "event"));
    assert!(one.then.starts_with("failed") && one.today.trim_start().starts_with("abandoned"), "{one:?}");
    assert_eq!(serde_json::to_value(one).unwrap()["field"], Value::from("event"));
}
