//! Engines on one SQLite file, one at a time, and the batches that `--local` runs.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use test_servers::{free_port, set_clock};

use crate::engine::{Process, log, turnfold};

const TIMEOUT: Duration = Duration::from_secs(60);

fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    ended(turnfold(folder).args(args))
}

fn ended(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Writes a batch file.
fn lines(folder: &Path, file: &str, count: usize, input: &str) {
    let line = |n: usize| {
        let body = json!({"strategy": "probe", "input": format!("{input}; echo {file} {n}")});
        json!({"custom_id": format!("line-{n}"), "method": "POST", "url": "/v1/turns", "body": body})
    };
    let text: String = (0..count).map(|n| format!("{}\n", line(n))).collect();
    fs::write(folder.join(file), text).unwrap();
}

/// Starts `turnfold dev` on a database and returns its address.
fn dev(folder: &Path, url: &str) -> (Process, String) {
    let listen = format!("127.0.0.1:{}", free_port());
    let set = format!("store.url={url}");
    let mut command = turnfold(folder);
    let mut dev =
        Process::start(command.args(["dev", "--listen", &listen, "--set", &set]).stderr(log(folder, "dev")));
    let began = Instant::now();
    // The port opens before the database.
    loop {
        let printed = fs::read_to_string(folder.join("dev.log")).unwrap();
        if printed.contains("turnfold is ready") {
            break;
        }
        assert!(began.elapsed() < TIMEOUT && dev.lives(), "{printed}");
        std::thread::sleep(Duration::from_millis(20));
    }
    (dev, format!("http://{listen}"))
}

/// Runs a command and interrupts it once its log reports ended lines.
fn interrupted(folder: &Path, args: &[&str]) {
    let mut command = turnfold(folder);
    let mut first = Process::start(command.args(args).stderr(log(folder, "first")));
    let printed = || fs::read_to_string(folder.join("first.log")).unwrap();
    let began = Instant::now();
    while !printed().contains("ended") {
        assert!(began.elapsed() < TIMEOUT && first.lives(), "{}", printed());
        std::thread::sleep(Duration::from_millis(20));
    }
    first.signal("INT");
    assert_eq!(first.wait().code(), Some(130), "{}", printed());
}

#[test]
fn one_engine_at_a_time_works_on_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lines(folder, "lines.jsonl", 3, "steps 1");
    fs::create_dir(folder.join("a b")).unwrap();
    let (first, url) = dev(folder, "sqlite:a%20b/t.db");
    symlink("a b/t.db", folder.join("link.db")).unwrap();
    let local = ["batch", "run", "lines.jsonl", "--out", "out.jsonl", "--local"];
    let at =
        |args: &[&str], file: &str| run(folder, &[args, &["--set", &format!("store.url={file}")]].concat());
    for file in ["sqlite:a%20b/t.db", "sqlite:./a b/../a b/t.db?mode=rwc", "sqlite:link.db"] {
        let output = at(&local, file);
        assert!(
            output.0 == 4 && output.2.contains("another turnfold uses this file (/"),
            "{file}: {output:?}"
        );
        assert!(output.2.contains("leave out --local"), "{file}: {output:?}");
        let output = at(&["dev", "--listen", "127.0.0.1:0"], file);
        assert!(
            output.0 == 4 && output.2.contains("another turnfold uses this file (/"),
            "{file}: {output:?}"
        );
        assert!(output.2.contains("a b/t.db); hint: stop the other one"), "{file}: {output:?}");
        let listed = at(&["thread", "list"], file);
        assert_eq!(listed.0, 0, "reading is allowed: {listed:?}");
        let quoted = at(&["batch", "quote", "lines.jsonl", "--local"], file);
        assert!(quoted.0 == 0 && quoted.1.contains("3 lines to run"), "{quoted:?}");
    }
    // Through a hard link, SQLite would keep another write-ahead log.
    fs::hard_link(folder.join("a b/t.db"), folder.join("hard.db")).unwrap();
    for args in [&local[..], &["dev", "--listen", "127.0.0.1:0"], &["thread", "list"]] {
        let output = at(args, "sqlite:hard.db");
        assert!(output.0 == 9 && output.2.contains("has 2 names (hard links)"), "{args:?}: {output:?}");
    }
    fs::remove_file(folder.join("hard.db")).unwrap();
    let on_server = run(folder, &["batch", "run", "lines.jsonl", "--out", "out.jsonl", "--url", &url]);
    assert_eq!(on_server.0, 0, "{on_server:?}");
    let (_other, _) = dev(folder, "sqlite:other.db");
    let (_memory, _) = dev(folder, "sqlite::memory:");
    let (_another, _) = dev(folder, "sqlite::memory:");
    // A killed process releases the file.
    first.kill();
    let output = at(&local, "sqlite:link.db");
    assert!(output.0 == 0 && output.2.contains("submitted before"), "{output:?}");
}

