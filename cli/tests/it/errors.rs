//! Errors name the cause and the remedy, and have the right exit code.

use std::{
    fs,
    io::Write as _,
    net::TcpListener,
    path::Path,
    process::{Output, Stdio},
};

use serde_json::json;

use crate::engine::turnfold;

fn run(folder: &Path, args: &[&str]) -> Output {
    turnfold(folder).args(args).output().unwrap()
}

#[track_caller]
fn fails(output: &Output, code: i32, expected: &[&str]) {
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{printed}");
    assert!(output.stdout.is_empty(), "data only on stdout: {}", String::from_utf8_lossy(&output.stdout));
    for text in expected {
        assert!(printed.contains(text), "{text:?} in {printed}");
    }
}

#[test]
fn a_typo_in_the_configuration_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("turnfold.toml"), "[stroe]\nurl = \"sqlite:x.db\"\n").unwrap();
    fails(&run(folder.path(), &["thread", "list"]), 2, &["stroe", "turnfold.toml", "store"]);
    let output =
        turnfold(folder.path()).args(["--config", "none.toml", "strategy", "list"]).output().unwrap();
    fails(&output, 2, &["none.toml"]);
}

#[test]
fn a_malformed_webhook_secret_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), "whsec_?").unwrap();
    let headers = ["--id", "a", "--timestamp", "0", "--signature", "v1,x"];
    let verify = [&["webhook", "verify", "--secret", "file:secret"][..], &headers].concat();
    fails(&run(folder.path(), &verify), 2, &["--secret: expected `whsec_` followed by Base64"]);
}

#[test]
fn a_port_in_use_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    fails(&run(folder.path(), &["dev", "--listen", &address]), 4, &["in use", "--listen"]);
}

#[test]
fn listening_beyond_loopback_requires_a_key() {
    let folder = tempfile::tempdir().unwrap();
    fails(&run(folder.path(), &["dev", "--listen", "0.0.0.0:0"]), 2, &["keys"]);
}

#[test]
fn a_database_that_is_not_migrated_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    fails(&run(folder.path(), &["thread", "list"]), 9, &["turnfold migrate"]);
    let api =
        run(folder.path(), &["api", "--set", "queue.url=redis://127.0.0.1:1", "--listen", "127.0.0.1:0"]);
    fails(&api, 9, &["turnfold migrate"]);
    let migrated = run(folder.path(), &["migrate"]);
    assert!(migrated.status.success());
    fails(&run(folder.path(), &["thread", "events", "last"]), 7, &["there is no thread yet"]);
}

#[test]
fn an_api_alone_needs_a_queue_that_others_reach() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &["migrate"]).status.success());
    fails(&run(folder.path(), &["worker"]), 2, &["queue.url", "redis://", "turnfold dev"]);
}

#[test]
fn an_unreachable_api_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &["--url", "http://127.0.0.1:1", "turn", "send", "hello"]);
    fails(&output, 4, &["cannot reach the API at http://127.0.0.1:1: connection refused", "turnfold dev"]);
}

#[test]
fn invalid_lines_of_a_batch_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let good = json!({"custom_id": "a", "method": "POST", "url": "/v1/turns", "body": {}}).to_string();
    fs::write(folder.path().join("b.jsonl"), format!("{good}\nnot json\n{good}\n")).unwrap();
    let output = run(folder.path(), &["demo", "--file", "b.jsonl"]);
    fails(&output, 2, &["b.jsonl:2:", "b.jsonl:3: custom_id \"a\"", "nothing was run"]);
}

#[test]
fn a_log_of_a_newer_version_is_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run(folder.path(), &["migrate"]).status.success());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let thread = runtime.block_on(async {
        let url = format!("sqlite:{}", folder.path().join(".turnfold/turnfold.db").display());
        let store = store::Store::connect(&url).await.unwrap();
        let opened: shared::Opened =
            serde_json::from_value(json!({"format": 2, "strategy": "probe"})).unwrap();
        let expected = vec![shared::Message::user("hello")];
        let new = store::NewTurn::of(store::Opening::New(opened), expected, String::new());
        match store.submit(new).await.unwrap() {
            store::Submitted::New(turn) | store::Submitted::Behind(turn) | store::Submitted::Known(turn) => {
                turn.thread.to_string()
            }
        }
    });
    for verb in ["events", "replay", "state", "show"] {
        fails(&run(folder.path(), &["thread", verb, &thread]), 6, &["newer version of turnfold"]);
    }
}

