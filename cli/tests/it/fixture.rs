//! Fixtures: captured from a database, checked, covered, refreshed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use queue::clock;
use serde_json::{Value, json};
use shared::{Event, rerun};
use store::{Store, ThreadId};
use threads::{ImportedEvent, StrategyRegistry};

use crate::engine::{fixtures, turnfold};

/// Returns a folder with an empty database.
async fn database() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    assert!(turnfold(folder.path()).arg("migrate").status().unwrap().success());
    let url = format!("sqlite:{}", folder.path().join(".turnfold/turnfold.db").display());
    (folder, Store::connect(&url).await.unwrap())
}

fn run(folder: &Path, args: &[&str]) -> (i32, Value, String) {
    let output = turnfold(folder).args(["-o", "json", "fixture"]).args(args).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code().unwrap(), report, printed)
}

fn printed_by(folder: &Path, args: &[&str]) -> String {
    let output = turnfold(folder).arg("fixture").args(args).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// Returns the log that a worker would have written for a fixture.
fn log(strategy: &str, name: &str) -> Vec<Event> {
    let graph = strategies::find(strategy).unwrap();
    let text = fs::read_to_string(fixtures().join(strategy).join(format!("{name}.jsonl"))).unwrap();
    let script: Vec<Event> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    rerun(graph, &script).unwrap().log
}

async fn keep(store: &Store, log: &[Event]) -> (ThreadId, String) {
    let id = uuid::Uuid::now_v7();
    let imported = |event: &Event| ImportedEvent {
        at: clock::now(),
        kind: event.kind().to_owned(),
        payload: event.payload().unwrap(),
    };
    let mut log = log.to_vec();
    threads::rename_turns(&mut log);
    let log = log.iter().map(imported).collect();
    let strategies = StrategyRegistry::new(strategies::all());
    threads::import_thread(store, &strategies, id, log, Vec::new()).await.unwrap();
    (id, id.to_string())
}

/// Replaces `word` by `secret` in a log.
fn with(log: &[Event], word: &str, secret: &str) -> Vec<Event> {
    let text = serde_json::to_string(log).unwrap();
    assert!(text.contains(word));
    serde_json::from_str(&text.replace(word, secret)).unwrap()
}

/// Accepts new snapshots, as `cargo insta accept` does.
fn accept(folder: &Path) -> Vec<PathBuf> {
    let pending = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pending: Vec<_> = pending.filter(|path| path.to_string_lossy().ends_with(".snap.new")).collect();
    pending.iter().for_each(|path| fs::rename(path, path.with_extension("")).unwrap());
    pending
}

#[tokio::test(flavor = "multi_thread")]
async fn a_captured_thread_has_no_secrets_and_is_maintained() {
    let (folder, store) = database().await;
    let folder = folder.path();
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let (_, id) = keep(&store, &with(&log("planner", "two_tasks"), "Arden", &token)).await;

    let (exit, captured, printed) = run(folder, &["capture", &id]);
    assert_eq!(exit, 0, "{printed}");
    assert_eq!(captured["fixture"], "fixtures/planner/planner_1.jsonl");
    assert_eq!(captured["secrets"], json!({"a token of GitHub": 1}));
    assert!(captured["changed_answers"].as_u64() > Some(5), "{captured}");
    let path = folder.join(captured["fixture"].as_str().unwrap());
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("SECRET_1") && !text.contains("ghp_"), "{text}");
    let pending = accept(path.parent().unwrap());
    assert_eq!(pending.len(), 3, "its transcript, the map and the prompts: {pending:?}");
    for path in pending {
        assert!(!fs::read_to_string(path.with_extension("")).unwrap().contains("ghp_"));
    }
    // An existing fixture is not overwritten.
    let (exit, _, printed) = run(folder, &["capture", &id, "--name", "planner_1"]);
    assert!(exit == 2 && printed.contains("--name"), "{printed}");
    let (exit, _, printed) = run(folder, &["capture", &id, "--name", "../elsewhere"]);
    assert!(exit == 2 && printed.contains("invalid fixture name"), "{printed}");
    assert_eq!(run(folder, &["capture", &id, "--name", "again"]).0, 0);
    accept(path.parent().unwrap());

    let (exit, checked, _) = run(folder, &["check"]);
    assert_eq!((exit, &checked["fixtures"], &checked["findings"]), (0, &json!(2), &json!([])));
    let (_, coverage, _) = run(folder, &["coverage"]);
    let planner = coverage.as_array().unwrap().iter().find(|row| row["strategy"] == "planner").unwrap();
    assert_eq!((&planner["fixtures"], &planner["nodes"]["covered"]), (&json!(2), &json!(7)), "{planner}");
    assert!(planner["edges"]["uncovered"].as_array().unwrap().contains(&json!("plan → a person → plan")));
    assert!(printed_by(folder, &["coverage"]).contains("planner does not cover"));
    assert!(printed_by(folder, &["refresh"]).contains("every file is up to date"));

    // Decisions are rewritten, recorded answers stay.
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let asked = lines.iter().position(|line| line.contains("\"event\":\"asked\"")).unwrap();
    lines[asked] = lines[asked].replacen("\"system\":\"", "\"system\":\"Once upon a time. ", 1);
    fs::write(&path, lines.join("\n")).unwrap();
    let printed = printed_by(folder, &["check"]);
    let place = format!(
        "{}:{}: plan makes a different request today",
        captured["fixture"].as_str().unwrap(),
        asked + 1
    );
    assert!(
        printed.contains(&place) && printed.contains("first difference at system, character 1:"),
        "{printed}"
    );
    let printed = printed_by(folder, &["refresh"]);
    assert!(printed.contains("1 file changed:") && printed.contains("cargo insta review"), "{printed}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text);

    // An unused answer, an unanswered request, and a secret.
    let outside: Vec<&str> =
        text.lines().filter(|line| serde_json::from_str::<Event>(line).unwrap().is_external()).collect();
    let by_hand = path.with_file_name("by_hand.jsonl");
    let last = outside.last().unwrap();
    fs::write(&by_hand, [outside.as_slice(), &[*last]].concat().join("\n")).unwrap();
    let printed = printed_by(folder, &["check"]);
    assert!(
        printed.contains(&format!("by_hand.jsonl:{}: no longer asked for: answered", outside.len() + 1)),
        "{printed}"
    );
    let (exit, refreshed, _) = run(folder, &["refresh"]);
    assert!(
        exit == 1 && refreshed["diverged"][0]["what"].as_str().unwrap().contains("capture the thread again")
    );
    fs::write(&by_hand, outside[..outside.len() - 1].join("\n").replace("SECRET_1", &token)).unwrap();
    let printed = printed_by(folder, &["check"]);
    let missing = format!("by_hand.jsonl:{}: no answer for a request: chat", outside.len() - 1);
    assert!(printed.contains(&missing) && printed.contains("nearest recorded request: chat"), "{printed}");
    assert!(
        printed.contains("by_hand.jsonl:6: answered.response.text contains a token of GitHub"),
        "{printed}"
    );
    assert!(!printed.contains("ghp_"), "a secret is never printed: {printed}");
    fs::write(&by_hand, "{}").unwrap();
    assert!(printed_by(folder, &["check"]).contains("by_hand.jsonl:1: this is not an event"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixture_that_would_test_nothing_is_refused() {
    let (folder, store) = database().await;
    let folder = folder.path();
    let whole = log("planner", "two_tasks");
    let refused = |id: &str, more: &[&str]| {
        let (exit, _, printed) = run(folder, &[&["capture", id], more].concat());
        assert_eq!(exit, 1, "{printed}");
        assert!(!folder.join("fixtures").exists(), "nothing is written: {printed}");
        printed
    };

    let (_, id) = keep(&store, &whole[..whole.len() - 1]).await;
    assert!(refused(&id, &[]).contains("the thread has a running turn"));
    let (_, id) = keep(&store, &whole[..1]).await;
    assert!(refused(&id, &[]).contains("its first turn has not started"));

    // A decision of another version of the code.
    let mut other = whole.clone();
    let at = other.iter().position(|event| matches!(event, Event::Asked(_))).unwrap();
    if let Event::Asked(asked) = &mut other[at]
        && let shared::Request::Chat { system, .. } = &mut asked.requests[0]
    {
        system.push_str(" Be brief.");
    }
    let (_, id) = keep(&store, &other).await;
    let printed = refused(&id, &[]);
    assert!(
        printed.contains("does not reproduce event 2") && printed.contains("requests[0].system, character"),
        "{printed}"
    );

    // Errors do not contain secrets.
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let (_, id) = keep(&store, &with(&whole, "Friday", &token)).await;
    let printed = refused(&id, &[]);
    assert!(printed.contains("does not reproduce event") && !printed.contains("ghp_"), "{printed}");

    // A value that decides the plan cannot be redacted.
    let (_, id) = keep(&store, &whole).await;
    let printed = refused(&id, &["--set", r#"fixture.secrets=["replace"]"#]);
    assert!(printed.contains("without its secrets the log differs"), "{printed}");
    let (exit, _, printed) = run(folder, &["capture", &id, "--set", r#"fixture.secrets=["("]"#]);
    assert!(
        exit == 2 && printed.contains("fixture.secrets") && printed.contains("is not a regular expression"),
        "{printed}"
    );

    // A configured pattern.
    let (exit, captured, printed) = run(folder, &["capture", &id, "--set", r#"fixture.secrets=["Arden"]"#]);
    assert_eq!((exit, &captured["secrets"]), (0, &json!({"what fits \"Arden\"": 1})), "{printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fewest_threads_are_suggested() {
    let (folder, store) = database().await;
    let folder = folder.path();
    fs::create_dir_all(folder.join("fixtures/probe")).unwrap();
    let (two, two_id) = keep(&store, &log("planner", "two_tasks")).await;
    let (short, _) = keep(&store, &log("planner", "clarification")).await;
    keep(&store, &log("planner", "two_tasks")).await;
    let (exit, printed, error) = run(folder, &["suggest"]);
    assert_eq!(exit, 0, "{error}");
    let threads = printed["threads"].as_array().unwrap();
    let ids: Vec<_> = threads.iter().map(|thread| thread["thread"].as_str().unwrap().to_owned()).collect();
    let both = [two.to_string(), short.to_string()];
    assert!(ids.len() == 2 && both.iter().all(|id| ids.contains(id)), "{printed}");
    assert_eq!(printed["read"]["threads"], 3);
    assert_eq!(run(folder, &["capture", &two_id]).0, 0);
    let (_, printed, _) = run(folder, &["suggest"]);
    assert_eq!(printed["threads"][0]["thread"], json!(short), "{printed}");
    assert_eq!(printed["threads"].as_array().unwrap().len(), 1);
    // None of these threads has a turn that failed.
    assert_eq!(run(folder, &["suggest", "--where", "status = failed"]).1["read"]["threads"], 0);
    let (exit, _, error) = run(folder, &["suggest", "--where", "state = failed"]);
    assert!(exit == 2 && error.contains("--where") && error.contains("there is no field state"), "{error}");
    let (exit, _, error) = run(folder, &["suggest", "--since", "soon"]);
    assert!(exit == 2 && error.contains("--since"), "{error}");
    assert!(printed_by(folder, &["check", "nowhere"]).contains("there is no folder nowhere"));
    fs::create_dir(folder.join("nowhere")).unwrap();
    assert!(printed_by(folder, &["coverage", "nowhere"]).contains("FOLDER/STRATEGY/NAME.jsonl"));
}
