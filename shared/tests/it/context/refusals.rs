//! Refusals that do not say, or say wrongly, that a request is too large.

use serde_json::json;
use shared::{
    Attachment, AttachmentKind, ContextSettings, Event, FaultKind, Message, Next, Oversize, Policy, RunStatus,
};

use super::{
    running_thread::{RunningThread, long_thread, opened, small, window_of},
    simulated::Simulated,
};

/// Runs `turns` turns that all end, each with this many pictures of the person.
fn pictures(endpoint: &mut Simulated, running: &mut RunningThread, turns: usize, each: usize) {
    for turn in 0..turns {
        let picture = |nth: usize| Attachment {
            kind: AttachmentKind::Image,
            media_type: "image/png".to_owned(),
            name: String::new(),
            sha256: format!("{turn}-{nth}"),
            bytes: 1_000,
        };
        let message = Message { attachments: (0..each).map(picture).collect(), ..Message::user("Look.") };
        assert_eq!(running.send(endpoint, vec![message]), RunStatus::Idle, "turn {turn}");
    }
    running.check();
}

fn refusals_of(running: &RunningThread) -> Vec<(Option<u64>, Option<u64>, bool)> {
    let limits = |event: &Event| match event {
        Event::AttemptFailed(failed) => {
            Some((failed.context_tokens, failed.attachments_max, failed.is_trial))
        }
        _ => None,
    };
    running.log.iter().filter_map(limits).collect()
}

#[test]
fn a_longer_request_than_any_before_is_tried_shorter_whatever_its_refusal_says() {
    for sign in [Oversize::Status, Oversize::Unknown] {
        let mut endpoint = Simulated { refusal: FaultKind::Oversized(sign), ..Simulated::default() };
        let mut running = RunningThread::open(opened(ContextSettings::default(), small()));
        long_thread(&mut endpoint, &mut running, 60);
        running.check();
        let refusals = refusals_of(&running);
        assert!((1..=3).contains(&refusals.len()), "{sign:?}: {refusals:?}");
        assert!(refusals.iter().all(|(tokens, _, is_trial)| tokens.is_some() && *is_trial), "{refusals:?}");
    }
}

/// An endpoint that refuses everything for another reason is sent one shorter request, and nothing is learned.
#[test]
fn a_refusal_for_another_reason_is_reported_and_teaches_nothing() {
    let mut endpoint = Simulated {
        window: 200_000,
        refusal: FaultKind::Oversized(Oversize::Unknown),
        ..Simulated::default()
    };
    let mut running = RunningThread::open(opened(ContextSettings::default(), small()));
    long_thread(&mut endpoint, &mut running, 12);
    // The summary is written, and the node's own requests are refused.
    endpoint.refuses_node = Some("plan");
    let own = "A longer message than all before. ".repeat(40);
    let RunStatus::Failed { reason, .. } = running.send(&mut endpoint, vec![Message::user(own.clone())])
    else {
        panic!("it is refused")
    };
    assert!(reason.starts_with("too long"), "{reason}");
    assert_eq!(endpoint.refusals, 2, "one shorter try: {:?}", refusals_of(&running));
    assert_eq!(refusals_of(&running)[1], (None, None, false));
    endpoint.refuses_node = None;
    endpoint.received.clear();
    running.ask(&mut endpoint, "Once more");
    running.check();
    let (_, plan, _) = &endpoint.received[0];
    assert!(plan[0].content.starts_with("Turn 0: "), "the whole conversation is sent: {:?}", plan[0]);
}

/// A short request is never refused for its size.
#[test]
fn a_short_request_is_not_tried_again() {
    let mut endpoint = Simulated {
        refuses_node: Some("plan"),
        refusal: FaultKind::Oversized(Oversize::Unknown),
        ..Simulated::default()
    };
    let mut running = RunningThread::open(opened(ContextSettings::default(), small()));
    let status = running.send(&mut endpoint, vec![Message::user("Read the notes")]);
    assert!(matches!(status, RunStatus::Failed { .. }), "{status:?}");
    assert_eq!(endpoint.refusals, 1);
}

