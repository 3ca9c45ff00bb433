//! Demands of clients on the replies to their turns, checked against what the strategy meets.

use api_types::NewTurn;
use serde_json::{Map, Value};
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
    let Some(unmet) = options.asked().find(|option| !graph.reply_options().contains(option)) else {
        return valid(options);
    };
    let (name, strategy) = (unmet.name(), graph.name());
    let detail = format!("{name}: the strategy {strategy} does not support it");
    let hint = format!("remove it, or use a strategy that does, such as {CHAT}");
    Err(Kind::Unsupported.because(detail).hint(hint).with_param(name))
}

fn valid(options: &ReplyOptions) -> Result<(), ApiError> {
    options.check().map_err(|invalid| {
        let detail = format!("{}: {}", invalid.key, invalid.why);
        Kind::Invalid.because(detail).hint(invalid.hint).with_param(invalid.key)
    })
}

/// Takes the demands out of the body of a turn. `None` if it has none: an answer keeps those of the turn that asked.
pub(crate) fn demands(new: &mut NewTurn) -> Result<Option<ReplyOptions>, ApiError> {
    let named = [
        ("response_format", new.response_format.take()),
        ("tools", new.tools.take()),
        ("tool_choice", new.tool_choice.take()),
        ("parallel_tool_calls", new.parallel_tool_calls.take().map(Value::from)),
    ];
    let fields: Map<String, Value> =
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    check_tool_types(&fields)?;
    if fields.is_empty() { Ok(None) } else { deserialize("", Value::Object(fields)).map(Some) }
}

/// Refuses tools that are no functions, by their types. `fields` has `tools` and `tool_choice`.
///
/// OpenAI runs most of them on its servers, which turnfold does not ask.
pub(crate) fn check_tool_types(fields: &Map<String, Value>) -> Result<(), ApiError> {
    let tools = fields.get("tools").and_then(Value::as_array).into_iter().flatten().enumerate();
    let tools = tools.map(|(nth, tool)| (format!("tools[{nth}]"), tool));
    let choice = fields.get("tool_choice").map(|choice| ("tool_choice".to_owned(), choice));
    for (at, tool) in tools.chain(choice) {
        let Some(kind) = tool["type"].as_str().filter(|kind| *kind != "function") else { continue };
        let detail = format!("{at}: tools of type {kind:?} are not supported, only functions of the client");
        return Err(Kind::Unsupported.because(detail).hint(instead_of(kind)).with_param(at));
    }
    Ok(())
}

/// Returns the way to do without a tool of this type.
fn instead_of(kind: &str) -> &'static str {
    const SERVERS: &str = "an operator can add an MCP server that does the same under [mcp.NAME]; name it in `servers` of the configuration";
    match kind {
        "mcp" => "an operator can add the server under [mcp.NAME]; name it in `servers` of the configuration",
        "file_search" => "use the model turnfold/retriever, or an MCP server of the operator ([mcp.NAME])",
        _ if kind.starts_with("web_search") => {
            "use the model turnfold/research, or an MCP server of the operator ([mcp.NAME])"
        }
        "custom" => "send a function with one parameter of type string",
        _ => SERVERS,
    }
}

/// Checks the demands of a turn of this strategy.
pub(crate) fn options_of(
    app: &AppState,
    strategy: &str,
    options: Option<ReplyOptions>,
) -> Result<Option<Box<ReplyOptions>>, ApiError> {
    // A strategy that this build does not know is refused where the log is read.
    if let (Some(graph), Some(options)) = (app.strategies.find(strategy), &options) {
        check_reply_options(graph, options)?;
    }
    Ok(options.map(Box::new))
}
