//! Checkpoints, verification, proofs and golden logs, from the command line.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};
use store::{NewTurn, Opening, Store, ThreadId};

use crate::engine::turnfold;

fn run(folder: &Path, args: &[&str]) -> (i32, Value, String) {
    let output = turnfold(folder).args(["-o", "json"]).args(args).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap_or_default(), printed)
}

fn printed_by(folder: &Path, args: &[&str]) -> String {
    let output = turnfold(folder).args(args).output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

async fn submitted(store: &Store) -> ThreadId {
    let opened = serde_json::from_value(json!({"format": shared::FORMAT, "strategy": "probe"})).unwrap();
    let new = NewTurn::of(Opening::New(opened), vec![shared::Message::user("hello")], String::new());
    store.submit(new).await.unwrap().into_turn().thread
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_attested_verified_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(run(folder, &["migrate"]).0, 0);
    let store =
        Store::connect(&format!("sqlite:{}", folder.join(".turnfold/turnfold.db").display())).await.unwrap();
    let (thread, other) = (submitted(&store).await, submitted(&store).await);
    let id = thread.to_string();

    let (exit, _, printed) = run(folder, &["audit", "checkpoint", "--to", "witness"]);
    assert!(exit == 2 && printed.contains(".turnfold/audit.key"), "there is no key yet: {printed}");
    let (exit, made, printed) = run(folder, &["audit", "key", "new", "--name", "example.org/turnfold"]);
    let vkey = made["vkey"].as_str().unwrap().to_owned();
    assert!(
        exit == 0 && vkey.starts_with("example.org/turnfold+") && !printed.contains("PRIVATE"),
        "{printed}"
    );
    let secret = fs::read_to_string(folder.join(".turnfold/audit.key")).unwrap();
    let secret = secret.lines().next().unwrap();
    assert!(!printed_by(folder, &["audit", "key", "show"]).contains(secret));
    let (exit, _, printed) = run(folder, &["audit", "key", "new"]);
    assert!(exit == 2 && printed.contains("audit key show"), "a key is never overwritten: {printed}");

    let (exit, made, _) = run(folder, &["audit", "checkpoint", "--to", "witness"]);
    assert_eq!((exit, &made["size"], &made["added"]), (0, &json!(2), &json!(2)), "{made}");
    let note = fs::read_to_string(folder.join("witness/checkpoint")).unwrap();
    assert!(
        note.starts_with("example.org/turnfold\n2\n") && note.contains("\n\n\u{2014} example.org/turnfold "),
        "{note}"
    );

    let unchecked = run(folder, &["audit", "verify"]);
    assert_eq!((unchecked.0, &unchecked.1["verdict"]), (6, &json!("not_checked")));
    let held: Vec<&str> = vec!["audit", "verify", "--checkpoint", "witness", "--vkey", &vkey];
    let intact = run(folder, &held);
    assert_eq!(
        (intact.0, &intact.1["verdict"], &intact.1["attested"]),
        (0, &json!("intact"), &json!(2)),
        "{intact:?}"
    );
    assert_eq!(run(folder, &[&held[..], &["--all"]].concat()).0, 0);
    assert_eq!(run(folder, &[&held[..], &[&id]].concat()).0, 0);
    assert!(printed_by(folder, &held).starts_with("INTACT\n"));

    let (exit, proof, _) = run(folder, &["audit", "export", &id, "--proof", "witness", "--to", "bundle"]);
    assert_eq!((exit, &proof["attested"]), (0, &json!(1)), "{proof}");
    let python = test_servers::pip(&[("cryptography", "50.0.2")]).join("bin/python");
    let checked = Command::new(python).arg(folder.join("bundle/verify.py")).arg(&vkey).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));

    let checked = run(folder, &["audit", "check", "bundle", "--vkey", &vkey]);
    assert_eq!((checked.0, &checked.1["verdict"]), (0, &json!("intact")), "{checked:?}");
    assert_eq!(run(folder, &["audit", "check", "bundle"]).0, 6, "the signer is unknown");
    assert_eq!(run(folder, &["audit", "check", "nowhere"]).0, 2);
    let (exit, _, printed) = run(folder, &[&held[..], &["--witness", &vkey]].concat());
    assert!(exit == 2 && printed.contains("no key of a witness"), "{printed}");

    store::testing::tamper::execute(&store, "UPDATE events SET at = at + 1 WHERE thread_id = $1", thread)
        .await
        .unwrap();
    store::testing::tamper::execute(&store, "DELETE FROM events WHERE thread_id = $1", other).await.unwrap();
    let (exit, found, _) = run(folder, &held);
    let wrong = |id: ThreadId| {
        let of = |finding: &&Value| finding["thread"] == json!(id) && finding["seq"] == json!(0);
        found["findings"].as_array().unwrap().iter().find(of).map(|finding| finding["wrong"].clone())
    };
    assert_eq!((exit, &found["verdict"]), (1, &json!("tampered")), "{found}");
    assert_eq!((wrong(thread), wrong(other)), (Some(json!("broken")), Some(json!("removed"))), "{found}");
    assert!(printed_by(folder, &held).starts_with("TAMPERED: "));
    let (exit, made, _) = run(folder, &["audit", "checkpoint", "--to", "witness"]);
    assert_eq!((exit, &made["found"]), (1, &json!(1)), "a log whose end has not moved is not read: {made}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_administrative_log_is_shown_and_a_key_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(run(folder, &["migrate"]).0, 0);
    let store =
        Store::connect(&format!("sqlite:{}", folder.join(".turnfold/turnfold.db").display())).await.unwrap();
    let id = submitted(&store).await.to_string();
    assert_eq!(run(folder, &["thread", "hold", &id, "--reason", "case 17"]).0, 0);
    assert_eq!(run(folder, &["thread", "release", &id, "--reason", "it is closed"]).0, 0);
    let (exit, log, _) = run(folder, &["audit", "log", "--since", "1h"]);
    let kinds: Vec<&str> = log.as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap()).collect();
    assert_eq!((exit, kinds), (0, vec!["hold_released", "hold_placed"]));
    assert_eq!((&log[0]["reason"], &log[1]["reason"]), (&json!("it is closed"), &json!("case 17")));
    let (_, log, _) = run(folder, &["audit", "log", "--kind", "hold_placed"]);
    assert_eq!(log.as_array().unwrap().len(), 1);
    assert!(printed_by(folder, &["audit", "log"]).contains("it is closed"));
    assert_eq!(run(folder, &["audit", "log", "--kind", "nonsense"]).0, 2);

    let (_, made, _) = run(folder, &["audit", "key", "new", "--name", "example.org/turnfold"]);
    let old = made["vkey"].as_str().unwrap();
    let (_, made, _) = run(folder, &["audit", "checkpoint", "--to", "witness"]);
    assert_eq!(made["size"], json!(2), "a thread and a log: {made}");
    let export =
        ["--tenant", "default", "audit", "export", "--admin-log", "--proof", "witness", "--to", "log"];
    assert_eq!(run(folder, &export).0, 0);
    let checked = run(folder, &["audit", "check", "log", "--vkey", old]);
    assert_eq!((checked.0, &checked.1["verdict"]), (0, &json!("intact")), "{checked:?}");
    let rotate = ["audit", "key", "rotate", "--to", "witness", "--new-key", "new.key"];
    let (exit, made, printed) = run(folder, &rotate);
    assert!(exit == 0 && made["vkey"] != json!(old) && printed.contains("destroy the old one"), "{printed}");
    assert_eq!(run(folder, &rotate).0, 2, "a key is never overwritten");
    assert_eq!(run(folder, &["audit", "verify", "--checkpoint", "witness", "--vkey", old]).0, 0);
}

