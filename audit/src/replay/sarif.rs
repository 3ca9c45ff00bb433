//! The report as SARIF 2.1.0, which code hosts show beside a change.

use serde_json::{Value, json};

use super::{Cluster, Report};

/// Builds one result per cluster. Its location is a line of the example's log as written by `turnfold thread export`,
/// one event per line.
pub fn sarif(report: &Report, version: &str) -> Value {
    let rules: Vec<Value> = report.clusters.iter().map(rule).collect();
    let results: Vec<Value> = report.clusters.iter().map(result).collect();
    let broken = report.broken_chains.iter().map(|chain| {
        let text = format!("thread {}: the hash chain is broken: {}", chain.thread, chain.what);
        json!({ "level": "error", "message": { "text": text } })
    });
    let missed = report
        .not_checked
        .iter()
        .map(|thread| {
            json!({ "level": "warning", "message": { "text": format!("thread {} was not checked: {}", thread.thread, thread.why) } })
        });
    let missed: Vec<Value> = broken.chain(missed).collect();
    let is_whole = report.unchecked == 0 && report.broken == 0;
    sarif_document(version, rules, results, is_whole, missed)
}

/// Builds a document of one run. `notes` say what was not looked at.
pub(crate) fn sarif_document(
    version: &str,
    rules: Vec<Value>,
    results: Vec<Value>,
    is_whole: bool,
    notes: Vec<Value>,
) -> Value {
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "turnfold", "semanticVersion": version, "rules": rules } },
            "results": results,
            "invocations": [{
                "executionSuccessful": is_whole,
                "toolExecutionNotifications": notes,
            }],
        }],
    })
}

fn rule(cluster: &Cluster) -> Value {
    let Cluster { strategy, node, field, .. } = cluster;
    let text = format!("{strategy}: the node {node} decides otherwise than recorded, in {field}");
    json!({ "id": cluster.place(), "shortDescription": { "text": text } })
}

fn result(cluster: &Cluster) -> Value {
    let example = &cluster.example;
    let text = format!("{} threads; as {}", cluster.threads, cluster.words());
    json!({
        "ruleId": cluster.place(),
        "level": "error",
        "message": { "text": text },
        "occurrenceCount": cluster.threads,
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": format!("threads/{}.jsonl", example.thread) },
                "region": { "startLine": example.divergence.seq + 1 },
            },
            "logicalLocations": [{
                "name": cluster.node,
                "fullyQualifiedName": format!("{}.{}", cluster.strategy, cluster.node),
            }],
        }],
    })
}
