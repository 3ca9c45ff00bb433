//! The log names the user of the command line.

use serde_json::{Value, json};

use crate::{engine::turnfold, openai_clients::Dev};

fn run(dev: &Dev, user: &str, args: &[&str]) -> (i32, Value) {
    let mut command = turnfold(dev.folder());
    let command = command.env("USER", user).args(["--url", &dev.url, "-o", "json"]).args(args);
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::String(printed)))
}

/// Sends a turn that asks a question. Returns the turn and its thread.
fn send_question(dev: &Dev, user: &str) -> (String, String) {
    let (exit, turn) = run(dev, user, &["turn", "send", "-g", "probe", "ask Which? | red | green", "--wait"]);
    assert_eq!(exit, 3, "{turn}");
    let of = |name: &str| turn[name].as_str().unwrap().to_owned();
    (of("id"), of("thread_id"))
}

/// Returns the actors of all events of a kind.
fn actors(dev: &Dev, thread: &str, kind: &str) -> Vec<Value> {
    let (exit, events) = run(dev, "somebody", &["thread", "events", thread]);
    assert_eq!(exit, 0, "{events}");
    let of_kind = events.as_array().unwrap().iter().filter(|event| event["kind"] == kind);
    of_kind.map(|event| event["event"]["actor"].clone()).collect()
}

#[test]
fn the_log_names_the_user() {
    let dev = Dev::start();
    let (_, thread) = send_question(&dev, "ada");
    let (exit, answered) = run(&dev, "Zoë Ångström", &["inbox", "answer", &thread, "2", "--wait"]);
    assert_eq!(exit, 0, "{answered}");
    assert_eq!(actors(&dev, &thread, "turn_started"), [json!("ada"), json!("Zoë Ångström")]);

    let (turn, thread) = send_question(&dev, "ada");
    let (exit, cancelled) = run(&dev, "grace", &["turn", "cancel", &turn]);
    assert_eq!(exit, 0, "{cancelled}");
    assert_eq!(actors(&dev, &thread, "cancelled"), [json!("grace")]);

    let (turn, thread) = send_question(&dev, &"long".repeat(100));
    assert_eq!(
        actors(&dev, &thread, "turn_started"),
        [json!("long".repeat(50))],
        "cut to the length that the API takes"
    );
    assert_eq!(run(&dev, "\n", &["turn", "show", &turn]).0, 0, "a user without a name may read");

    let (exit, paused) = run(&dev, "Zoë", &["queue", "pause", "--strategy", "probe"]);
    assert_eq!((exit, &paused["by"]), (0, &json!("Zoë")), "{paused}");
}
