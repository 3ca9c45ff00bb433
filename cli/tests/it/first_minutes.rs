//! What a newcomer does first: the demo, an engine, a turn, a look at its log.

use std::{fs, time::Duration};

use serde_json::Value;
use testing::free_port;

use crate::engine::{Process, log, turnfold};

#[test]
fn the_demo_is_clean() {
    let folder = tempfile::tempdir().unwrap();
    let output = turnfold(folder.path()).args(["demo", "-o", "json"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}\n{}", String::from_utf8_lossy(&output.stdout));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["findings"], serde_json::json!([]));
    assert!(report["turns"]["completed"].as_u64().unwrap() >= 200, "{report}");
    assert_eq!(report["unanswered"], serde_json::json!([]));
    let strategies = report["strategies"].as_object().unwrap();
    let all: Vec<&str> = shared::strategies::all().iter().map(|it| it.name()).collect();
    for name in all {
        let fared = &strategies[name];
        assert!(
            fared["turns"].as_u64() > Some(0) && fared["turns"] == fared["ended_well"],
            "{name}: {report}"
        );
    }
    assert!(report["under_way_at_kill"].as_u64().unwrap() > 0, "nothing was under way at the kill: {report}");
    assert!(
        report["writes"].as_u64().unwrap() > 150 && report["writes"] == report["writes_once"],
        "{report}"
    );
    assert!(told.contains("scripted model"), "a scripted model is never chosen silently: {told}");
}

#[test]
fn an_engine_a_turn_and_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{listen}");
    let mut command = turnfold(folder.path());
    let mut dev =
        Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder.path(), "dev")));
    let run = |args: &[&str]| {
        let output = turnfold(folder.path()).args(["--url", &url]).args(args).output().unwrap();
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        (output.status.code().unwrap(), out, err)
    };
    let mut sent = run(&["turn", "send", "-g", "probe", "stream hello there; echo bye", "--follow"]);
    for _ in 0..200 {
        if sent.0 != 4 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        sent = run(&["turn", "send", "-g", "probe", "stream hello there; echo bye", "--follow"]);
    }
    assert_eq!(sent.0, 0, "{sent:?}");
    let (_, events, _) = run(&["thread", "events", "last"]);
    assert_eq!(sent.1, events, "what was followed is what the log says");
    assert!(
        events.contains("opened     probe") && events.contains("said assistant: “hello there”"),
        "{events}"
    );

    let asked = run(&["turn", "send", "-g", "probe", "ask Which colour? | red | green", "--wait"]);
    assert_eq!(asked.0, 3, "a person is waited for: {asked:?}");
    assert!(asked.1.contains("2. green") && asked.1.contains("--thread"), "{}", asked.1);
    let thread = asked.1.split("--thread ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let answered = run(&["turn", "send", "--thread", &thread, "green", "--wait"]);
    assert_eq!((answered.0, answered.1.trim()), (0, "Done: heard \"green\"."), "{answered:?}");
    assert_eq!(run(&["thread", "verify", &thread]).0, 0);
    assert_eq!(run(&["thread", "replay", &thread]).0, 0);
    let (_, state, _) = run(&["thread", "state", &thread, "--at", "4", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&state).unwrap()["seq"], 4);

    let failed = run(&["turn", "send", "-g", "probe", "fail out of paper; echo printed", "--wait"]);
    assert_eq!(failed.0, 1, "{failed:?}");
    let turn = failed.1.split("turn retry ").nth(1).unwrap().trim_end_matches([')', '\n']).to_owned();
    assert_eq!(run(&["turn", "retry", &turn]).0, 0);
    let unknown = run(&["turn", "send", "-g", "plannner", "hello"]);
    assert_eq!(unknown.0, 2, "{unknown:?}");
    assert!(unknown.2.contains("planner") && unknown.2.contains("probe"), "{}", unknown.2);

    let keyless = run(&["turn", "send", "hello", "--wait"]);
    assert_eq!(keyless.0, 1, "{keyless:?}");
    assert!(keyless.1.contains("OPENAI_API_KEY"), "{}", keyless.1);

    let id = dev.id().to_string();
    assert!(
        std::process::Command::new("sh")
            .args(["-c", &format!("kill -TERM {id}")])
            .status()
            .unwrap()
            .success()
    );
    assert!(dev.wait().success(), "{}", fs::read_to_string(folder.path().join("dev.log")).unwrap());
}
