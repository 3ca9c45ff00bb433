//! Elicitation: input that a server requires from a person before it completes a request.
//!
//! Nothing is kept here. The log holds what is required, and the next attempt, by any worker, carries the responses.

use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, InputRequest, InputRequiredResult, InputResponses, RequestMetaObject,
    TASKS_EXTENSION_ID, UrlElicitationCapability,
};
use serde_json::Value;
use shared::{Elicitation, InputResponse, Response};

use crate::text::truncate;

/// Maximum forms of one request.
const MAX_FORMS: usize = 20;

/// Maximum characters of a question.
const MAX_QUESTION_CHARS: usize = 4_000;

/// Maximum bytes of a schema, and of the state that a server wants returned.
const MAX_BYTES: usize = 1 << 18;

/// Declares that a person can be asked durably, and that calls may become tasks. For servers of the newest protocol.
///
/// ## Why an older server does not receive this
///
/// It would ask in the middle of a call, and the response would be lost if either process ended before it arrived.
pub(super) fn declare_capabilities(meta: &mut RequestMetaObject) {
    let elicitation = ElicitationCapability::new()
        .with_form(FormElicitationCapability::new().with_schema_validation(true))
        .with_url(UrlElicitationCapability::new());
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(elicitation);
    let extensions = capabilities.extensions.get_or_insert_default();
    extensions.insert(TASKS_EXTENSION_ID.to_owned(), Default::default());
    meta.set_client_capabilities(capabilities);
}

/// Converts the input a server requires.
///
/// # Errors
///
/// The reason why no person can provide it, for the model.
pub(super) fn input_required(what: &str, result: InputRequiredResult) -> Result<Response, String> {
    let rejected = |why: String| Err(format!("{what} returned no result: {why}"));
    let requests = result.input_requests.unwrap_or_default();
    if requests.len() > MAX_FORMS {
        return rejected(format!(
            "the server requires {} inputs at once; the maximum is {MAX_FORMS}",
            requests.len()
        ));
    }
    let state = result.request_state;
    if state.as_ref().is_some_and(|state| state.len() > MAX_BYTES) {
        return rejected(format!("the server's request state is larger than {MAX_BYTES} bytes"));
    }
    let mut forms = std::collections::BTreeMap::new();
    for (name, request) in requests {
        match form(request) {
            Ok(form) => drop(forms.insert(name, form)),
            Err(why) => return rejected(why),
        }
    }
    Ok(Response::InputRequired { input_requests: forms, request_state: state })
}

/// Returns the recorded answers for a server that asks again, if it asks the same questions as before, with the state that it
/// wants returned now.
pub(super) fn same_questions(
    again: &InputRequiredResult,
    recorded: &shared::InputResponses,
) -> Option<shared::InputResponses> {
    let Ok(Response::InputRequired { input_requests, request_state }) = input_required("", again.clone())
    else {
        return None;
    };
    let is_same = input_requests == recorded.questions
        && input_requests.keys().all(|name| recorded.responses.contains_key(name));
    is_same.then(|| shared::InputResponses { request_state, ..recorded.clone() })
}

fn form(request: InputRequest) -> Result<Elicitation, String> {
    let only =
        |method: &str| format!("the server requires {method}, and only elicitation/create is supported");
    let elicitation = match request {
        InputRequest::Elicitation(elicitation) => elicitation.params,
        InputRequest::CreateMessage(_) => return Err(only("sampling/createMessage")),
        InputRequest::ListRoots(_) => return Err(only("roots/list")),
        _ => return Err(only("an unknown method")),
    };
    match elicitation {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(requested_schema)
                .map_err(|error| format!("cannot read the server's form: {error}"))?;
            if schema.to_string().len() > MAX_BYTES {
                return Err(format!("the server's form is larger than {MAX_BYTES} bytes"));
            }
            Ok(Elicitation { question: truncate(&message, MAX_QUESTION_CHARS), schema, url: None })
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => Ok(Elicitation {
            question: truncate(&message, MAX_QUESTION_CHARS),
            schema: Value::Null,
            url: Some(url),
        }),
        _ => Err("the server uses a kind of elicitation that this version does not support".to_owned()),
    }
}

/// Converts a person's responses, with the state the server wants returned.
pub(super) fn responses(supplies: &shared::InputResponses) -> (InputResponses, Option<String>) {
    let answer = |response: &InputResponse| match response {
        InputResponse::Accept(Value::Null) => ElicitResult::new(ElicitationAction::Accept),
        InputResponse::Accept(content) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(content.clone())
        }
        InputResponse::Decline => ElicitResult::new(ElicitationAction::Decline),
        InputResponse::Cancel => ElicitResult::new(ElicitationAction::Cancel),
    };
    let answers = supplies.responses.iter();
    let answers =
        answers.map(|(name, response)| (name.clone(), serde_json::json!(answer(response)))).collect();
    (answers, supplies.request_state.clone())
}
