//! Replay reports each difference between the current code and a log: the event, the node and the field.

use serde_json::{Value, json};
use shared::{
    Decided, Divergence, DivergenceCounts, Event, Field, Graph, Request, Response, SHORT_HASH_LENGTH,
    prompt_hash, replay, rerun, template_hash,
};

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

/// Applies `change` to the name of the prompt and to the hash of what is offered, in every request to a model.
fn with_hashes(log: &[Event], change: impl Fn(&mut Option<String>, &mut Option<String>)) -> Vec<Event> {
    let mut log = log.to_vec();
    for event in &mut log {
        let Event::Asked(asked) = event else { continue };
        for request in &mut asked.requests {
            if let Request::Chat { prompt, offered, .. } = request {
                change(prompt, offered);
            }
        }
    }
    log
}

#[test]
fn a_log_of_a_version_without_hashes_is_compared_without_them() {
    let mut asked = 0;
    each_fixture(|graph, name, script| {
        let log = rerun(graph, &script).unwrap().log;
        let older = with_hashes(&log, |prompt, offered| {
            prompt.take_if(|name| name.len() == SHORT_HASH_LENGTH);
            *offered = None;
        });
        asked += log.iter().zip(&older).filter(|(log, older)| log != older).count();
        assert_eq!(replay(graph, &older).unwrap(), [], "{name}");
    });
    assert!(100 < asked, "{asked}");
}

#[test]
fn another_template_and_another_description_are_differences_in_words() {
    let (graph, log) = recorded("planner", "two_tasks");
    let found = |change: &dyn Fn(&mut Option<String>, &mut Option<String>)| {
        let found = replay(graph, &with_hashes(&log, change)).unwrap();
        let mut counts = DivergenceCounts::default();
        found.iter().for_each(|divergence| counts.add(&divergence.field));
        (found[0].clone(), counts)
    };
    let older = template_hash("an older template");
    let (first, counts) = found(&|prompt, _| *prompt = Some(older.clone()));
    assert_eq!((first.field, &first.then), (Field::Prompt("requests.0.prompt".to_owned()), &older));
    assert!(counts.reworded > 3 && counts.diverged == 0 && counts.is_same(false) && !counts.is_same(true));
    let (first, counts) = found(&|_, offered| *offered = offered.as_ref().map(|_| older.clone()));
    assert_eq!((first.field, &first.then), (Field::Offer("requests.0.offered".to_owned()), &older));
    assert!(counts.redescribed > 3 && counts.diverged == 0 && counts.is_same(false) && !counts.is_same(true));
    // A configured prompt is another request.
    let (first, counts) = found(&|prompt, _| *prompt = Some(prompt_hash("a configured prompt")));
    assert_eq!(first.field, Field::Request("requests.0.prompt".to_owned()));
    assert!(counts.diverged > 3 && counts.reworded == 0);
}

/// The hash covers what a model sees of a tool, and nothing else.
#[test]
fn a_tool_that_is_described_differently_changes_the_hash_of_its_requests() {
    let offers = |change: &dyn Fn(&mut shared::Tool)| -> Vec<(String, Option<String>)> {
        let (graph, mut log) = recorded("planner", "two_tasks");
        for event in &mut log {
            if let Event::Answered(answered) = event
                && let Response::Tools { tools } = &mut answered.response
            {
                tools.iter_mut().for_each(change);
            }
        }
        let asked = |event| if let Event::Asked(asked) = event { Some(asked) } else { None };
        let offer = |asked: shared::Asked| match asked.requests.into_iter().next() {
            Some(Request::Chat { offered, .. }) => Some((asked.node, offered)),
            _ => None,
        };
        rerun(graph, &log).unwrap().log.into_iter().filter_map(asked).filter_map(offer).collect()
    };
    let before = offers(&|_| ());
    let differing = |after: Vec<(String, Option<String>)>| -> Vec<String> {
        assert_eq!(before.len(), after.len());
        let differing = before.iter().zip(after).filter(|(before, after)| **before != *after);
        differing.map(|((node, _), _)| node.clone()).collect()
    };
    let described = differing(offers(&|tool| tool.description.push('!')));
    assert!(!described.is_empty() && described.iter().all(|node| node == "orchestrate"), "{described:?}");
    let schemas = differing(offers(&|tool| tool.parameters["title"] = json!("Another schema")));
    assert_eq!(schemas, described);
    assert_eq!(differing(offers(&|tool| tool.max_repeats = Some(7))), [""; 0]);
    assert!(before.iter().all(|(node, offered)| offered.is_some() != (node == "respond")), "{before:?}");
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
