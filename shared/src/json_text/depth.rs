//! Levels of lists and objects.

use serde_json::Value;

use super::unfaithful::{JSON_DEPTH_MAX, UnfaithfulJson, UnfaithfulKind};

/// Maximum depth of the text of an event. Its readers give up at 128.
const EVENT_DEPTH_MAX: usize = 120;

/// Checks the depth of a value that was parsed by other code.
///
/// # Errors
///
/// [`UnfaithfulJson`] with an empty path if it is nested too deep.
pub fn check_json_depth(value: &Value) -> Result<(), UnfaithfulJson> {
    let mut level = vec![value];
    for _ in 0..=JSON_DEPTH_MAX {
        let mut inner = Vec::new();
        let mut is_flat = true;
        for value in level {
            is_flat &= !(value.is_array() || value.is_object());
            inner.extend(value.as_array().into_iter().flatten());
            inner.extend(value.as_object().into_iter().flat_map(serde_json::Map::values));
        }
        if is_flat {
            return Ok(());
        }
        level = inner;
    }
    Err(UnfaithfulJson { at: String::new(), kind: UnfaithfulKind::Depth })
}

/// True if the text of an event is nested no deeper than its readers accept. A deeper one would make its log unreadable.
pub fn is_readable_event(text: &str) -> bool {
    let opened = text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    // Nearly every event.
    if opened <= EVENT_DEPTH_MAX {
        return true;
    }
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest <= EVENT_DEPTH_MAX
}
