//! Batches through OpenAI's own clients and through `turnfold batch`.

use std::{
    fs,
    path::Path,
    process::Output,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    engine::{Process, log, turnfold},
    openai_clients::{Dev, javascript, python},
};

#[test]
fn real_client_for_python_runs_a_batch() {
    Dev::start().run_client(&mut python(), "batches");
}

#[test]
fn real_client_for_javascript_runs_a_batch() {
    Dev::start().run_client(&mut javascript(), "batches");
}

/// Writes a batch file whose eighth line fails.
fn lines(folder: &Path, count: usize, work: &str) {
    let line = |n: usize| {
        let input = if n == 7 { "fail on purpose".to_owned() } else { format!("{work}; echo {n}") };
        json!({
            "custom_id": format!("line-{n}"), "method": "POST", "url": "/v1/turns",
            "body": {"strategy": "probe", "input": input}
        })
    };
    let text: String = (0..count).map(|n| format!("{}\n", line(n))).collect();
    fs::write(folder.join("lines.jsonl"), text).unwrap();
}

fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = turnfold(folder).arg("batch").args(args).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn a_batch_is_submitted_watched_and_its_results_written() {
    let dev = Dev::start();
    let folder = dev.folder();
    lines(folder, 20, "steps 1");
    let batch = |args: &[&str]| run(folder, &[args, &["--url", &dev.url]].concat());

    let submitted = batch(&["submit", "lines.jsonl", "--wait", "-o", "json"]);
    assert_eq!(submitted.0, 5, "one fails: {submitted:?}");
    let done: Value = serde_json::from_str(&submitted.1).unwrap();
    assert_eq!(
        (&done["status"], &done["request_counts"]["failed"]),
        (&json!("completed"), &json!(1)),
        "{done}"
    );
    assert!(submitted.2.contains("20/20 ended"), "{}", submitted.2);
    let id = done["id"].as_str().unwrap();
    let again = batch(&["submit", "lines.jsonl", "-o", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&again.1).unwrap()["id"], id, "{again:?}");
    let other = batch(&["submit", "lines.jsonl", "--reuse", "none", "--wait", "-o", "json"]);
    assert_ne!(serde_json::from_str::<Value>(&other.1).unwrap()["id"], id, "{other:?}");

    let results = batch(&["results", id]);
    assert_eq!((results.0, results.1.lines().count()), (0, 20), "{results:?}");
    let csv = batch(&["results", id, "--format", "csv", "--out", "r.csv"]);
    assert_eq!(csv.0, 0, "{csv:?}");
    let csv = fs::read_to_string(folder.join("r.csv")).unwrap();
    assert!(csv.starts_with("line,custom_id,status,answer,") && csv.contains("line-3,completed,"), "{csv}");
    assert_eq!(batch(&["results", id, "--format", "parquet", "--out", "r.parquet"]).0, 0);
    assert!(fs::read(folder.join("r.parquet")).unwrap().starts_with(b"PAR1"));
    assert_eq!(batch(&["resume", id, "--only", "failed"]).0, 0);
    assert_eq!(batch(&["show", id, "--wait"]).0, 5, "it fails again");
    assert_eq!(batch(&["results", id]).1.lines().count(), 21);
    let run = batch(&["run", "lines.jsonl", "--out", "r.jsonl"]);
    assert!(run.0 == 5 && run.2.contains("the results of 20 lines are in r.jsonl"), "{run:?}");
    let whole = fs::read_to_string(folder.join("r.jsonl")).unwrap();
    let failed = whole.lines().filter(|line| line.contains("\"line-7\"")).collect::<Vec<_>>();
    assert!(whole.lines().count() == 20 && failed.len() == 1, "the last of each line: {whole}");
    assert!(failed[0].starts_with("{\"n\":21,"), "{failed:?}");
    assert!(batch(&["list"]).1.contains(id) && batch(&["show", id]).1.contains("--only failed"));
    assert_eq!(batch(&["show", "batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"]).0, 7);
}

