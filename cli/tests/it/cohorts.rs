//! Cohorts of threads, replays by another build, and forks of a list.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};
use store::{
    Store, Stored,
    testing::tamper::{self, insert_event},
};
use tempfile::TempDir;
use test_servers::Postgres;

use crate::{
    engine::{TURNFOLD, fixtures, turnfold},
    openai_clients::Dev,
};

const FIXTURE: &str = "planner/confidence_at_the_threshold.jsonl";
const CHANGE: &str = "planner.confidence=0.9";

fn run(folder: &Path, args: &[&str]) -> (i32, Value) {
    let output = turnfold(folder).args(["-o", "json"]).args(args).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or(Value::String(printed)))
}

/// A folder with a database and recorded threads.
fn recorded(url: Option<&str>, threads: usize) -> (TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let config = url.map(|url| format!("[store]\nurl = {}\n", json!(url))).unwrap_or_default();
    fs::write(folder.path().join("turnfold.toml"), config).unwrap();
    assert_eq!(run(folder.path(), &["migrate"]).0, 0);
    let ids = (0..threads).map(|_| import(folder.path())).collect();
    (folder, ids)
}

fn import(folder: &Path) -> String {
    let (exit, imported) = run(folder, &["thread", "import", fixtures().join(FIXTURE).to_str().unwrap()]);
    assert_eq!(exit, 0, "{imported}");
    imported["id"].as_str().unwrap().to_owned()
}

