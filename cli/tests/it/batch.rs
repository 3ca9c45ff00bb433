//! `turnfold batch`, as far as it needs no server: checking a file, and what is refused before anything is sent.

use std::{fs, path::Path, process::Output};

use serde_json::{Value, json};

use crate::engine::turnfold;

fn run(folder: &Path, args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = turnfold(folder).arg("batch").args(args).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn line(id: &str) -> String {
    json!({"custom_id": id, "method": "POST", "url": "/v1/turns", "body": {}}).to_string()
}

#[test]
fn a_file_is_checked_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    at("good.jsonl", &format!("{}\n\n{}\n", line("a"), line("b")));
    let (code, out, _) = run(folder.path(), &["validate", "good.jsonl"]);
    assert_eq!((code, out.trim()), (0, "good.jsonl: nothing is wrong with its lines, 2 for /v1/turns"));

    at("bad.jsonl", &format!("{}\nnot json\n{}\n", line("a"), line("a")));
    let (code, out, _) = run(folder.path(), &["validate", "bad.jsonl"]);
    assert_eq!(code, 1, "{out}");
    assert!(
        out.contains("bad.jsonl:2: no JSON") && out.contains("bad.jsonl:3: custom_id \"a\" stands on line 1"),
        "{out}"
    );
    assert!(out.contains("2 of 3 lines cannot be run"), "{out}");
    let (code, out, _) = run(folder.path(), &["validate", "bad.jsonl", "-o", "json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["faulty"], &report["faults"][0]["line"]),
        (1, &json!(2), &json!(2)),
        "{report}"
    );

    let many: String = (0..200).map(|n| format!("oops {n}\n")).collect();
    at("many.jsonl", &many);
    let (code, out, _) = run(folder.path(), &["validate", "many.jsonl"]);
    assert!(code == 1 && out.contains("… and 100 more") && out.contains("200 of 200"), "{out}");
    let long = line("a").replace("{}", &json!({"pad": "x".repeat(2000)}).to_string());
    at("long.jsonl", &long);
    let (code, out, _) = run(folder.path(), &["validate", "long.jsonl", "--set", "batch.line_kib=1"]);
    assert!(code == 1 && out.contains("longer than 1024 bytes"), "{out}");
}

#[test]
fn what_cannot_be_done_is_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("good.jsonl"), line("a")).unwrap();
    fs::write(folder.path().join("bad.jsonl"), "oops").unwrap();
    let nobody = ["--url", "http://127.0.0.1:1"];
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let told = run(folder.path(), &[args, &nobody].concat());
        assert_eq!(told.0, code, "{args:?}: {told:?}");
        for word in words {
            assert!(told.2.contains(word), "{word:?} in {told:?}");
        }
    };
    refused(&["validate", "none.jsonl"], 2, &["none.jsonl"]);
    refused(&["submit", "bad.jsonl"], 2, &["bad.jsonl:1: no JSON", "nothing was submitted"]);
    refused(&["submit", "good.jsonl"], 4, &["nobody answers"]);
    refused(&["submit", "good.jsonl", "--reuse", "some"], 2, &["none"]);
    refused(&["submit", "good.jsonl", "--quote"], 2, &["nobody can be asked", "--yes", "batch quote FILE"]);
    refused(&["run", "good.jsonl", "--out", "o.jsonl", "--quote"], 2, &["nobody can be asked"]);
    refused(&["submit", "good.jsonl", "--quote", "--yes"], 4, &["nobody answers"]);
    refused(&["submit", "good.jsonl", "--yes"], 2, &["--quote"]);
    refused(&["run", "good.jsonl"], 2, &["--out"]);
    refused(&["run", "good.jsonl", "--out", "."], 2, &["is a folder"]);
    refused(&["results", "batch_1", "--format", "parquet"], 2, &["--out FILE"]);
    refused(&["results", "batch_1"], 4, &["nobody answers"]);
    refused(&["resume", "batch_1", "--only", "all"], 2, &["failed", "expired"]);
    let local = [
        "run",
        "good.jsonl",
        "--out",
        "o.jsonl",
        "--local",
        "--set",
        "store.url=postgres://nobody@127.0.0.1:1/x",
    ];
    refused(&local, 2, &["--local", "store.url"]);
    assert!(!folder.path().join("o.jsonl").exists() && !folder.path().join("o.jsonl.part").exists());
}
