//! Upgrades payloads of older versions to the current format, by a chain of pure steps.
//!
//! Added fields need no step, because they have defaults. A step handles changes that a default cannot express: a field
//! that moved or changed its meaning, or a kind that was split.
//!
//! ## Why a step recognizes a shape and not a version number
//!
//! A thread lives on under newer versions, so one log holds events of several. The payload itself shows its shape. A
//! step that no event needs any more costs nothing, because only payloads that cannot be read are upgraded.

use serde_json::{Map, Value};

/// Event during an upgrade.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Kind of the event.
    pub kind: String,
    /// Payload of the event.
    pub payload: Map<String, Value>,
}

/// One step: changes a payload of the shape that it recognizes to the next shape. Returns true if it did.
pub type Upcast = fn(&mut Shape) -> bool;

/// All steps, in the order in which the shapes appeared. None has been needed so far: since the first version, fields
/// and kinds have only been added.
///
/// **Invariant:** a released step never changes. A later step follows it.
pub(super) const STEPS: &[Upcast] = &[];

/// Returns the event in the current shape, if any step recognized it.
pub(super) fn lifted(steps: &[Upcast], kind: &str, payload: &str) -> Option<(String, String)> {
    if steps.is_empty() {
        return None;
    }
    let payload: Map<String, Value> = serde_json::from_str(payload).ok()?;
    let mut shape = Shape { kind: kind.to_owned(), payload };
    let known = steps.iter().fold(false, |known, step| step(&mut shape) | known);
    known.then(|| (shape.kind, Value::Object(shape.payload).to_string()))
}
