//! Events of a stream whose data is JSON.

use axum::response::sse::Event;
use serde_json::Value;
use shared::one_line;

/// Adds the data of an event, on one line for every client.
pub(crate) fn json_event(event: Event, data: &Value) -> Event {
    event.data(one_line(data.to_string()))
}
