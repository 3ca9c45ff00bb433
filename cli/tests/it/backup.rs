//! Backups that are taken under load and restored elsewhere: everything that they contain goes on from there.

use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use test_servers::{Postgres, Redis};

use crate::engine::{Engine, Process, log, turnfold};

const LINES: usize = 400;

/// Longest wait for a part of the batch, and for the whole.
const TIMEOUT: Duration = Duration::from_secs(120);

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a command of turnfold and returns what it prints as JSON.
fn printed(folder: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&run(turnfold(folder).args(["-o", "json"]).args(words))).unwrap()
}

fn submit(folder: &Path, url: &str) {
    let line = |nth: usize| {
        let body = json!({"strategy": "probe", "input": "wait 0.2; echo hi"});
        json!({"custom_id": nth.to_string(), "method": "POST", "url": "/v1/turns", "body": body}).to_string()
    };
    fs::write(folder.join("lines.jsonl"), (0..LINES).map(line).collect::<Vec<_>>().join("\n")).unwrap();
    run(turnfold(folder).args(["--url", url, "batch", "submit", "lines.jsonl"]));
}

/// Returns the number of lines of the only batch that are done.
fn done(folder: &Path) -> usize {
    let batches = printed(folder, &["batch", "list"]);
    let done = batches[0]["request_counts"]["completed"].as_u64();
    done.unwrap_or_else(|| panic!("{batches}")).try_into().unwrap()
}

fn wait_for(folder: &Path, lines: usize) {
    let began = Instant::now();
    while done(folder) < lines {
        assert!(began.elapsed() < TIMEOUT, "{} lines are done", done(folder));
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Does what the book says to do after a restore.
fn check_restored(folder: &Path) {
    for words in [["store", "verify"], ["store", "rebuild"], ["queue", "rebuild"]] {
        run(turnfold(folder).args(words));
    }
}

fn check_whole(folder: &Path) {
    wait_for(folder, LINES);
    let stats = printed(folder, &["store", "verify"]);
    assert_eq!((&stats["threads"], &stats["found"]), (&json!(LINES), &json!(0)), "{stats}");
}

#[tokio::test(flavor = "multi_thread")]
async fn real_backup_of_postgresql_is_taken_under_load_and_restored() {
    let engine = Engine::start("").await;
    let worker = engine.worker_with("w0", &["worker.slots=2".to_owned()]);
    submit(engine.folder(), &engine.url);
    wait_for(engine.folder(), 5);
    let dump = engine.folder().join("backup");
    let url = engine.postgres.url();
    run(Command::new(Postgres::program("pg_dump"))
        .args(["--format=custom", "--dbname", &url, "--file"])
        .arg(&dump));
    assert!(done(engine.folder()) < LINES, "the batch ran while it was backed up");
    worker.kill();

    let postgres = Postgres::shared();
    run(Command::new(Postgres::program("pg_restore")).args(["--dbname", &postgres.url()]).arg(&dump));
    let restored = Engine::over(postgres, Redis::start(), "").await;
    check_restored(restored.folder());
    let worker = restored.worker("w1");
    check_whole(restored.folder());
    drop(worker);
}

#[test]
fn real_backup_of_sqlite_is_taken_under_load_and_restored() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dev = |folder: &Path, port: u16| {
        let config = format!("[api]\nlisten = \"127.0.0.1:{port}\"\n[worker]\nslots = 2\n");
        fs::write(folder.join("turnfold.toml"), config).unwrap();
        Process::start(turnfold(folder).arg("dev").stderr(log(folder, "dev")).stdout(log(folder, "dev")))
    };
    let port = test_servers::free_port();
    let running = dev(old.path(), port);
    wait_until_ready(old.path(), port);
    submit(old.path(), &format!("http://127.0.0.1:{port}"));
    wait_for(old.path(), 5);
    fs::create_dir(new.path().join(".turnfold")).unwrap();
    // SQLite's own copy of a database in use, as its command `.backup` makes it.
    let copy = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(sys.argv[2]))";
    let file = ".turnfold/turnfold.db";
    run(Command::new("python3").args(["-c", copy]).args([old.path().join(file), new.path().join(file)]));
    assert!(done(old.path()) < LINES, "the batch ran while it was backed up");
    running.kill();

    check_restored(new.path());
    let port = test_servers::free_port();
    let running = dev(new.path(), port);
    wait_until_ready(new.path(), port);
    check_whole(new.path());
    drop(running);
}

fn wait_until_ready(folder: &Path, port: u16) {
    let began = Instant::now();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        let said = fs::read_to_string(folder.join("dev.log")).unwrap_or_default();
        assert!(began.elapsed() < TIMEOUT, "{said}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
