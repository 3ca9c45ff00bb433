//! The benchmark measures the requested figures, judges them, and reports them as text and as JSON. The values are
//! not tested: this machine is busy.

use std::process::{Command, Output};

use serde_json::Value;

fn bench(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_bench")).args(args).output();
    output.expect("failed to start the bench")
}

#[test]
fn tiny_figures_have_a_floor_a_ratio_and_conditions() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let output = bench(&["--short", "replay.memory", "steps.sqlite.1.", "--json", file.to_str().unwrap()]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{err}");
    assert!(out.contains("T6 ≥ 1000000") && out.contains("replay.memory"), "{out}");

    let report: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(report["effort"], "short");
    let figures = report["figures"].as_array().unwrap();
    let named = |name: &str| {
        figures.iter().find(|figure| figure["name"].as_str().unwrap().starts_with(name)).unwrap()
    };
    for name in ["replay.memory", "steps.sqlite.1."] {
        let figure = named(name);
        for number in
            ["/value/median", "/floor/value/median", "/ratio/low", "/machine/fdatasync_micros/median"]
        {
            let value = figure.pointer(number).and_then(Value::as_f64);
            assert!(value.is_some_and(|number| number > 0.0), "{number} of {figure:#}");
        }
        assert_eq!(figure["value"]["rounds"], 3);
        let others = figure["machine"]["foreign_cpu"]["median"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&others), "{figure:#}");
    }
    assert_eq!(named("replay.memory")["target"]["id"], "T6");
    assert!(named("steps.sqlite.1.")["target"].is_null(), "a target is for 512 in flight");
}

#[test]
fn figures_are_chosen_by_name() {
    let names = |args: &[&str]| String::from_utf8(bench(args).stdout).unwrap();
    assert!(names(&["--list"]).lines().count() > 10);
    assert_eq!(names(&["--list", "replay"]), "replay.memory\nreplay.cold\n");
    // A line's own name selects its figure.
    assert_eq!(names(&["--list", "replay.cold.1000.cpu", "memory"]), "replay.cold\nmemory\n");
    let unknown = bench(&["--list", "replay", "gone"]);
    let stderr = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        !unknown.status.success() && stderr.contains("no figure is called \"gone\"; there are: "),
        "{stderr}"
    );
}
