//! Writes according to the logs, compared with the servers' own ledgers.

use std::{collections::BTreeMap, path::Path};

use demo_servers::{Expert, Ledger};
use serde_json::{Value, json};

/// Returns the keys of all writes that the log records as done.
pub(crate) fn confirmed(thread: &str, events: &[Value]) -> Vec<String> {
    let mut asked = &Value::Null;
    let mut fenced = Vec::new();
    let mut keys = Vec::new();
    for event in events {
        let slot = &event["event"]["slot"];
        match event["kind"].as_str().unwrap() {
            "asked" => {
                asked = event;
                fenced.clear();
            }
            "attempted" => fenced.push(slot),
            "answered" if fenced.contains(&slot) && event["event"]["response"]["status"] == "ok" => {
                keys.push(format!("{thread}:{}:{slot}", asked["seq"]));
            }
            "reconciled" if event["event"]["verdict"]["happened"].is_object() => {
                keys.push(format!("{thread}:{}:{slot}", asked["seq"]));
            }
            _ => (),
        }
    }
    keys
}

/// Returns how often each write was applied, by key, according to the ledgers of all servers with data in `folder`.
pub(crate) fn applied(folder: &Path) -> BTreeMap<String, u64> {
    let ledger =
        |expert: Expert| Ledger::read(&folder.join(format!("{}.json", expert.name()))).unwrap().applied;
    Expert::ALL.into_iter().flat_map(ledger).collect()
}

/// Returns the decision of a person about a call in doubt, after a look into the server's ledger.
pub(crate) fn verdict(folder: &Path, thread: &str, events: &[Value]) -> Value {
    let kind = |event: &&Value, kind: &str| event["kind"] == kind;
    let asked = events.iter().rfind(|event| kind(event, "asked")).unwrap();
    let slot =
        events.iter().rfind(|event| kind(event, "in_doubt")).unwrap()["event"]["slot"].as_u64().unwrap();
    let server = asked["event"]["requests"][slot as usize]["server"].as_str().unwrap();
    let ledger = Ledger::read(&folder.join(format!("{server}.json"))).unwrap();
    let happened = ledger.applied.contains_key(&format!("{thread}:{}:{slot}", asked["seq"]));
    let verdict = if happened {
        json!({"happened": {"result": "as the ledger says"}})
    } else {
        json!("did_not_happen")
    };
    json!({"slot": slot, "verdict": verdict})
}
