//! Events in obsolete shapes, upgraded step by step.

use serde_json::Value;
use shared::{Abandoned, Decided, Event, Shape, Upcast};

/// The oldest shape has `code`, the next one `motive`, and the current one `reason`.
const STEPS: &[Upcast] = &[motive_of_code, why_of_motive, gave_up_of_dropped];

fn motive_of_code(event: &mut Shape) -> bool {
    let Some(code) = (event.kind == "decided").then(|| event.payload.remove("code")).flatten() else {
        return false;
    };
    event.payload.insert("motive".to_owned(), Value::String(format!("for code {code}")));
    true
}

fn why_of_motive(event: &mut Shape) -> bool {
    let Some(why) = (event.kind == "decided").then(|| event.payload.remove("motive")).flatten() else {
        return false;
    };
    event.payload.insert("reason".to_owned(), why);
    true
}

/// Renames a kind to its current name.
fn gave_up_of_dropped(event: &mut Shape) -> bool {
    let known = event.kind == "dropped";
    if known {
        event.kind = "abandoned".to_owned();
    }
    known
}

fn why(steps: &[Upcast], payload: &str) -> Result<Option<String>, String> {
    match Event::decode_by(steps, "decided", payload) {
        Ok(Event::Decided(Decided { reason, .. })) => Ok(reason),
        Ok(other) => Err(other.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn each_old_shape_is_upgraded_through_all_later_steps() {
    let oldest = r#"{"node":"plan","code":7,"to":"end"}"#;
    let older = r#"{"node":"plan","motive":"for code 7","to":"end"}"#;
    let today = r#"{"node":"plan","reason":"for code 7","to":"end"}"#;
    for payload in [oldest, older, today] {
        assert_eq!(why(STEPS, payload).unwrap().as_deref(), Some("for code 7"), "{payload}");
    }
    let renamed = Event::decode_by(STEPS, "dropped", r#"{"slot":1,"reason":"too late"}"#).unwrap();
    assert_eq!(renamed, Abandoned { slot: 1, reason: "too late".to_owned() }.into());
}

#[test]
fn a_missing_upgrade_step_is_named() {
    let oldest = r#"{"node":"plan","code":7,"to":"end"}"#;
    assert!(why(&STEPS[..1], oldest).unwrap_err().contains("unknown field `motive`"));
    assert!(why(&[], oldest).unwrap_err().contains("unknown field `code`"));
    let unknown = Event::decode_by(STEPS, "teleported", "{}").unwrap_err().to_string();
    assert!(unknown.contains("\"teleported\" is unknown"), "{unknown}");
}

/// A payload that can be read unchanged is never upgraded, whatever a step would do to it.
#[test]
fn a_current_payload_is_not_changed() {
    fn spoils(event: &mut Shape) -> bool {
        event.payload.clear();
        true
    }
    let today = r#"{"node":"plan","reason":"because","to":"end"}"#;
    assert_eq!(why(&[spoils], today).unwrap().as_deref(), Some("because"));
}
