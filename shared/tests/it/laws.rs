//! Laws of the core that hold for every log.

use std::collections::BTreeSet;

use shared::{
    DynThread, Event, Goto, MessageRejected, Next, Policy, Response, Role, RunStatus, open_calls, rerun,
};

use crate::fixtures::each_fixture;

/// Every event equals itself after encoding and decoding by kind and payload.
#[test]
fn every_event_survives_the_store() {
    let mut kinds = BTreeSet::new();
    each_fixture(|graph, name, script| {
        for event in rerun(graph, &script).unwrap().log {
            let payload = event.payload().unwrap();
            assert_eq!(Event::decode(event.kind(), &payload).unwrap(), event, "{name}");
            kinds.insert(event.kind());
        }
    });
    // Tasks, and calls that outlive their turn, need a world that acts later. A fork needs a stored thread, so the worker's tests
    // fork every fixture. A takeover needs two workers, and a rating an ended turn.
    let missing: Vec<_> = Event::KINDS.iter().filter(|kind| !kinds.contains(*kind)).collect();
    assert_eq!(
        missing,
        [&"task_started", &"write_ended", &"forked", &"taken_over", &"rated"],
        "kinds that no fixture holds"
    );
}

#[test]
fn an_event_of_a_newer_version_is_reported_as_newer() {
    let says = |kind: &str, payload: &str| Event::decode(kind, payload).unwrap_err().to_string();
    assert!(says("teleported", "{}").contains("written by a newer version of turnfold"));
    assert!(says("opened", r#"{"format":2,"strategy":"probe"}"#).contains("format 2"));
    assert!(says("retried", r#"{"actor":"ann","mood":"good"}"#).contains("unknown field `mood`"));
}

/// A decision follows from the answers to all requests of its node, and an input from a question for it.
#[test]
fn what_nothing_waits_for_is_refused() {
    let mut refused = BTreeSet::new();
    each_fixture(|graph, name, script| {
        let log = rerun(graph, &script).unwrap().log;
        let mut thread = graph.begin();
        for (nth, event) in log.iter().enumerate() {
            let next = log[nth..].iter().find(|later| is_decided_by_answers(later));
            let open = matches!(thread.next(), Ok(Next::Perform(_)));
            for early in next.into_iter().filter(|_| open) {
                assert!(thread.apply(early).is_err(), "{name}: event {nth} cannot be {early}");
                refused.insert("decided");
            }
            let input = log.iter().find(|event| matches!(event, Event::InputProvided(_)));
            let is_asked = log[..nth].iter().any(|event| matches!(event, Event::InputRequired(_)));
            for early in input.into_iter().filter(|_| !is_asked) {
                assert!(thread.apply(early).is_err(), "{name}: event {nth} cannot be {early}");
                refused.insert("input");
            }
            thread.apply(event).unwrap();
        }
    });
    assert_eq!(refused.len(), 2, "{refused:?}");
}

fn is_decided_by_answers(event: &Event) -> bool {
    matches!(event, Event::Decided(decided) if decided.budget_exceeded.is_none())
}

/// A model never receives a tool call without its result.
#[test]
fn every_tool_call_has_one_result_before_the_next_message() {
    each_fixture(|graph, name, script| {
        let thread = graph.fold(&rerun(graph, &script).unwrap().log).unwrap();
        let mut open = BTreeSet::new();
        for message in thread.messages() {
            match message.role {
                Role::Tool => {
                    let id = message.tool_call_id.clone().unwrap();
                    assert!(open.remove(&id), "{name}: {id} is answered twice or was never asked");
                }
                Role::System | Role::User | Role::Assistant => assert!(open.is_empty(), "{name}: {open:?}"),
            }
            open.extend(message.tool_calls.iter().map(|call| call.id.clone()));
        }
    });
}

/// A thread that is idle or waits for a person has a reply to read, or calls that its client carries out.
#[test]
fn every_turn_that_ends_or_asks_has_a_reply() {
    each_fixture(|graph, name, script| {
        let log = rerun(graph, &script).unwrap().log;
        let mut thread = graph.begin();
        for event in &log {
            thread.apply(event).unwrap();
            let ended = matches!(event, Event::Decided(_)) && thread.status() != RunStatus::Busy;
            let calls = open_calls(thread.messages());
            let is_of_client = !calls.is_empty()
                && calls.iter().all(|call| thread.reply_options().tool(&call.name).is_some());
            let has_reply = thread.reply().is_some_and(|reply| !reply.is_empty());
            assert!(!ended || has_reply || is_of_client, "{name}: {event}");
        }
    });
}

/// A person who reads an answer while it is written reads the beginning of the answer, unless calls follow it.
#[test]
fn every_preview_is_the_beginning_of_the_answer() {
    let mut previewed = BTreeSet::new();
    each_fixture(|graph, name, script| {
        let log = rerun(graph, &script).unwrap().log;
        let mut thread = graph.begin();
        for (seq, event) in log.iter().enumerate() {
            if let Some(text) = reply(event).filter(|reply| {
                !reply.trim().is_empty() && !calls_tools(event) && thread.preview("").is_some()
            }) {
                let node = thread.node().unwrap();
                let Some(Event::Decided(decided)) = log.get(seq + 1) else {
                    panic!("{name}: {node} decides")
                };
                let previews = text.char_indices().map(|(at, _)| at).chain([text.len()]);
                let previews = previews.map(|at| thread.preview(&text[..at]).unwrap());
                for preview in previews.filter(|preview| !preview.is_empty()) {
                    let answer = decided.messages.last().unwrap();
                    let begins = answer.content.starts_with(&*preview);
                    assert!(begins, "{name}, {node}: {preview:?} does not begin {:?}", answer.content);
                    assert_eq!((answer.role, &decided.to), (Role::Assistant, &Goto::End), "{name}, {node}");
                    previewed.insert(format!("{}.{node}", graph.name()));
                }
            }
            thread.apply(event).unwrap();
        }
    });
    let previewed: Vec<&str> = previewed.iter().map(String::as_str).collect();
    let expected = [
        "action_plan.report",
        "chat.reply",
        "planner.respond",
        "planner_with_prompts.respond",
        "probe.stream",
        "research.finalize_answer",
        "research.planning_agent",
        "retriever.orchestrate",
        "retriever.respond",
    ];
    assert_eq!(previewed, expected);
}

/// Returns true if the event is a reply with calls.
fn calls_tools(event: &Event) -> bool {
    let Event::Answered(answered) = event else { return false };
    matches!(&answered.response, Response::Reply(reply) if !reply.tool_calls.is_empty())
}

/// Returns the text of a reply.
fn reply(event: &Event) -> Option<&str> {
    let Event::Answered(answered) = event else { return None };
    match &answered.response {
        Response::Reply(reply) => Some(&reply.content),
        Response::Echo { text } => Some(text),
        _ => None,
    }
}

#[test]
fn a_message_is_accepted_unless_the_thread_is_busy() {
    let probe = strategies::find("probe").unwrap();
    let script =
        |lines: &str| lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Event>>();
    let accept = |thread: &dyn DynThread, policy| {
        thread
            .accept_message(uuid::Uuid::nil(), "", "", policy, Vec::new())
            .map(|event| event.to_string().trim().to_owned())
    };
    let opened = r#"{"event":"opened","strategy":"probe"}"#;
    let asks = r#"{"event":"turn_started","messages":[{"role":"user","content":"ask Well?"}]}"#;
    let idle = probe.fold(&rerun(probe, &script(opened)).unwrap().log).unwrap();
    assert_eq!(accept(&*idle, Policy::Answer), Err(MessageRejected::NothingAsked));
    assert_eq!(accept(&*idle, Policy::Auto).as_deref(), Ok("turn started"));
    let waiting = probe.fold(&rerun(probe, &script(&format!("{opened}\n{asks}"))).unwrap().log).unwrap();
    assert_eq!(accept(&*waiting, Policy::Auto).as_deref(), Ok("turn started      answer ·"));
    assert_eq!(accept(&*waiting, Policy::Replan).as_deref(), Ok("turn started"));
    let busy = probe.fold(&script(&format!("{opened}\n{asks}"))).unwrap();
    assert_eq!(accept(&*busy, Policy::Auto), Err(MessageRejected::Busy));
}
