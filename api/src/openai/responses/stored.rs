//! Parameters of a request, as the log and the row of its turn have them.
//!
//! ## Why they are not stored as they were sent
//!
//! The log has each of them where it takes effect: parameters of the model in the configuration of the thread, tools and format with
//! the turn, instructions among the messages. What had no effect, such as the temperature for a strategy that chooses its models
//! itself, has its default.

use serde_json::{Map, Value, json};
use shared::{Event, ReplyOptions, Role};
use store::{Order, TurnFilter};

use super::{conversation::echoed, ids::response_name, names::flat, request::Echo};
use crate::{
    openai::model_names::{asked_by, model_of_turn},
    server::{
        problem::{ApiError, Kind},
        state::AppState,
    },
};

/// Author of turns whose request names no user.
const NOBODY: &str = "api";

/// Returns the parameters of the request of a turn. `answered` is the model that answered last, if any did.
pub(super) async fn stored(
    app: &AppState,
    row: &store::Turn,
    answered: Option<&str>,
) -> Result<Echo, ApiError> {
    let mut request = stored_of_line(app, row, answered).await?;
    if app.backends.store.conversation(row.thread).await?.is_some() {
        request.conversation = Some(echoed(row.thread));
        return Ok(request);
    }
    let filter = TurnFilter {
        tenant: Some(&row.tenant),
        thread: Some(row.thread),
        status: None,
        conditions: None,
        order: Order::NewestFirst,
    };
    let previous = app.backends.store.turns(filter, Some(row.id), 1).await?;
    request.previous_response_id = previous.first().map(|turn| response_name(turn.id));
    Ok(request)
}

/// Returns the parameters of a request that began its thread, such as a line of a batch.
pub(crate) async fn stored_of_line(
    app: &AppState,
    row: &store::Turn,
    answered: Option<&str>,
) -> Result<Echo, ApiError> {
    let first = match app.backends.store.events(row.thread, None, 1).await.map_err(ApiError::from) {
        Err(error) if error.kind == Kind::Damaged => Vec::new(),
        first => first?,
    };
    let Some(Event::Opened(opened)) = first.first().map(|first| &first.event) else {
        return Ok(Echo::of(&Map::new()));
    };
    let (asked, parameters) = asked_by(opened);
    let model = model_of_turn(&opened.strategy, answered.or(asked.as_deref()));
    Ok(Echo::of(&body(row, &parameters)).with_model(model))
}

/// Returns the body of a request with these parameters of the model.
fn body(row: &store::Turn, parameters: &Value) -> Map<String, Value> {
    let ReplyOptions { response_format, tools, tool_choice, parallel_tool_calls } =
        row.reply_options.as_deref().cloned().unwrap_or_default();
    let tools: Vec<Value> = tools.iter().map(|tool| flat(&json!(tool), "function")).collect();
    let instructions = row.messages.first().filter(|message| message.role == Role::System);
    let user = Some(&row.author).filter(|author| *author != NOBODY);
    let extra = &parameters["extra"];
    let effort = &parameters["reasoning_effort"];
    let mut text = Map::from_iter([("format".to_owned(), flat(&json!(response_format), "json_schema"))]);
    text.extend(extra.get("verbosity").map(|verbosity| ("verbosity".to_owned(), verbosity.clone())));
    let fields = [
        ("instructions", json!(instructions.map(|message| &message.content))),
        ("max_output_tokens", parameters["max_tokens"].clone()),
        ("parallel_tool_calls", json!(parallel_tool_calls)),
        ("reasoning", json!({"effort": effort})),
        ("temperature", parameters["temperature"].clone()),
        ("text", Value::Object(text)),
        ("tool_choice", flat(&json!(tool_choice), "function")),
        ("tools", json!(tools)),
        ("top_p", extra["top_p"].clone()),
        ("user", json!(user)),
    ];
    let is_set = |(_, value): &(&str, Value)| !value.is_null();
    fields.into_iter().filter(is_set).map(|(name, value)| (name.to_owned(), value)).collect()
}
