//! `turnfold fixture test`: fixtures tested without cargo, with the configuration of the project.

use std::{fs, path::Path};

use serde_json::Value;

use crate::engine::{fixtures, turnfold};

/// Runs the tests. Returns the exit code, the report, and what was printed as an error.
fn run(folder: &Path, args: &[&str]) -> (i32, Value, String) {
    let output = turnfold(folder).args(["-o", "json", "fixture", "test"]).args(args).output().unwrap();
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code().unwrap(), report, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Names of the failed cases.
fn failed(report: &Value) -> Vec<&str> {
    let cases = report["cases"].as_array().unwrap().iter();
    cases.filter(|case| case["passed"] == false).map(|case| case["name"].as_str().unwrap()).collect()
}

/// Returns a folder with two fixtures of the planner whose snapshots are accepted.
fn project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let of_planner = folder.path().join("fixtures/planner");
    fs::create_dir_all(&of_planner).unwrap();
    for name in ["two_tasks", "clarification"] {
        let name = format!("{name}.jsonl");
        fs::copy(fixtures().join("planner").join(&name), of_planner.join(&name)).unwrap();
    }
    let (exit, report, error) = run(folder.path(), &[]);
    assert_eq!(exit, 1, "{error}");
    assert_eq!(failed(&report), ["transcript clarification", "transcript two_tasks", "map", "prompts"]);
    assert!(report["cases"][0]["why"].as_str().unwrap().contains("no snapshot is accepted yet"), "{report}");
    let (exit, report, error) = run(folder.path(), &["--accept"]);
    assert_eq!((exit, report["accepted"].as_array().unwrap().len()), (0, 4), "{error}");
    assert_eq!(run(folder.path(), &[]).0, 0, "what is accepted passes");
    folder
}

#[test]
fn fixtures_are_tested_without_cargo() {
    let folder = project();
    let folder = folder.path();
    let snap = fs::read_to_string(folder.join("fixtures/planner/two_tasks.snap")).unwrap();
    let ours = fs::read_to_string(fixtures().join("planner/two_tasks.snap")).unwrap();
    let body = |text: &str| text.split_once("\n---\n").unwrap().1.trim_end().to_owned();
    assert_eq!(body(&snap), body(&ours), "the same transcript as in a test crate");

    // Another answer of the model.
    let path = folder.join("fixtures/planner/two_tasks.jsonl");
    let recorded = fs::read_to_string(&path).unwrap();
    assert!(recorded.contains("\\\"task\\\":\\\""));
    fs::write(&path, recorded.replacen("\\\"task\\\":\\\"", "\\\"task\\\":\\\"otherwise ", 1)).unwrap();
    let junit = folder.join("results.xml");
    let (exit, report, error) = run(folder, &["--junit", junit.to_str().unwrap()]);
    assert_eq!(exit, 1, "{error}");
    assert!(failed(&report).contains(&"transcript two_tasks"), "{report}");
    assert!(!failed(&report).contains(&"transcript clarification"), "{report}");
    let junit = fs::read_to_string(junit).unwrap();
    assert!(
        junit.contains(r#"<testsuite name="planner" tests="6""#) && junit.contains("otherwise"),
        "{junit}"
    );

    let output = turnfold(folder).args(["fixture", "test"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(printed.contains("FAILED planner transcript two_tasks"), "{printed}");
    assert!(printed.contains("\n    + ") && printed.contains("fixture test --accept"), "{printed}");
    fs::write(&path, recorded).unwrap();
    assert_eq!(run(folder, &[]).0, 0);

    // An edge that no fixture takes any more.
    fs::remove_file(folder.join("fixtures/planner/clarification.jsonl")).unwrap();
    let (exit, report, _) = run(folder, &[]);
    assert!(exit == 1 && failed(&report).contains(&"map"), "{report}");
}

#[test]
fn the_configuration_of_the_project_is_tested() {
    let folder = project();
    let folder = folder.path();
    let configure = |confidence: &str| {
        let toml = format!("[strategies.planner]\nconfidence = {confidence}\n");
        fs::write(folder.join("turnfold.toml"), toml).unwrap();
    };
    configure("0.5");
    let (exit, report, error) = run(folder, &[]);
    assert_eq!((exit, failed(&report)), (1, vec!["settings"]), "{error}");
    assert_eq!(run(folder, &["--accept"]).0, 0);
    let path = folder.join("fixtures/planner/settings.snap");
    let settings = fs::read_to_string(&path).unwrap();
    assert!(settings.contains("\"confidence\": 0.5"), "{settings}");
    assert!(settings.contains("two_tasks: as recorded"), "{settings}");

    // A threshold that changes the way of a fixture.
    configure("1.0");
    let (exit, report, _) = run(folder, &[]);
    assert_eq!((exit, failed(&report)), (1, vec!["settings"]));
    let why = report["cases"].as_array().unwrap().last().unwrap()["why"].as_str().unwrap();
    assert!(why.contains("+ two_tasks: event ") && why.contains("- two_tasks: as recorded"), "{why}");

    // Settings that are gone differ too.
    fs::write(folder.join("turnfold.toml"), "").unwrap();
    assert_eq!(failed(&run(folder, &[]).1), ["settings"]);
    let refreshed = turnfold(folder).args(["fixture", "refresh"]).output().unwrap();
    assert!(refreshed.status.success() && path.with_extension("snap.new").exists());
    assert_eq!(run(folder, &["--accept"]).0, 0);
    assert!(!path.with_extension("snap.new").exists(), "a proposal ends when it is accepted");
}
