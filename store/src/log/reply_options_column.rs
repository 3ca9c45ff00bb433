//! The column `reply_options` of a turn.

use shared::ReplyOptions;

/// Parses the stored demands of a row.
pub(crate) fn options_of(text: Option<&str>) -> Result<Option<Box<ReplyOptions>>, serde_json::Error> {
    text.map(serde_json::from_str).transpose()
}

/// Returns the demands of a row as they are stored.
pub(crate) fn options_text(options: &ReplyOptions) -> String {
    serde_json::to_string(options).unwrap_or_default()
}
