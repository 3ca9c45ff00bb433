//! Delays before failed attempts are repeated.

use shared::{Event, Fault, FaultKind, Next, Response};

#[test]
fn no_pause_that_is_named_is_shorter_than_the_one_that_grows() {
    let probe = strategies::all().into_iter().find(|it| it.name() == "probe").unwrap();
    let mut thread = probe.begin();
    let fixture = include_str!("../../../fixtures/probe/flaky_then_succeeds.jsonl");
    for line in fixture.lines().take(2) {
        thread.apply(&serde_json::from_str(line).unwrap()).unwrap();
    }
    while let Next::Append(event) = thread.next().unwrap() {
        thread.apply(&event).unwrap();
    }
    let pause = |outcome| {
        let event = thread.receive(0, outcome, 500);
        let Event::AttemptFailed(it) = event else { panic!("it faltered, and yet: {event}") };
        it.retry_after_ms
    };
    let fault = |remedy| pause(Err(Fault::new("away", remedy)));
    for (named, is) in [(None, 500), (Some(0), 500), (Some(499), 500), (Some(3_000), 3_000)] {
        assert_eq!(fault(FaultKind::Transient { retry_after_ms: named }), Some(is));
        assert_eq!(fault(FaultKind::InDoubt { retry_after_ms: named }), Some(is));
    }
    assert_eq!(fault(FaultKind::Permanent), None);
    assert_eq!(
        pause(Ok((Response::ToolsUnchanged, None))),
        Some(0),
        "an answer of no use is asked for anew at once"
    );
}