#[test]
fn golden_logs_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (exit, checked, _) = run(folder.path(), &["schema", "check"]);
    assert_eq!(
        (exit, &checked["kinds"], &checked["breaches"]),
        (0, &json!(shared::Event::KINDS.len()), &json!([])),
        "{checked}"
    );
    assert!(printed_by(folder.path(), &["schema", "check"]).contains("all are read as they were written"));
}

#[test]
fn approvals_are_listed_as_text_json_and_csv() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(run(folder, &["migrate"]).0, 0);
    let fixture =
        crate::engine::fixtures().join("action_plan/approve_the_plan_alone_and_change_what_was_shown.jsonl");
    let (exit, imported, printed) = run(folder, &["thread", "import", fixture.to_str().unwrap()]);
    assert_eq!(exit, 0, "{printed}");
    let id = imported["id"].as_str().unwrap();

    let (exit, listed, printed) = run(folder, &["audit", "approvals", "--thread", id]);
    assert_eq!((exit, listed.as_array().map(Vec::len)), (0, Some(2)), "{listed} {printed}");
    assert_eq!(listed[0]["calls"][0]["arguments"]["hour"], 12, "{listed}");
    assert_eq!(listed[0]["calls"][0]["executions"][0]["ending"], "failed", "{listed}");

    let text = printed_by(folder, &["audit", "approvals"]);
    assert!(
        text.starts_with("2 approvals\n") && text.contains("calendar.book {\"day\":\"Friday\",\"hour\":15"),
        "{text}"
    );
    assert!(text.contains("approved  "), "{text}");

    let csv = printed_by(folder, &["audit", "approvals", "--csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("thread,tenant,strategy,batch,event,shown_at,"), "{csv}");
    assert!(csv.contains("\"{\"\"day\"\":\"\"Friday\"\",\"\"hour\"\":15,"), "{csv}");
    let of_another = run(folder, &["audit", "approvals", "--person", "bert"]);
    assert_eq!((of_another.0, of_another.1), (0, json!([])));
}
