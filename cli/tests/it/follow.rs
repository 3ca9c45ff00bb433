//! Following a turn prints each event once, as text, as one JSON document or as JSON lines.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::{engine::turnfold, openai_clients::Dev};

fn run(dev: &Dev, args: &[&str]) -> (i32, String, String) {
    let output = turnfold(dev.folder()).args(["--url", &dev.url]).args(args).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code().unwrap(), out, err)
}

const SEND: [&str; 5] = ["turn", "send", "-g", "probe", "--follow"];

#[test]
fn a_delayed_turn_is_followed_to_its_end() {
    let dev = Dev::start();
    let began = Instant::now();
    let sent = run(&dev, &[&SEND[..], &["echo at last", "--delay", "3s"]].concat());
    assert!(sent.0 == 0 && began.elapsed() >= Duration::from_secs(2), "{sent:?}");
    assert!(sent.1.contains("at last"), "{sent:?}");
    assert_eq!(sent.1, run(&dev, &["thread", "events", "last"]).1, "the followed events equal the log");
    assert!(sent.2.contains("does not start before 20"), "it prints until when it waits: {sent:?}");

    // Events of the thread in between are printed too, each once.
    let thread: Value =
        serde_json::from_str(&run(&dev, &["thread", "show", "last", "-o", "json"]).1).unwrap();
    let thread = thread["id"].as_str().unwrap();
    let follow = ["turn", "send", "--thread", thread, "--follow", "--delay", "3s", "fail on purpose"];
    let sent = run(&dev, &follow);
    assert_eq!(sent.0, 1, "the turn failed: {sent:?}");
    let all = run(&dev, &["thread", "events", thread]).1;
    assert!(!sent.1.is_empty() && all.ends_with(&sent.1), "{sent:?} of {all}");
    // An ended turn is not waited for, even when it is requested again.
    let key = ["--idempotency-key", "one", "--not-before", "2020-01-01T00:00:00Z", "echo hi"];
    for _ in 0..2 {
        let sent = run(&dev, &[&SEND[..], &key].concat());
        assert!(sent.0 == 0 && !sent.2.contains("does not start before"), "{sent:?}");
    }
}

#[test]
fn a_turn_is_followed_as_json_and_jsonl() {
    let dev = Dev::start();
    let sent = run(&dev, &[&SEND[..], &["echo hello", "-o", "json"]].concat());
    let printed: Value = serde_json::from_str(&sent.1).unwrap_or_else(|_| panic!("one document: {sent:?}"));
    let logged = run(&dev, &["thread", "events", "last", "-o", "json"]).1;
    assert_eq!(printed, serde_json::from_str::<Value>(&logged).unwrap());

    let sent = run(&dev, &[&SEND[..], &["echo hello", "-o", "jsonl"]].concat());
    let printed: Vec<Value> = sent.1.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let logged = run(&dev, &["thread", "events", "last", "-o", "jsonl"]).1;
    assert_eq!(
        printed,
        logged.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    );

    let watched = run(&dev, &["inbox", "list", "--watch", "-o", "json"]);
    assert!(watched.0 == 2 && watched.2.contains("-o jsonl"), "{watched:?}");
}