/// Returns all threads.
fn threads(folder: &Path) -> Value {
    let output = run(folder, &["thread", "list", "--limit", "1000", "-o", "json"]);
    assert_eq!(output.0, 0, "{output:?}");
    serde_json::from_str(&output.1).unwrap()
}

#[test]
fn open_work_continues_only_when_an_engine_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lines(folder, "lines.jsonl", 200, "wait 0.2");
    lines(folder, "other.jsonl", 3, "steps 1");
    // Long enough that an engine would start work in the meantime.
    lines(folder, "long.jsonl", 20_000, "steps 1");
    let mut args = ["batch", "run", "lines.jsonl", "--out", "out.jsonl", "--local", "--window", "2"];
    interrupted(folder, &args);
    let before = threads(folder);
    let quoted = run(folder, &["batch", "quote", "long.jsonl", "--local"]);
    assert!(quoted.0 == 0 && quoted.1.contains("20000 lines to run"), "{quoted:?}");
    assert_eq!(threads(folder), before, "a quote starts and continues nothing");

    args[2] = "other.jsonl";
    args[4] = "other.out";
    let output = run(folder, &args);
    assert_eq!(output.0, 0, "{output:?}");
    let input = output.2.split("other open batches of this database run as well: batch_").nth(1);
    let input = input.unwrap_or_else(|| panic!("{output:?}"));
    assert!(input.contains("turnfold batch pause ID --url http://127.0.0.1:"), "{input}");
    assert_ne!(threads(folder), before, "it continued");
    // Its own batch is not among the others.
    let paused = run(folder, &args);
    assert!(paused.0 == 0 && paused.2.contains("other open batches of this database"), "{paused:?}");
    assert_eq!(paused.2.matches("batch_").count(), 2, "the other one and its own: {paused:?}");
}

#[test]
fn the_default_completion_window_is_longer_with_local() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lines(folder, "lines.jsonl", 1, "steps 1");
    let window = |args: &[&str]| {
        let output = run(folder, &[&["batch", "submit", "lines.jsonl", "-o", "json"], args].concat());
        let batch: Value = serde_json::from_str(&output.1).unwrap_or_else(|_| panic!("{output:?}"));
        batch["completion_window"].as_str().unwrap().to_owned()
    };
    assert_eq!(window(&["--local"]), "30d");
    assert_eq!(window(&["--local", "--within", "7d"]), "7d");
    assert_eq!(window(&["--local", "--within", "168h"]), "7d", "it is the same");
    let (_dev, url) = dev(folder, "sqlite:other.db");
    assert_eq!(window(&["--url", &url]), "24h");
    assert_eq!(window(&["--url", &url, "--within", "90m"]), "90m");
}

#[test]
fn a_batch_that_expired_without_an_engine_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    lines(folder, "lines.jsonl", 8, "wait 0.5");
    let args =
        ["batch", "run", "lines.jsonl", "--out", "out.csv", "--local", "--window", "2", "--within", "10s"];
    interrupted(folder, &args);
    let mut later = turnfold(folder);
    set_clock(&mut later, 60);
    let done = ended(later.args(args));
    assert_eq!(done.0, 0, "{done:?}");
    assert!(done.2.contains("submitted before") && done.2.contains(" expired; running "), "{done:?}");
    let results = fs::read_to_string(folder.join("out.csv")).unwrap();
    assert_eq!(results.matches(",completed,").count(), 8, "{results}");
}