/// The quote goes to stderr, the batch to stdout.
#[test]
fn a_batch_is_quoted_before_it_is_submitted() {
    let dev = Dev::start();
    let folder = dev.folder();
    lines(folder, 5, "steps 1");
    let batch = |args: &[&str]| run(folder, &[args, &["--url", &dev.url]].concat());
    let submit = |more: &[&str]| {
        let all =
            batch(&[&["submit", "lines.jsonl", "--quote", "--yes", "--wait", "-o", "json"], more].concat());
        let made: Value = serde_json::from_str(&all.1).unwrap_or_else(|_| panic!("{all:?}"));
        (made["id"].as_str().unwrap().to_owned(), all.2)
    };
    assert_eq!(batch(&["submit", "lines.jsonl", "--quote"]).0, 2, "there is no terminal to confirm on");
    assert!(!batch(&["list"]).1.contains("batch_"), "nothing was made");
    let (first, printed) = submit(&[]);
    assert!(printed.contains("5 lines to run\nthe cost is unknown"), "{printed}");
    let (again, printed) = submit(&[]);
    assert!(
        again == first && printed.contains("submitted before") && !printed.contains("to run"),
        "{printed}"
    );
    let (other, printed) = submit(&["--reuse", "none", "--workers", "2"]);
    assert!(other != first && printed.contains("5 lines to run\nestimate: $0.0000"), "{printed}");
    assert!(printed.contains("probe: 5 lines, from 5 past turns"), "{printed}");
}

#[test]
fn a_local_batch_continues_after_an_interruption() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lines(folder, 30, "wait 0.5");
    let args = ["run", "lines.jsonl", "--out", "out.jsonl", "--local", "--window", "4"];
    let mut command = turnfold(folder);
    let mut first = Process::start(command.arg("batch").args(args).stderr(log(folder, "first")));
    let printed = || fs::read_to_string(folder.join("first.log")).unwrap();
    let began = Instant::now();
    while !printed().contains("ended") {
        assert!(began.elapsed() < Duration::from_secs(60) && first.lives(), "{}", printed());
        std::thread::sleep(Duration::from_millis(20));
    }
    first.signal("INT");
    assert_eq!(first.wait().code(), Some(130), "{}", printed());
    assert!(
        printed().contains("repeat the command to continue it") && !folder.join("out.jsonl").exists(),
        "{}",
        printed()
    );
    let done = run(folder, &args);
    assert_eq!(done.0, 5, "one fails: {done:?}");
    assert!(done.2.contains("submitted before"), "{done:?}");
    let results = fs::read_to_string(folder.join("out.jsonl")).unwrap();
    assert_eq!(results.lines().count(), 30, "{results}");
    assert!(!folder.join("out.jsonl.part").exists());
}

/// A local engine has its own operator key, whatever keys are configured.
#[test]
fn a_local_batch_needs_no_operator_key() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("key"), "sesame").unwrap();
    fs::write(
        folder.join("turnfold.toml"),
        "api.keys = ['env:NOT_SET_HERE']\ntenants.acme.keys = ['file:key']",
    )
    .unwrap();
    lines(folder, 3, "steps 1");
    for args in [&[][..], &["--tenant", "acme"], &["--tenant", "other"]] {
        let done = run(folder, &[&["run", "lines.jsonl", "--out", "out.jsonl", "--local"], args].concat());
        assert_eq!(done.0, 0, "{args:?}: {done:?}");
    }
}

