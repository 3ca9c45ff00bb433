//! The golden logs contain everything that is ever written, and an incompatible change is reported by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use audit::schema::{GOLDEN, check, check_logs};
use serde_json::{Map, Value};
use shared::Event;

/// Values that can be read and are never written: shown to a person because of other events, or passed within the
/// code.
const NEVER_WRITTEN: [&str; 20] = [
    "answered.response.messages[].role=:system",
    "answered.response.messages[].role=:tool",
    "answered.response.messages[]:attachments",
    "answered.response.messages[]:tool_call_id",
    "answered.response.messages[]:tool_calls",
    "answered.response.response=:unavailable",
    "answered.response.response=:input_required",
    "answered.response.response=:working",
    "answered.response.response=:output_with_extras",
    "asked.requests[].web_search=:off",
    "decided.messages[].role=:system",
    "decided.messages[]:attachments",
    "decided.outcome.kind=:answered",
    "decided.messages[].role=:user",
    "decided.to.interrupt.kind=:in_doubt",
    "decided.to.interrupt.kind=:input",
    "decided.to.interrupt:elicitation",
    "reconciled.read_back.output.status=:error",
    "reconciled.read_back.output.status=:refused",
    "turn_started.reply_options.response_format.type=:text",
];

#[test]
fn golden_logs_are_read_as_they_were_written() {
    let checked = check(&strategies::all());
    assert_eq!(checked.breaches, [], "a released kind or field is not read any more: see CONTRIBUTING.md");
    assert_eq!(checked.kinds, Event::KINDS.len());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden/v1");
    let files = fs::read_dir(folder).unwrap().count();
    assert_eq!(checked.logs, files, "audit/src/schema/golden.rs names every file of fixtures/golden");
}

/// A new field, variant or kind needs a new line in a golden log.
#[test]
fn golden_logs_have_every_kind_field_and_variant() {
    let (mut written, mut readable) = (BTreeSet::new(), BTreeSet::new());
    for line in GOLDEN.iter().flat_map(|log| log.1.lines()) {
        let mut payload: Map<String, Value> = serde_json::from_str(line).unwrap();
        let kind = payload.remove("event").unwrap();
        for (place, (is, may)) in places(kind.as_str().unwrap(), &Value::Object(payload)) {
            written.extend(is.iter().map(|value| format!("{place}:{value}")));
            readable.extend(may.iter().map(|value| format!("{place}:{value}")));
        }
    }
    assert!(150 < readable.len(), "the errors of serde name what may stand at a place: {readable:?}");
    let lacks: Vec<_> =
        readable.difference(&written).filter(|value| !NEVER_WRITTEN.contains(&value.as_str())).collect();
    assert!(lacks.is_empty(), "no golden log has {lacks:#?}: add a line in a new file of fixtures/golden");
}

#[test]
fn a_breach_is_named_with_its_kind_and_field() {
    let graphs = strategies::all();
    let opened = r#"{"event":"opened","strategy":"probe"}"#;
    let breach = |line: &str| {
        let log = format!("{opened}\n{line}\n");
        let checked = check_logs(&[("then", &log)], &graphs);
        let breach =
            checked.breaches.into_iter().next().unwrap_or_else(|| panic!("nothing is wrong with {line}"));
        (breach.line, breach.kind, breach.field.unwrap_or_default(), breach.what)
    };
    // As if `motive` had been a field once, and was removed or renamed.
    let (line, kind, field, what) = breach(r#"{"event":"decided","node":"read","motive":"a","to":"end"}"#);
    assert_eq!((line, &*kind, &*field), (2, "decided", "motive"), "{what}");
    // As if `to` had been added later, without a default.
    let (_, kind, field, what) = breach(r#"{"event":"decided","node":"read"}"#);
    assert_eq!((&*kind, &*field), ("decided", "to"), "{what}");
    // As if a field had been written that reading drops.
    let (_, kind, field, what) = breach(r#"{"event":"turn_started","messages":[],"actor":""}"#);
    assert_eq!((&*kind, &*field), ("turn_started", "actor"), "{what}");
    assert!(what.contains("renamed or removed"), "{what}");
    let (_, kind, _, what) = breach(r#"{"event":"teleported","slot":0}"#);
    assert!(kind == "teleported" && what.contains("is unknown"), "{what}");
    // Readable, but without meaning to the strategy any more.
    let (_, kind, _, what) = breach(r#"{"event":"decided","node":"gone","to":"end"}"#);
    assert!(kind == "decided" && what.contains("not folded"), "{what}");
    assert!(check_logs(&[("then", opened)], &[]).breaches[0].what.contains("no strategy \"probe\" any more"));
}

type Found = BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)>;

/// Every place in a payload with its value and the allowed values: fields of a struct, variants of an enum. Serde's
/// error for a wrong value lists them.
fn places(kind: &str, payload: &Value) -> Found {
    let mut found = Found::new();
    let mut open = vec![(String::new(), kind.to_owned())];
    while let Some((pointer, name)) = open.pop() {
        let here = payload.pointer(&pointer).unwrap();
        let may = |changed: Value, what: &str| {
            let mut payload = payload.clone();
            *payload.pointer_mut(&pointer).unwrap() = changed;
            let error = Event::decode(kind, &payload.to_string()).err()?.to_string();
            let listed = error.split_once(&format!("unknown {what} `§`, expected "))?.1;
            let listed = listed.split(" at line").next().unwrap_or(listed);
            Some(listed.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>())
        };
        let mut note = |name: String, is: Vec<&String>, may: Vec<String>| {
            let place = found.entry(name).or_default();
            place.0.extend(is.into_iter().cloned());
            place.1.extend(may);
        };
        match here {
            Value::Object(map) => {
                let mut more = map.clone();
                more.insert("§".to_owned(), Value::Null);
                if let Some(may) = may(Value::Object(more), "field") {
                    note(name.clone(), map.keys().collect(), may);
                }
                let one = map.values().next().filter(|_| map.len() == 1);
                let other = one.map(|value| Map::from_iter([("§".to_owned(), value.clone())]));
                if let Some(may) = other.and_then(|object| may(Value::Object(object), "variant")) {
                    note(format!("{name}="), map.keys().collect(), may);
                }
                for key in map.keys() {
                    // The server chooses the names of input requests.
                    let known = if name.ends_with(".input_requests") { "*" } else { key };
                    let escaped = key.replace('~', "~0").replace('/', "~1");
                    open.push((format!("{pointer}/{escaped}"), format!("{name}.{known}")));
                }
            }
            Value::Array(all) => {
                open.extend((0..all.len()).map(|nth| (format!("{pointer}/{nth}"), format!("{name}[]"))));
            }
            Value::String(word) => {
                if let Some(may) = may(Value::String("§".to_owned()), "variant") {
                    note(format!("{name}="), vec![word], may);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}
