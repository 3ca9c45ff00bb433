//! Summaries of a conversation, of a turn and by another model.

use serde_json::json;
use shared::{Event, Message, Next, Policy, Request, Response, Role, RunStatus, SUMMARISE_NODE};

use super::{
    running_thread::{RunningThread, assert_paired, long_thread, opened, planner, small, window_of},
    simulated::Simulated,
};

/// A client may send a whole conversation as one turn. The last message is the person's own, and the rest is summarised.
#[test]
fn a_conversation_that_arrives_in_one_turn_is_summarised_too() {
    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    let mut messages = vec![Message::new(Role::System, "Answer in verse.")];
    for nth in 0..100 {
        messages.push(Message::user(format!("Question {nth} {}", "with more words ".repeat(20))));
        messages.push(Message::assistant("An answer of some length. ".repeat(10)));
    }
    messages.push(Message::user("The last question"));
    assert_eq!(running.send(&mut endpoint, messages), RunStatus::Idle);
    running.check();
    assert!(!running.summaries().is_empty());
    let (_, respond, _) = endpoint.received.last().unwrap();
    let all: Vec<&str> = respond.iter().map(|message| message.content.as_str()).collect();
    assert!(all[0].starts_with("[Summary of the "), "{all:?}");
    assert!(all.contains(&"Answer in verse.") && all.contains(&"The last question"), "{all:?}");
    assert!(!all.iter().any(|text| text.starts_with("Question 0 ")), "{all:?}");
}

/// A turn of many calls is summarised between them, and keeps the person's own message.
#[test]
fn a_turn_that_is_longer_than_the_window_is_summarised_between_its_calls() {
    let rounds = (0..50).map(|nth| json!({"path": format!("{nth}.txt")})).collect();
    let mut endpoint = Simulated { rounds, result: 2_000, ..Simulated::default() };
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    running.ask(&mut endpoint, "Read fifty files");
    running.check();
    assert!(1 < running.summaries().len());
    for (node, messages, _) in &endpoint.received {
        assert_paired(messages);
        let own = messages.iter().any(|message| message.content == "Read fifty files");
        assert!(own || node == "assess" || node == SUMMARISE_NODE, "{node}");
    }
}

/// An empty summary is asked for again, and accepted in the end.
#[test]
fn a_model_that_writes_no_summary_does_not_block_the_thread() {
    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    let mut empty = 0;
    for turn in 0..30 {
        let text = format!("Turn {turn} {}", "and more words for it ".repeat(20));
        let event = running
            .thread
            .accept_message(uuid::Uuid::nil(), "", "", Policy::Auto, vec![Message::user(text)])
            .unwrap();
        running.push(event);
        loop {
            match running.thread.next().unwrap() {
                Next::Append(event) => running.push(event),
                Next::Wait => break,
                Next::Perform(due) => {
                    for attempt in due {
                        let mut outcome = endpoint.answer(&*running.thread, &attempt);
                        if running.thread.node().as_deref() == Some(SUMMARISE_NODE)
                            && let Ok((Response::Reply(reply), _)) = &mut outcome
                        {
                            empty += 1;
                            reply.content = " \n".to_owned();
                        }
                        let event = running.thread.receive(attempt.slot, outcome, 0);
                        running.push(event);
                    }
                }
            }
        }
        assert_eq!(running.thread.status(), RunStatus::Idle);
    }
    running.check();
    assert_eq!(empty, running.summaries().len() * 4);
    assert!(
        endpoint
            .received
            .iter()
            .any(|(_, messages, _)| messages[0].content.ends_with("before this one are not shown.]"))
    );
}

/// The engine's own node is configured like any other.
#[test]
fn the_summary_has_a_model_and_a_prompt_of_its_own() {
    let node =
        json!({"model": "local/terse", "prompt": "{prompt}\nIn German, {words} words.", "max_tokens": 300});
    let mut config = small();
    config["nodes"] = json!({ SUMMARISE_NODE: node });
    planner().check_config(&config).unwrap();
    let unknown = json!({"nodes": {SUMMARISE_NODE: {"prompt": "{plan}"}}});
    let refused = planner().check_config(&unknown).unwrap_err().to_string();
    assert!(refused.contains("nodes.engine.summarise.prompt") && refused.contains("plan"), "{refused}");

    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), config));
    long_thread(&mut endpoint, &mut running, 30);
    running.check();
    let asked = running
        .log
        .iter()
        .filter_map(|event| if let Event::Asked(asked) = event { Some(asked) } else { None });
    let summaries: Vec<&Request> =
        asked.filter(|asked| asked.node == SUMMARISE_NODE).map(|asked| &asked.requests[0]).collect();
    assert!(!summaries.is_empty());
    for request in summaries {
        let Request::Chat { model, system, prompt, parameters, .. } = request else { panic!("{request:?}") };
        let own = node["prompt"].as_str().unwrap();
        assert_eq!((model.as_str(), *prompt == Some(shared::prompt_hash(own))), ("local/terse", true));
        assert!(system.contains("In German, ") && !system.contains('{'), "{system}");
        assert_eq!(parameters.as_ref().unwrap().max_tokens, Some(300));
    }
}
