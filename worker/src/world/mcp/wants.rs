//! What a server wants to hear of a person before it does as it was asked, and how it is told.
//!
//! Nothing of this is kept here: the log holds what was wanted, and the next attempt, whichever worker makes it,
//! carries what was supplied.

use rmcp::model::{
    ClientCapabilities, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, InputRequest, InputRequiredResult, InputResponses, RequestMetaObject,
    UrlElicitationCapability,
};
use serde_json::Value;
use shared::{Form, Response, Supplies, Supply};

use crate::world::cut;

/// The most that may be wanted at once.
const FORMS_MAX: usize = 20;

/// The longest question that a person is shown, in characters.
const QUESTION_MAX: usize = 4_000;

/// The most that a schema, and what a server wants to be told again, may take, in bytes.
const BYTES_MAX: usize = 1 << 18;

/// What a server of the newest protocol is told that we can do for it: a person can be asked, durably.
///
/// ## Why an older server is not told so
///
/// It would ask in the middle of a call, and the answer would have to come while both processes live.
pub(super) fn offered(meta: &mut RequestMetaObject) {
    let elicitation = ElicitationCapability::new()
        .with_form(FormElicitationCapability::new().with_schema_validation(true))
        .with_url(UrlElicitationCapability::new());
    let mut capabilities = ClientCapabilities::default();
    capabilities.elicitation = Some(elicitation);
    meta.set_client_capabilities(capabilities);
}

/// What a server wants, in our words.
///
/// # Errors
///
/// Why nobody can give it that, in words for the model.
pub(super) fn wants(what: &str, wanted: InputRequiredResult) -> Result<Response, String> {
    let refused = |why: String| Err(format!("{what} gave no result: {why}"));
    let requests = wanted.input_requests.unwrap_or_default();
    if requests.len() > FORMS_MAX {
        return refused(format!(
            "it wants {} answers at once, and at most {FORMS_MAX} are given",
            requests.len()
        ));
    }
    let state = wanted.request_state;
    if state.as_ref().is_some_and(|it| it.len() > BYTES_MAX) {
        return refused(format!("it wants to be told again more than {BYTES_MAX} bytes"));
    }
    let mut forms = std::collections::BTreeMap::new();
    for (name, request) in requests {
        match form(request) {
            Ok(form) => drop(forms.insert(name, form)),
            Err(why) => return refused(why),
        }
    }
    Ok(Response::Wants { forms, state })
}

fn form(request: InputRequest) -> Result<Form, String> {
    let only = |method: &str| format!("it wants {method} of us, and only elicitation/create is answered");
    let elicitation = match request {
        InputRequest::Elicitation(it) => it.params,
        InputRequest::CreateMessage(_) => return Err(only("sampling/createMessage")),
        InputRequest::ListRoots(_) => return Err(only("roots/list")),
        _ => return Err(only("something that is none of what MCP allows")),
    };
    match elicitation {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = serde_json::to_value(requested_schema)
                .map_err(|error| format!("its form cannot be read: {error}"))?;
            if schema.to_string().len() > BYTES_MAX {
                return Err(format!("its form has more than {BYTES_MAX} bytes"));
            }
            Ok(Form { question: cut(&message, QUESTION_MAX), schema, url: None })
        }
        ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
            Ok(Form { question: cut(&message, QUESTION_MAX), schema: Value::Null, url: Some(url) })
        }
        _ => Err("it asks in a way that this version does not know".to_owned()),
    }
}

/// What a person supplied, in the server's words: the answers, and what it wanted to be told again.
pub(super) fn told(supplies: &Supplies) -> (InputResponses, Option<String>) {
    let answer = |it: &Supply| match it {
        Supply::Accept(Value::Null) => ElicitResult::new(ElicitationAction::Accept),
        Supply::Accept(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content.clone()),
        Supply::Decline => ElicitResult::new(ElicitationAction::Decline),
        Supply::Cancel => ElicitResult::new(ElicitationAction::Cancel),
    };
    let answers = supplies.answers.iter();
    let answers = answers.map(|(name, it)| (name.clone(), serde_json::json!(answer(it)))).collect();
    (answers, supplies.state.clone())
}
