//! Demands of clients on the replies to their turns, checked against what the strategy meets.

use serde_json::Value;
use shared::{Graph, ReplyOptions};

use crate::server::{
    extract::deserialize,
    problem::{ApiError, Kind},
    state::AppState,
};

/// Strategy that meets every demand.
const CHAT: &str = "chat";

/// Checks that the demands are valid and that the strategy meets them.
pub(crate) fn check_reply_options(graph: &dyn Graph, options: &ReplyOptions) -> Result<(), ApiError> {
    options.check().map_err(|invalid| {
        Kind::Invalid
            .because(format!("{}: {}", invalid.key, invalid.why))
            .hint(invalid.hint)
            .with_param(invalid.key)
    })?;
    let Some(unmet) = options.asked().find(|option| !graph.reply_options().contains(option)) else {
        return Ok(());
    };
    let (name, strategy) = (unmet.name(), graph.name());
    let detail = format!("{name}: the strategy {strategy} does not support it");
    let hint = format!("remove it, or use a strategy that does, such as {CHAT}");
    Err(Kind::Unsupported.because(detail).hint(hint).with_param(name))
}

/// Returns the demands of a turn of this strategy. `None` if the request has none: an answer keeps those of the turn that asked.
pub(crate) fn options_of(
    app: &AppState,
    strategy: &str,
    response_format: Option<Value>,
) -> Result<Option<Box<ReplyOptions>>, ApiError> {
    let Some(format) = response_format else { return Ok(None) };
    let options = ReplyOptions { response_format: deserialize("response_format", format)? };
    // A strategy that this build does not know is refused where the log is read.
    if let Some(graph) = app.strategies.find(strategy) {
        check_reply_options(graph, &options)?;
    }
    Ok(Some(Box::new(options)))
}
