//! How a payload that an older version wrote becomes one of today: pure steps, in a chain.
//!
//! What was added since needs none, as it has a default. A step is for what no default can say: a field that was moved or
//! came to mean something else, a kind that was split.
//!
//! ## Why a step knows its shape, and not its number
//!
//! A thread lives on under newer versions, so one log holds events of several. What stands in a payload tells of which
//! shape it is; and a step that is no longer of use to anything costs nothing, as only what cannot be read is lifted.

use serde_json::{Map, Value};

/// An event on its way up.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Its kind.
    pub kind: String,
    /// What it says.
    pub payload: Map<String, Value>,
}

/// One step: changes what is of the shape that it knows into the next, and says whether it was.
pub type Upcast = fn(&mut Shape) -> bool;

/// All steps, in the order in which the shapes came. None was needed so far: since the first version, fields and kinds were
/// only added.
///
/// **Invariant:** a step is never changed once it was released; another follows it.
pub(super) const STEPS: &[Upcast] = &[];

/// The shape of today, if any of the steps knew the event.
pub(super) fn lifted(steps: &[Upcast], kind: &str, payload: &str) -> Option<(String, String)> {
    if steps.is_empty() {
        return None;
    }
    let payload: Map<String, Value> = serde_json::from_str(payload).ok()?;
    let mut shape = Shape { kind: kind.to_owned(), payload };
    let known = steps.iter().fold(false, |known, step| step(&mut shape) | known);
    known.then(|| (shape.kind, Value::Object(shape.payload).to_string()))
}
