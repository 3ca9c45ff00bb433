//! Layers of JSON values, and of the configuration in a log.

use serde_json::Value;

use crate::event::Event;

/// Merges `over` into `under`: objects field by field, all other values as a whole.
pub fn overlay(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                overlay(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (under, over) => *under = over,
    }
}

/// Returns the event with `change` laid over its configuration, if it sets the configuration of its thread.
pub fn with_config(event: &Event, change: &Value) -> Option<Event> {
    if let Event::Opened(opened) = event {
        let mut opened = opened.clone();
        overlay(&mut opened.config, change.clone());
        Some(Event::Opened(opened))
    } else if let Event::Forked(forked) = event
        && !forked.config.is_null()
    {
        let mut forked = forked.clone();
        overlay(&mut forked.config, change.clone());
        Some(Event::Forked(forked))
    } else {
        None
    }
}