#[test]
fn missing_threads_and_invalid_options_have_their_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert!(run(folder, &["migrate"]).status.success());
    let missing = "01990000-0000-7000-8000-000000000000";
    for verb in ["verify", "events", "show"] {
        fails(&run(folder, &["thread", verb, missing]), 7, &["there is no thread", missing]);
    }
    fails(&run(folder, &["store", "verify", "--thread", missing]), 7, &["there is no thread", missing]);
    fails(&run(folder, &["thread", "list", "--set", "store.url=mysql://h/d"]), 2, &["neither `sqlite:` nor"]);
    for flag in ["--junit", "--sarif"] {
        let replay = run(folder, &["audit", "replay", flag, "nowhere/x.xml"]);
        fails(&replay, 2, &[flag, "nowhere/x.xml cannot be written"]);
        let replay = run(folder, &["audit", "replay", flag, "x.xml"]);
        assert!(replay.status.code() == Some(6) && folder.join("x.xml").exists(), "{replay:?}");
    }
    fs::write(folder.join("s.toml"), "[providers.s]\nscript = \"nofile.json\"\n").unwrap();
    fails(&run(folder, &["--config", "s.toml", "dev", "--listen", "127.0.0.1:0"]), 2, &["nofile.json"]);
}

#[test]
fn an_invalid_database_and_an_unknown_server_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("notes.txt"), "no database at all, and long enough to be read as one".repeat(50))
        .unwrap();
    fails(&run(folder, &["thread", "list", "--set", "store.url=sqlite:notes.txt"]), 9, &["not a database"]);
    for command in [&["tools", "files"][..], &["pins", "diff", "files"]] {
        let args = [&["mcp"], command, &["--set", "store.url=sqlite::memory:"]].concat();
        if command[0] == "tools" {
            fails(&run(folder, &args), 2, &["unknown MCP server \"files\""]);
        }
    }
    assert!(run(folder, &["migrate"]).status.success());
    fails(&run(folder, &["mcp", "pins", "diff", "files"]), 2, &["unknown MCP server \"files\""]);
}

/// The error has no internals of the library that connects.
#[test]
fn an_unreachable_server_is_reported_in_plain_words() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("turnfold.toml"),
        "[mcp.far]\ndescription = 'far'\nurl = 'http://127.0.0.1:1/mcp'\n",
    )
    .unwrap();
    let output = run(folder.path(), &["mcp", "list"]);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!((output.status.code(), err.as_str()), (Some(5), ""), "{out}");
    assert!(out.contains("refused") && !out.contains("rmcp") && !out.contains("Transport"), "{out}");
}

#[test]
fn an_invalid_id_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run_with = |args: &[&str]| run(folder.path(), &[args, &["--url", "http://127.0.0.1:1"]].concat());
    fails(&run_with(&["turn", "show", "abc"]), 2, &["\"abc\" is not the id of a turn", "turnfold turn list"]);
    fails(
        &run_with(&["turn", "list", "--thread", "abc"]),
        2,
        &["\"abc\" is not the id of a thread", "turnfold thread list"],
    );
    fails(
        &run_with(&["webhook", "remove", "nope"]),
        2,
        &["\"nope\" is not the id of a webhook", "turnfold webhook list"],
    );
    for command in [
        &["turn", "show", "last"][..],
        &["thread", "reconcile", "last", "--skip"],
        &["inbox", "show", "last"],
    ] {
        fails(&run_with(command), 4, &["cannot reach the API"]);
    }
}

/// A negative number is a value, not a flag, so that the error explains what is wrong with it.
#[test]
fn a_negative_number_is_reported_as_a_value() {
    let folder = tempfile::tempdir().unwrap();
    let command = run(folder.path(), &["thread", "state", "last", "--at", "-1"]);
    fails(&command, 2, &["invalid value '-1' for '--at <SEQ>'"]);
    let command = run(folder.path(), &["batch", "submit", "x.jsonl", "--max-usd", "-1"]);
    fails(&command, 2, &["--max-usd", "above 0"]);
    fails(&run(folder.path(), &["store", "prune", "--older-than", "1y"]), 2, &["w, d, h, m or s"]);
}

#[test]
fn help_lists_the_commands_own_options_first() {
    let folder = tempfile::tempdir().unwrap();
    let help = run(folder.path(), &["turn", "show", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let (own, global) = help.split_once("Global options:").expect("a heading of their own");
    assert!(own.contains("--wait") && !own.contains("--tenant") && global.contains("--tenant"), "{help}");
    assert!(help.lines().count() < 26, "{help}");
}

#[test]
fn unsendable_values_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let send = ["turn", "send", "-g", "probe", "--url", "http://127.0.0.1:1"];
    let run_with = |more: &[&str]| run(folder.path(), &[&send, more].concat());
    fails(&run_with(&["hello", "--idempotency-key", "a\nb"]), 2, &["--idempotency-key"]);
    fails(&run_with(&["hello", "--tenant", "a\nb"]), 2, &["--tenant"]);
    let nowhere = run(folder.path(), &["turn", "send", "hello", "--url", "nowhere"]);
    fails(&nowhere, 2, &["--url \"nowhere\"", "use --url http://nowhere"]);
    let mut command = turnfold(folder.path());
    let piped = command.args(send).arg("-").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"\xff").unwrap();
    fails(&child.wait_with_output().unwrap(), 2, &["stdin", "UTF-8"]);
}
