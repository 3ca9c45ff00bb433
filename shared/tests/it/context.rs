//! Threads that are longer than the context window of their model.
//!
//! A simulated endpoint counts what it receives, one token per four bytes, and refuses a request that has more than its
//! window, as a real one does. `TURNFOLD_CONTEXT_TURNS=2000` sets the length of the long threads.

mod refusals;
mod running_thread;
mod simulated;
mod summaries;

use serde_json::json;
use shared::{
    ContextSettings, Event, FaultKind, Message, Next, Policy, Request, Response, Role, RunStatus, ToolCall,
};

use self::{
    running_thread::{RunningThread, long_thread, opened, small, window_of},
    simulated::Simulated,
};

fn turns(default: usize) -> usize {
    std::env::var("TURNFOLD_CONTEXT_TURNS").ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn mean(tokens: &[u64]) -> u64 {
    tokens.iter().sum::<u64>() / tokens.len() as u64
}

#[test]
#[expect(clippy::print_stdout, reason = "the figure is the result of the test")]
fn a_long_thread_stays_within_a_small_window_and_its_turns_cost_the_same() {
    let turns = turns(120);
    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    let tokens = long_thread(&mut endpoint, &mut running, turns);
    assert_eq!(endpoint.refusals, 0, "the endpoint refuses no request that was counted before");
    running.check();
    let tenth = turns / 10;
    let (early, late) = (mean(&tokens[2 * tenth..4 * tenth]), mean(&tokens[turns - 2 * tenth..]));
    println!(
        "{turns} turns, {} summaries, {} messages",
        running.summaries().len(),
        running.thread.messages().len()
    );
    println!("tokens of a turn: {early} early, {late} late, {} at most", tokens.iter().max().unwrap());
    assert!(late <= early * 11 / 10 && early <= late * 11 / 10, "{early} early and {late} late");
    assert!(
        turns / 40 < running.summaries().len() && running.summaries().len() < turns / 3,
        "{:?}",
        running.summaries()
    );
}

#[test]
#[expect(clippy::print_stdout, reason = "the figure is the result of the test")]
fn a_result_of_900_000_characters_is_shown_shortened_and_can_be_read_on() {
    let turns = turns(30);
    let mut endpoint = Simulated {
        rounds: vec![json!({"path": "all.txt"}), json!({"result": 2, "from": 400_000})],
        result: 900_000,
        ..Simulated::default()
    };
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    running.ask(&mut endpoint, "Read it all");
    let results: Vec<&Message> =
        running.thread.messages().iter().filter(|message| message.role == Role::Tool).collect();
    assert_eq!(results[0].content.chars().count(), 900_000, "the log keeps all of it");
    assert!(results[1].content.starts_with("[Characters 400000 to "), "{:.80}", results[1].content);
    let seen = |node: &str, text: &str| {
        endpoint.received.iter().any(|(of, messages, _)| {
            of == node && messages.iter().any(|message| message.content.contains(text))
        })
    };
    assert!(seen(
        "orchestrate",
        "of 900000 characters are left out here. To read on, call read_more with result 2 and from"
    ));
    assert!(seen("orchestrate", "[Characters 400000 to "));
    assert!(
        seen("respond", "characters are left out here.]") && !seen("respond", "To read on"),
        "it has no tools"
    );
    assert!(!running.log.iter().any(|event| matches!(event, Event::Answered(answered) if matches!(&answered.response, Response::Output(output) if output.model_text().starts_with("[Characters")))), "no copy in the log");
    endpoint.rounds = vec![json!({"path": "notes.txt"})];
    endpoint.received.clear();
    let tokens = long_thread(&mut endpoint, &mut running, turns);
    assert_eq!(endpoint.refusals, 0);
    running.check();
    println!("tokens of a turn with a result of 900,000 characters: {} on average", mean(&tokens));
}

/// A model of unknown size works until it refuses, and from then on within its window.
#[test]
fn a_refusal_makes_the_window_known() {
    for names_window in [true, false] {
        let context_tokens = names_window.then_some(8_000);
        let refusal = FaultKind::ContextExceeded { context_tokens };
        let mut endpoint = Simulated { refusal, ..Simulated::default() };
        let mut running = RunningThread::open(opened(ContextSettings::default(), small()));
        long_thread(&mut endpoint, &mut running, 60);
        running.check();
        assert!((1..=3).contains(&endpoint.refusals), "{} refusals, named {names_window}", endpoint.refusals);
        let learned: Vec<u64> = running
            .log
            .iter()
            .filter_map(
                |event| if let Event::AttemptFailed(failed) = event { failed.context_tokens } else { None },
            )
            .collect();
        assert!(!names_window || learned == [8_000], "{learned:?}");
        assert!(learned.is_sorted_by(|one, next| next < one), "{learned:?}");
    }
}

/// An endpoint that counts twice as many tokens as estimated teaches it too.
#[test]
fn an_estimate_that_is_too_low_is_corrected() {
    let refusal = FaultKind::ContextExceeded { context_tokens: Some(2_500) };
    let mut endpoint = Simulated { window: 2_500, refusal, ..Simulated::default() };
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    long_thread(&mut endpoint, &mut running, 40);
    running.check();
    assert!((1..=4).contains(&endpoint.refusals), "{}", endpoint.refusals);
}

#[test]
fn a_message_that_cannot_fit_fails_with_a_way_out_and_the_next_turn_goes_on() {
    let mut endpoint = Simulated::default();
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    running.ask(&mut endpoint, "Read the notes");
    let from = running.log.len();
    let huge = "many words of a person who pastes a whole book ".repeat(2_000);
    let status = running.send(&mut endpoint, vec![Message::user(huge.clone())]);
    let RunStatus::Failed { node, reason } = status else { panic!("{status:?}") };
    assert_eq!(node, "plan");
    assert!(
        reason.contains("takes 8000 tokens") && reason.contains("hint: send a shorter message"),
        "{reason}"
    );
    assert!(!reason.contains("say something new"), "{reason}");
    assert_eq!(running.log.len(), from + 2, "nothing is asked: {:#?}", &running.log[from..].len());
    assert_eq!(endpoint.refusals, 0);

    running.push(serde_json::from_value(json!({"event": "retried"})).unwrap());
    assert!(
        matches!(running.thread.next().unwrap(), Next::Append(Event::Failed(_))),
        "a retry comes to the same"
    );
    let Next::Append(failed) = running.thread.next().unwrap() else { panic!() };
    running.push(failed);

    running.ask(&mut endpoint, "Read the notes again");
    assert!(
        !endpoint
            .received
            .iter()
            .any(|(_, messages, _)| messages.iter().any(|message| message.content == huge))
    );
    running.check();
}

/// Many results of one message cannot be summarised before they are read, so each is shown shorter.
#[test]
fn results_of_one_message_are_shortened_until_all_fit() {
    struct Many(Simulated);
    let mut endpoint = Many(Simulated { result: 20_000, ..Simulated::default() });
    let mut running = RunningThread::open(opened(window_of(8_000), small()));
    let event = running
        .thread
        .accept_message(uuid::Uuid::nil(), "", "", Policy::Auto, vec![Message::user("All")])
        .unwrap();
    running.push(event);
    let status = loop {
        match running.thread.next().unwrap() {
            Next::Append(event) => running.push(event),
            Next::Wait => break running.thread.status(),
            Next::Perform(due) => {
                for attempt in due {
                    let mut outcome = endpoint.0.answer(&*running.thread, &attempt);
                    if let Ok((Response::Reply(reply), _)) = &mut outcome
                        && let Some(call) = reply.tool_calls.first().cloned()
                    {
                        let one = |nth| ToolCall {
                            id: format!("{}_{nth}", call.id),
                            arguments: json!({"path": nth}),
                            ..call.clone()
                        };
                        reply.tool_calls = (0..16).map(one).collect();
                    }
                    let event = running.thread.receive(attempt.slot, outcome, 0);
                    running.push(event);
                }
            }
        }
    };
    assert_eq!(status, RunStatus::Idle);
    running.check();
    let shown = |event: &Event| match event {
        Event::Asked(asked) => asked.requests.iter().find_map(|request| {
            if let Request::Chat { tool_result_tokens, .. } = request { *tool_result_tokens } else { None }
        }),
        _ => None,
    };
    let shown: Vec<u64> = running.log.iter().filter_map(shown).collect();
    assert!(!shown.is_empty() && shown.iter().all(|bytes| *bytes < 1_000), "{shown:?}");
    assert_eq!(endpoint.0.refusals, 0);
}

/// A thread whose requests fit is asked for exactly what it was before.
#[test]
fn a_conversation_that_fits_is_not_changed() {
    for context in [ContextSettings::default(), window_of(200_000)] {
        let mut endpoint = Simulated { window: 200_000, ..Simulated::default() };
        let mut running = RunningThread::open(opened(context, small()));
        long_thread(&mut endpoint, &mut running, 5);
        for event in &running.log {
            let Event::Asked(asked) = event else { continue };
            for request in &asked.requests {
                let payload = serde_json::to_value(request).unwrap();
                assert!(payload.get("summarised").is_none() && payload.get("tool_result_tokens").is_none());
            }
        }
        assert!(running.summaries().is_empty());
    }
}
