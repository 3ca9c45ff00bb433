//! The dashboard and the alert rules in `ops/` are valid, and use only metrics and labels that exist.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use metrics::{Description, metrics};
use regex::Regex;
use serde_json::Value;

use crate::engine::fixtures;

fn ops(name: &str) -> String {
    fs::read_to_string(fixtures().join("../ops").join(name)).unwrap()
}

/// Returns the metric of a series; a histogram has three.
fn described(series: &str) -> Option<&'static Description> {
    let all = metrics().descriptions();
    let of = |suffix: &str| {
        let base = series.strip_suffix(suffix)?;
        all.iter().find(|metric| metric.kind == "histogram" && metric.name() == base)
    };
    let plain = || all.iter().find(|metric| metric.kind != "histogram" && metric.name() == series);
    plain().or_else(|| ["_bucket", "_sum", "_count"].into_iter().find_map(of))
}

/// Checks the queries of a file. Returns the series that they read.
fn check(file: &str, queries: &[String]) -> BTreeSet<String> {
    let selector = Regex::new(r"(turnfold_[a-z_]+)(?:\{([^}]*)\})?").unwrap();
    let label = Regex::new(r#"([a-z_]+)\s*(?:=~|!~|!=|=)\s*""#).unwrap();
    let grouped = Regex::new(r"by \(([a-z_, ]+)\)").unwrap();
    let mut read = BTreeSet::new();
    for query in queries {
        let mut labels = BTreeSet::new();
        for found in selector.captures_iter(query) {
            let metric =
                described(&found[1]).unwrap_or_else(|| panic!("{file}: no metric {} in {query}", &found[1]));
            for matcher in label.captures_iter(found.get(2).map_or("", |group| group.as_str())) {
                assert!(
                    metric.labels.contains(&&matcher[1]),
                    "{file}: {} has no label {}",
                    metric.name(),
                    &matcher[1]
                );
            }
            labels.extend(metric.labels.iter().copied().chain(["le"]));
            read.insert(metric.name());
        }
        for name in grouped
            .captures_iter(query)
            .flat_map(|group| group[1].split(", ").map(str::to_owned).collect::<Vec<_>>())
        {
            assert!(labels.contains(name.as_str()), "{file}: no label {name} in {query}");
        }
    }
    assert!(!read.is_empty(), "{file} reads nothing");
    read
}

/// Collects the texts with this key, at any depth.
fn collect_texts(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(key).and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| collect_texts(value, key, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, key, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let dashboard: Value = serde_json::from_str(&ops("grafana.json")).unwrap();
    let mut queries = Vec::new();
    collect_texts(&dashboard, "expr", &mut queries);
    let shown = check("grafana.json", &queries);
    let unshown: Vec<String> = metrics()
        .descriptions()
        .iter()
        .map(Description::name)
        .filter(|name| {
            !shown.contains(name)
                && !["turnfold_build_info", "turnfold_tenant_tokens_total"].contains(&name.as_str())
        })
        .filter(|name| name != "turnfold_commit_errors_total")
        .collect();
    assert!(unshown.is_empty(), "the dashboard lacks {unshown:?}");
}

#[test]
fn the_alerts_use_metrics_that_exist_and_say_what_to_do() {
    let rules = ops("alerts.yml");
    let values = |key: &str| -> Vec<String> {
        let start = format!("{key}: ");
        rules
            .lines()
            .filter_map(|line| line.trim_start().trim_start_matches("- ").strip_prefix(&start))
            .map(str::to_owned)
            .collect()
    };
    let queries = values("expr");
    check("alerts.yml", &queries);
    for key in ["alert", "summary", "description", "labels"] {
        assert_eq!(values(key).len(), queries.len(), "every rule has one {key}");
    }
}

/// Runs Prometheus' own tool in the folder of a file.
#[track_caller]
fn promtool(args: [&str; 2], file: &Path) {
    let mut command = Command::new(test_servers::promtool());
    command.args(args).arg(file.file_name().unwrap()).current_dir(file.parent().unwrap());
    let output = command.output().unwrap();
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(output.status.success(), "{args:?} {}: {text}", file.display());
}

#[test]
fn prometheus_accepts_the_alerts_and_they_fire_when_they_should() {
    let ops = fixtures().join("../ops");
    promtool(["check", "rules"], &ops.join("alerts.yml"));
    promtool(["test", "rules"], &ops.join("alerts_test.yml"));
    let text = |name: &str| fs::read_to_string(ops.join(name)).unwrap();
    let (rules, tests) = (text("alerts.yml"), text("alerts_test.yml"));
    for alert in rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "no test makes {alert} fire");
    }
}

/// As recording rules, which Prometheus' tool reads with Prometheus' own parser.
#[test]
fn prometheus_accepts_the_queries_of_the_dashboard() {
    let dashboard: Value = serde_json::from_str(&ops("grafana.json")).unwrap();
    let mut queries = Vec::new();
    collect_texts(&dashboard, "expr", &mut queries);
    let mut rules = "groups:\n- name: dashboard\n  rules:\n".to_owned();
    for (nth, query) in queries.iter().enumerate() {
        let query = query.replace("$__rate_interval", "5m").replace("$strategy", ".*");
        assert!(!query.contains('$'), "a variable without a value: {query}");
        rules += &format!("  - record: query_{nth}\n    expr: {}\n", Value::from(query));
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries.yml");
    fs::write(&file, rules).unwrap();
    promtool(["check", "rules"], &file);
}

#[test]
fn the_queries_of_the_book_use_metrics_that_exist() {
    let page = fs::read_to_string(fixtures().join("../docs/operating.md")).unwrap();
    let queries: Vec<String> = page
        .lines()
        .filter(|line| line.starts_with('|') && line.contains("? | `"))
        .map(|line| line.replace("\\|", "|"))
        .collect();
    assert!(5 <= queries.len(), "{queries:?}");
    check("operating.md", &queries);
}

#[test]
fn the_bill_of_materials_has_the_crates_of_the_binary_with_their_checksums() {
    let script = fixtures().join("../ops/sbom.py");
    let output =
        std::process::Command::new("python3").arg(script).env("CARGO", env!("CARGO")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bom: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&bom["bomFormat"], &bom["metadata"]["component"]["name"]),
        (&"CycloneDX".into(), &"turnfold".into())
    );
    let components = bom["components"].as_array().unwrap();
    let find = |name: &str| components.iter().find(|component| component["name"] == name);
    let tokio = find("tokio").expect("the binary is built from tokio");
    assert!(tokio["purl"].as_str().unwrap().starts_with("pkg:cargo/tokio@"), "{tokio}");
    assert_eq!(tokio["hashes"][0]["content"].as_str().unwrap().len(), 64, "{tokio}");
    assert!(
        find("store").is_some_and(|component| component.get("purl").is_none()),
        "crates of the workspace come from no registry"
    );
    assert!(find("test-servers").is_none(), "only tests use it");
    for package in components.iter().filter(|component| component.get("purl").is_some()) {
        assert!(package.get("hashes").is_some() && package.get("licenses").is_some(), "{package}");
    }
}