/// A number in an error that is no window: prompt and tools alone take more.
#[test]
fn a_window_below_prompt_and_tools_is_not_learned() {
    let named = FaultKind::ContextExceeded { context_tokens: Some(300) };
    let mut endpoint = Simulated { refusal: named, ..Simulated::default() };
    let mut running = RunningThread::open(opened(ContextSettings::default(), small()));
    long_thread(&mut endpoint, &mut running, 40);
    running.check();
    assert!(refusals_of(&running).iter().all(|(tokens, ..)| tokens.is_some_and(|tokens| 800 < tokens)));
}

#[test]
fn a_window_over_the_configured_one_is_not_learned() {
    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    let started = running.thread.accept_message(
        uuid::Uuid::nil(),
        "",
        "",
        Policy::Auto,
        vec![Message::user("Read the notes")],
    );
    running.push(started.unwrap());
    let Next::Append(asked) = running.thread.next().unwrap() else { panic!("nothing is asked") };
    running.push(asked);
    let failed = json!({"event": "attempt_failed", "slot": 0, "error": "too long", "retry_after_ms": 0, "context_tokens": 100_000});
    running.push(serde_json::from_value(failed).unwrap());
    running.run(&mut endpoint);
    long_thread(&mut endpoint, &mut running, 60);
    assert_eq!(endpoint.refusals, 0, "requests stay within the configured window");
}

#[test]
fn an_endpoint_that_takes_few_pictures_gets_the_newest() {
    for (refusal, most) in [
        (FaultKind::Oversized(Oversize::Attachments { max: Some(5) }), 5),
        (FaultKind::Oversized(Oversize::Attachments { max: None }), 3),
        (FaultKind::Oversized(Oversize::Status), 3),
        (FaultKind::Oversized(Oversize::Unknown), 3),
    ] {
        let mut endpoint = Simulated { window: 1_000_000, attachments: 5, refusal, ..Simulated::default() };
        let mut running = RunningThread::open(opened(ContextSettings::default(), small()));
        pictures(&mut endpoint, &mut running, 8, 2);
        assert_eq!(endpoint.refusals, 1, "{refusal:?}: {:?}", refusals_of(&running));
        let (_, last, _) = endpoint.received.last().unwrap();
        let shown: Vec<&str> =
            last.iter().flat_map(|it| &it.attachments).map(|it| it.sha256.as_str()).collect();
        assert_eq!((shown.len(), shown.last()), (most, Some(&"7-1")), "{refusal:?}");
        let note = "[Images and files that are not shown here: 2]";
        assert!(last[0].content.ends_with(note), "{:?}", last[0]);
    }
}

#[test]
fn a_window_full_of_pictures_loses_those_of_earlier_turns_first() {
    let mut endpoint = Simulated { attachments: 6, ..Simulated::default() };
    let mut running = RunningThread::open(opened(window_of(16_000), small()));
    pictures(&mut endpoint, &mut running, 12, 3);
    assert_eq!((endpoint.refusals, running.summaries()), (0, vec![]), "no text is given up for them");
}

/// A turn that starts after an operator had the model forgotten is sent whole again.
#[test]
fn a_forgotten_window_is_learned_anew() {
    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(ContextSettings::default(), small()));
    long_thread(&mut endpoint, &mut running, 60);
    let before = refusals_of(&running).len();
    let now = std::collections::BTreeMap::from([("local/small".to_owned(), "2026".to_owned())]);
    let models = running.thread.models_to_forget(&now);
    assert_eq!(models, ["local/small"]);
    let messages = vec![Message::user("Read the notes")];
    let mut started =
        running.thread.accept_message(uuid::Uuid::nil(), "", "", Policy::Auto, messages).unwrap();
    let Event::TurnStarted(start) = &mut started else { panic!("no turn starts") };
    start.forgotten_models = models;
    running.push(started);
    assert!(running.thread.models_to_forget(&now).is_empty(), "it is forgotten");
    running.run(&mut endpoint);
    assert!(before < refusals_of(&running).len(), "the request was not sent whole");
    running.check();
}
