//! The report as SARIF 2.1.0, which code hosts show beside a change.

use serde_json::{Value, json};

use super::{Cluster, Report};
use crate::replay::sarif_document;

/// Builds one result for each place at which threads would go differently. Its location is a line of the example's log as written by
/// `turnfold thread export`, one event per line. If a thread is not decided, or none matches, the execution was not successful.
pub fn replay_sarif(report: &Report, version: &str) -> Value {
    let rules = report.clusters.iter().map(rule).collect();
    let results = report.clusters.iter().map(result).collect();
    let missed = report.not_decided.iter().map(|thread| {
        let text = format!("thread {} is not decided: {}", thread.thread, thread.why);
        json!({ "level": "warning", "message": { "text": text } })
    });
    let is_whole = report.undecided == 0 && 0 < report.threads;
    sarif_document(version, rules, results, is_whole, missed.collect())
}

fn rule(cluster: &Cluster) -> Value {
    let Cluster { strategy, node, field, .. } = cluster;
    let text = format!("{strategy}: with the change, the node {node} differs in {field}");
    json!({ "id": cluster.place(), "shortDescription": { "text": text } })
}

fn result(cluster: &Cluster) -> Value {
    let oldest = cluster.threads.first();
    json!({
        "ruleId": cluster.place(),
        "level": "warning",
        "message": { "text": cluster.words() },
        "occurrenceCount": cluster.threads.len(),
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": format!("threads/{}.jsonl", oldest.map(ToString::to_string).unwrap_or_default()) },
                "region": { "startLine": cluster.example.seq + 1 },
            },
            "logicalLocations": [{
                "name": cluster.node,
                "fullyQualifiedName": format!("{}.{}", cluster.strategy, cluster.node),
            }],
        }],
    })
}