/// Without a server, the hints must come while the batch runs and when it ends.
#[test]
fn a_local_batch_explains_how_to_answer_and_to_get_results() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lines(folder, 1, "ask Which? | red | green");
    let mut command = turnfold(folder);
    command.args(["batch", "submit", "lines.jsonl", "--local"]).stderr(log(folder, "submit"));
    let mut process = Process::start(&mut command);
    let printed = || fs::read_to_string(folder.join("submit.log")).unwrap();
    let began = Instant::now();
    while !printed().contains("waits for a person\nhint: turnfold inbox list --url http://127.0.0.1:") {
        assert!(began.elapsed() < Duration::from_secs(60) && process.lives(), "{}", printed());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The state of the batch is read twice meanwhile.
    std::thread::sleep(Duration::from_millis(1_100));
    assert_eq!(printed().matches("inbox list").count(), 1, "{}", printed());
    let url = printed().split("--url ").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
    let at = |args: &[&str]| {
        let Output { status, stdout, .. } =
            turnfold(folder).args(args).args(["--url", &url]).output().unwrap();
        assert!(status.success(), "{args:?}");
        String::from_utf8(stdout).unwrap()
    };
    let inbox: Value = serde_json::from_str(&at(&["inbox", "list", "-o", "json"])).unwrap();
    let inbox = if inbox.is_array() { inbox } else { inbox["data"].clone() };
    at(&["inbox", "answer", inbox[0]["thread_id"].as_str().unwrap(), "2"]);
    assert!(process.wait().success(), "{}", printed());
    assert!(
        printed().contains("the same command, `run` instead of `submit`, and --out FILE"),
        "{}",
        printed()
    );
    let done = run(folder, &["run", "lines.jsonl", "--local", "--out", "out.csv"]);
    assert!(done.0 == 0 && done.2.contains("the results of 1 line is in out.csv"), "{done:?}");
    assert!(fs::read_to_string(folder.join("out.csv")).unwrap().contains("\r\n1,line-0,completed,"));
}

/// The first signal lets running work finish, the second does not.
#[test]
fn a_second_signal_ends_a_local_batch_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lines(folder, 4, "wait 50");
    let args = ["run", "lines.jsonl", "--out", "out.jsonl", "--local", "--set", "worker.drain_seconds=60"];
    let mut command = turnfold(folder);
    let mut process = Process::start(command.arg("batch").args(args).stderr(log(folder, "run")));
    let printed = || fs::read_to_string(folder.join("run.log")).unwrap();
    let began = Instant::now();
    while !printed().contains("ended") {
        assert!(began.elapsed() < Duration::from_secs(60) && process.lives(), "{}", printed());
        std::thread::sleep(Duration::from_millis(20));
    }
    let running = || {
        let events = turnfold(folder).args(["thread", "events", "last"]).output().unwrap();
        String::from_utf8_lossy(&events.stdout).contains("wait 50000 ms")
    };
    while !running() {
        assert!(began.elapsed() < Duration::from_secs(60) && process.lives(), "{}", printed());
    }
    process.signal("INT");
    while !printed().contains("interrupted") {
        assert!(began.elapsed() < Duration::from_secs(60) && process.lives(), "{}", printed());
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    assert!(process.lives(), "running work is awaited: {}", printed());
    process.signal("TERM");
    let second = Instant::now();
    assert_eq!(process.wait().code(), Some(130), "{}", printed());
    assert!(second.elapsed() < Duration::from_secs(20), "{}", printed());
}

/// The disk of the database is full for a while: no work ends meanwhile, and nothing is lost.
#[test]
fn a_batch_continues_after_the_disk_was_full() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lines(folder, 400, "steps 3");
    let args = "batch run lines.jsonl --out out.jsonl --local --window 20";
    // For SQLite, a file that may not grow is the same as a full disk: writes fail.
    let program = turnfold(folder).get_program().to_str().unwrap().to_owned();
    let mut command = std::process::Command::new("sh");
    command.current_dir(folder).args(["-c", &format!("trap '' XFSZ; ulimit -f 3000; exec {program} {args}")]);
    let mut first = Process::start(command.stderr(log(folder, "first")));
    let printed = || fs::read_to_string(folder.join("first.log")).unwrap();
    let began = Instant::now();
    while first.lives() && !printed().contains("disk") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", printed());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(printed().contains("disk"), "{}", printed());
    first.kill();
    assert!(!folder.join("out.jsonl").exists(), "no incomplete file");
    let done = run(folder, &args.split(' ').skip(1).collect::<Vec<_>>());
    assert_eq!(done.0, 5, "one fails: {done:?}");
    let results = fs::read_to_string(folder.join("out.jsonl")).unwrap();
    let name =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["custom_id"].as_str().unwrap().to_owned();
    let mut names: Vec<String> = results.lines().map(name).collect();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), results.lines().count()), (400, 400), "each line once");
}
