//! An MCP server whose tools change: turns do not use it until an operator approves the change.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};
use test_servers::free_port;

use crate::engine::{Process, TURNFOLD, log, turnfold};

/// Configures one of the bundled servers under a neutral name.
fn configure(folder: &Path, expert: &str) {
    let script = [
        json!({"shape": "PlanReply", "says": {"decision": "replace", "next_task": 0, "clarification": null,
            "plan": [{"expert": "desk", "task": "do it"}]}}),
        json!({"shape": "Assessment", "says": {"is_completed": true, "explanation": "done", "confidence": 1.0}}),
        json!({"system": "at work on one task", "says": "It is done."}),
        json!({"system": "The work stopped before its end: (?<why>.+)\\.", "says": "Not done: {why}"}),
        json!({"system": "You tell the person", "says": "Done."}),
    ];
    let lines: Vec<String> = script.iter().map(Value::to_string).collect();
    fs::write(folder.join("model.jsonl"), lines.join("\n")).unwrap();
    let config = format!(
        "[providers.scripted]\nscript = 'model.jsonl'\n[strategies.planner]\nmodel = 'scripted/test'\n\
         [mcp.desk]\ndescription = 'a desk'\ncommand = {TURNFOLD:?}\nargs = ['expert', '{expert}', '--data', '{expert}.json']\n\
         deny = ['search']\n"
    );
    fs::write(folder.join("turnfold.toml"), config).unwrap();
}

/// Runs one turn in a new engine, which connects to the server again.
fn turn(folder: &Path) -> String {
    let listen = format!("127.0.0.1:{}", free_port());
    let mut command = turnfold(folder);
    let _dev = Process::start(command.args(["dev", "--listen", &listen]).stderr(log(folder, "dev")));
    let url = format!("http://{listen}");
    for _ in 0..200 {
        let (exit, out, _) = run(folder, &["--url", &url, "turn", "send", "do it", "--wait"]);
        if exit != 4 {
            return out;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not ready: {}", fs::read_to_string(folder.join("dev.log")).unwrap());
}

fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let output = turnfold(folder).args(args).env("USER", "ada").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_changed_server_is_blocked_until_it_is_approved() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let pins = |args: &[&str]| run(folder, &[&["mcp", "pins"], args].concat());
    configure(folder, "calendar");
    let first = turn(folder);
    assert!(first.contains("Done."), "{first}");
    let (exit, listed, _) = pins(&["-o", "json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(
        (exit, &listed[0]["server"], &listed[0]["approved_by"]),
        (0, &"desk".into(), &"first use".into())
    );
    assert_eq!(pins(&["diff", "desk"]).0, 0);

    configure(folder, "notes");
    let refused = turn(folder);
    for stderr in ["Not done", "desk", "is new", "is gone", "turnfold mcp pins diff desk"] {
        assert!(refused.contains(stderr), "{stderr:?} in {refused}");
    }
    let (_, _, remark) = run(folder, &["mcp", "tools", "desk"]);
    assert!(remark.contains("these tools differ from the approved ones"), "{remark}");
    let (exit, diff, remark) = pins(&["diff", "desk"]);
    assert!(exit == 1 && diff.contains("list_events is gone") && diff.contains("read is new"), "{diff}");
    assert!(!diff.contains("search is new"), "what is denied is not seen: {diff}");
    let hash = remark.split("--hash ").nth(1).unwrap().split_whitespace().next().unwrap();

    let (exit, _, stderr) = pins(&["approve", "desk", "--hash", "0000"]);
    assert!(exit == 1 && stderr.contains("the tools of desk do not have that hash"), "{stderr}");
    assert_eq!(pins(&["approve", "desk", "--hash", hash]).0, 0);
    assert!(pins(&[]).1.contains("ada"));
    let again = turn(folder);
    assert!(again.contains("Done."), "{again}");

    assert_eq!((pins(&["reset", "desk"]).0, pins(&["reset", "desk"]).0), (0, 7));
    assert!(pins(&[]).1.contains("no MCP server is pinned yet"));
}