/// Adds an event that no build can read to a log.
pub(crate) async fn spoil(store: &Store, thread: &str) {
    let thread = thread.parse().unwrap();
    let seq = store.head(thread).await.unwrap().seq;
    let (kind, payload) = ("of_the_future".to_owned(), "{}".to_owned());
    let event = Stored { seq, at: 1, kind, payload, codec: "json".to_owned(), hash: [7; 32] };
    insert_event(store, thread, &event).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sqlite_cohort_is_replayed_as_it_was() {
    assert_frozen(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_postgres_cohort_is_replayed_as_it_was() {
    let postgres = Postgres::prepared("migrated", store::testing::migrate);
    assert_frozen(Some(&postgres.url())).await;
}

async fn assert_frozen(url: Option<&str>) {
    let (folder, ids) = recorded(url, 3);
    let folder = folder.path();
    let freeze = &["whatif", "cohort", "c.json", "--where", "strategy = planner"][..];
    let (exit, frozen) = run(folder, freeze);
    assert_eq!((exit, &frozen["threads"]), (0, &json!(3)), "{frozen}");
    let text = fs::read_to_string(folder.join("c.json")).unwrap();
    assert!(!text.contains("lunch") && text.lines().count() == 5, "ids and hashes alone: {text}");
    let (exit, refused) = run(folder, freeze);
    assert!(exit == 2 && refused.as_str().unwrap().contains("--force"), "{refused}");
    assert_eq!(run(folder, &[freeze, &["--force"]].concat()), (0, frozen));

    let what_if = &["whatif", "--cohort", "c.json", "--set", CHANGE][..];
    let (exit, mut before) = run(folder, what_if);
    assert_eq!((exit, &before["threads"], &before["changed"]), (0, &json!(3), &json!(3)), "{before}");
    assert_eq!(run(folder, &["audit", "replay", "--cohort", "c.json"]).0, 0);

    // Other threads and later events change nothing.
    import(folder);
    let db = match url {
        Some(url) => Store::connect(url).await.unwrap(),
        None => Store::connect(&format!("sqlite:{}", folder.join(".turnfold/turnfold.db").display()))
            .await
            .unwrap(),
    };
    spoil(&db, &ids[0]).await;
    let (exit, mut after) = run(folder, what_if);
    before["seconds"] = json!(0);
    after["seconds"] = json!(0);
    assert_eq!((exit, after), (0, before));
    assert_eq!(run(folder, &["whatif", "--set", CHANGE]).0, 6, "without the cohort, the event is read");
    assert_eq!(run(folder, &["audit", "replay", "--cohort", "c.json"]).0, 0);
    assert_eq!(run(folder, &["whatif", "cohort", "c.json", "--check"]).0, 0);

    // A thread that is gone, and one whose log differs, are named.
    assert_eq!(run(folder, &["thread", "delete", &ids[1], "--yes"]).0, 0);
    let forge = "UPDATE events SET hash = (SELECT hash FROM events WHERE thread_id = $1 AND seq = 3) \
                 WHERE thread_id = $1 AND seq > 3";
    tamper::execute(&db, forge, ids[2].parse().unwrap()).await.unwrap();
    let (exit, report) = run(folder, what_if);
    assert_eq!((exit, &report["threads"], &report["undecided"]), (6, &json!(3), &json!(2)), "{report}");
    let whys = report["not_decided"].to_string();
    assert!(whys.contains("it is gone") && whys.contains("are not those of the cohort"), "{whys}");
    let (exit, report) = run(folder, &["audit", "replay", "--cohort", "c.json"]);
    assert_eq!((exit, &report["broken"]), (1, &json!(2)), "{report}");
    let (exit, report) = run(folder, &["whatif", "cohort", "c.json", "--check"]);
    assert_eq!((exit, &report["same"]), (1, &json!(1)), "{report}");
}

#[test]
fn a_file_that_is_no_cohort_is_refused() {
    let (folder, _) = recorded(None, 1);
    let folder = folder.path();
    fs::write(folder.join("c.json"), "{\"threads\": []}").unwrap();
    for file in ["c.json", "nowhere.json"] {
        let (exit, refused) = run(folder, &["whatif", "--cohort", file, "--set", CHANGE]);
        assert!(exit == 2 && refused.as_str().unwrap().contains("whatif cohort FILE"), "{refused}");
    }
    let both = ["whatif", "--cohort", "c.json", "--where", "strategy = planner", "--set", CHANGE];
    assert_eq!(run(folder, &both).0, 2);
    assert_eq!(run(folder, &["whatif", "cohort", "n.json", "--where", "strategy = chat"]).0, 6);
    assert!(!folder.join("n.json").exists(), "an empty cohort is not written");
}

fn script(folder: &Path, name: &str, lines: &str) -> String {
    fs::write(folder.join(name), format!("#!/bin/sh\n{lines}\n")).unwrap();
    fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    format!("./{name}")
}

/// Another build: this one, with a script that adds a difference of a thread to what it lists.
pub(crate) fn other_build(folder: &Path, thread: &str) -> String {
    let difference = json!({
        "seq": 17, "node": "assess", "kind": "decision", "field": "to", "recorded": "orchestrate", "build": "advance",
    });
    let line = json!({"thread": thread, "differences": [difference]});
    let lines = format!(
        "{TURNFOLD} \"$@\"; code=$?\nwhile [ $# -gt 0 ]; do [ \"$1\" = --list ] && echo '{line}' >> \"$2\"; shift; done\nexit $code"
    );
    script(folder, "other", &lines)
}

#[test]
fn another_build_is_compared_thread_by_thread() {
    let (folder, ids) = recorded(None, 2);
    let folder = folder.path();
    let other = other_build(folder, &ids[1]);
    let (exit, report) = run(folder, &["whatif", "--build", TURNFOLD]);
    assert_eq!((exit, &report["same"], &report["changed"]), (0, &json!(2), &json!(0)), "{report}");
    let (exit, report) = run(folder, &["whatif", "--build", &other]);
    assert_eq!((exit, &report["same"], &report["changed"]), (0, &json!(1), &json!(1)), "{report}");
    let cluster = &report["clusters"][0];
    assert_eq!((&cluster["node"], &cluster["field"]), (&json!("assess"), &json!("to")), "{report}");
    assert_eq!(cluster["threads"], json!([ids[1]]), "{report}");
    assert_eq!(cluster["example"]["recorded"], json!("orchestrate"), "{report}");
    assert_eq!(cluster["example"]["changed"], json!("advance"), "{report}");
    assert!(0 < cluster["rest"]["model_calls"].as_u64().unwrap(), "the quote begins there: {report}");
    assert_eq!(fs::read_dir(folder.join(".turnfold/whatif")).unwrap().count(), 0, "nothing is left behind");

    let old = script(folder, "old", "echo \"error: unexpected argument '--list'\" >&2; exit 2");
    let (exit, refused) = run(folder, &["whatif", "--build", &old]);
    assert!(exit == 6 && refused.as_str().unwrap().contains("unexpected argument '--list'"), "{refused}");
    assert_eq!(run(folder, &["whatif", "--build", "./nowhere"]).0, 2);
    let (exit, refused) = run(folder, &["whatif", "--build", TURNFOLD, "--set", CHANGE]);
    assert!(exit == 2 && refused.as_str().unwrap().contains("compares two builds"), "{refused}");
}

#[test]
fn a_list_is_forked_once_however_often_the_command_runs() {
    let dev = Dev::start();
    let run = |args: &[&str]| {
        let output = turnfold(dev.folder()).args(["--url", &dev.url]).args(args).output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (output.status.code().unwrap(), out, err)
    };
    let thread = |words: &str| {
        let (exit, out, err) = run(&["turn", "send", "-g", "probe", words, "--wait", "-o", "json"]);
        assert_eq!(exit, 0, "{out} {err}");
        serde_json::from_str::<Value>(&out).unwrap()["thread_id"].as_str().unwrap().to_owned()
    };
    let (a, b) = (thread("echo one"), thread("echo two"));
    let list = dev.folder().join("list.jsonl");
    let fork = |lines: &str, more: &[&str]| {
        fs::write(&list, lines).unwrap();
        run(&[&["thread", "fork", "--from-list", list.to_str().unwrap()], more].concat())
    };
    let pairs = |out: &str| -> Vec<Vec<String>> {
        out.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
    };
    let first = fork(&a, &[]);
    assert_eq!(first.0, 0, "{first:?}");
    assert!(first.2.contains("live tools"), "it warns: {first:?}");
    let both = fork(&format!("{a}\n{b}\n"), &[]);
    let (one, two) = (pairs(&first.1), pairs(&both.1));
    assert_eq!((two[0].clone(), two[1][0].as_str()), (one[0].clone(), b.as_str()), "the first fork is known");
    assert_eq!(pairs(&fork(&format!("{a}\n{b}\n"), &[]).1), two);
    let others = fork(&format!("{{\"thread\": \"{a}\", \"at\": 0}}\n{a}\n"), &["--idempotency-key", "again"]);
    let others = pairs(&others.1);
    assert!(others.len() == 2 && others[0][1] != others[1][1] && others[1][1] != one[0][1], "{others:?}");

    let gone = "01900000-0000-7000-8000-000000000001";
    let partial = fork(&format!("{gone}\n{b}\n"), &[]);
    assert_eq!((partial.0, pairs(&partial.1)), (5, vec![two[1].clone()]), "{partial:?}");
    assert!(partial.2.contains(gone) && partial.2.contains("1 of 2 threads forked"), "{partial:?}");
    assert_eq!(fork("01a2", &[]).0, 2);

    // A thread that wrote after the event is forked only after a confirmation.
    let planned = import(dev.folder());
    let refused = fork(&format!("{{\"thread\": \"{planned}\", \"at\": 5}}"), &[]);
    assert!(refused.0 == 2 && refused.2.contains("may make them again"), "{refused:?}");
    assert!(refused.2.contains("--yes"), "{refused:?}");
}
