//! The column of a row's authenticated submitter.

use shared::CallerId;

use crate::log::ids::plain;

/// Parses the stored caller of a row.
pub(crate) fn caller_of(text: Option<&str>) -> Result<Option<CallerId>, serde_json::Error> {
    text.map(serde_json::from_str).transpose()
}

/// Returns the caller of a row as it is stored.
pub(crate) fn caller_text(caller: &CallerId) -> String {
    // Serializing two texts cannot fail.
    plain(&serde_json::to_string(caller).unwrap_or_default())
}
