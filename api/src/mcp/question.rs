//! Open questions as elicitations, and their results as answers.

use api_types::{AnswerKind, InboxAnswer, InboxItem};
use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequests,
    InputResponses,
};
use serde_json::{Value, json};

/// Field of the form in which a person answers a question of an agent.
const FIELD: &str = "answer";

/// Returns the requests to a client that can ask its user. There are none for a page that must be visited.
pub(super) fn requests(item: &InboxItem) -> InputRequests {
    let form = match (&item.url, &item.schema) {
        (Some(_), _) => None,
        (None, Some(schema)) => params(item, schema).or_else(|| params(item, &text_form(item))),
        (None, None) => params(item, &text_form(item)),
    };
    let request = form.map(|form| InputRequest::Elicitation(ElicitRequest::new(form)));
    request.map(|request| (key(item), request)).into_iter().collect()
}

fn params(item: &InboxItem, schema: &Value) -> Option<ElicitRequestParams> {
    let form = json!({"mode": "form", "message": message(item), "requestedSchema": schema});
    serde_json::from_value(form).ok()
}

/// Returns the question, followed by the calls that a person is asked to approve.
fn message(item: &InboxItem) -> String {
    let calls = item.calls.iter().map(|call| {
        let arguments =
            call.arguments.as_ref().map(|arguments| json!(arguments).to_string()).unwrap_or_default();
        format!("\n- {}.{}({arguments})", call.server, call.tool)
    });
    calls.fold(item.question.clone(), |text, call| text + &call)
}

/// Form with one field for the answer: a choice if nothing else is accepted.
fn text_form(item: &InboxItem) -> Value {
    let field = match (item.options.is_empty(), item.open_ended) {
        (false, false) => json!({"type": "string", "enum": item.options}),
        (false, true) => {
            json!({"type": "string", "description": format!("For example: {}", item.options.join(", "))})
        }
        (true, _) => json!({"type": "string"}),
    };
    json!({"type": "object", "properties": {FIELD: field}, "required": [FIELD]})
}

/// Name of the request. It names the question, so that no answer reaches a later one.
fn key(item: &InboxItem) -> String {
    format!("question-{}", item.seq)
}

/// Returns the answer to a question among the responses of a client. `None`: there is none, or its user answered nothing.
///
/// # Errors
///
/// A text for the client if a response has no valid form.
pub(super) fn answer(item: &InboxItem, mut responses: InputResponses) -> Result<Option<InboxAnswer>, String> {
    let Some(response) = responses.remove(&key(item)) else { return Ok(None) };
    let result: ElicitResult =
        serde_json::from_value(response).map_err(|error| format!("inputResponses.{}: {error}", key(item)))?;
    let content = result.content.unwrap_or_default();
    let (kind, args) = match (result.action, item.schema.is_some()) {
        (ElicitationAction::Accept, true) if content.get(FIELD).is_none() => (AnswerKind::Edit, content),
        (ElicitationAction::Accept, _) => (AnswerKind::Respond, content[FIELD].clone()),
        (ElicitationAction::Decline, true) => (AnswerKind::Respond, json!("decline")),
        (ElicitationAction::Decline, false) => (AnswerKind::Ignore, Value::Null),
        _ => return Ok(None),
    };
    Ok(Some(InboxAnswer { kind, args, turn_id: item.turn_id, seq: Some(item.seq) }))
}
