//! A request for a response, and its conversion to the request for a chat completion.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};
use store::{ThreadId, TurnId};
use utoipa::ToSchema;

use super::{
    conversation,
    ids::{response_name, response_turn},
    items::{ChatMessages, referenced},
    names,
};
use crate::{
    openai::to_turn::ChatRequest,
    server::{
        extract::deserialize,
        problem::{ApiError, Kind},
    },
};

/// Parameters of a request, as its response repeats them.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Echo {
    /// Model that was requested.
    #[serde(skip)]
    pub(super) model: Option<String>,
    /// True if the request did not wait for the end.
    background: bool,
    /// Conversation of the response, if the request names one.
    #[schema(value_type = Option<Object>)]
    pub(super) conversation: Option<Value>,
    /// Instructions of the request.
    instructions: Option<String>,
    /// Limit of the tokens of one answer of a model.
    max_output_tokens: Option<u64>,
    /// True if a model may request several calls at once.
    parallel_tool_calls: bool,
    /// Response that this one continues.
    pub(super) previous_response_id: Option<String>,
    /// Reasoning that was requested.
    #[schema(value_type = Object)]
    reasoning: Value,
    /// Always true: a turn is recorded.
    store: bool,
    /// Temperature that was requested.
    #[schema(value_type = Option<f64>)]
    temperature: Value,
    /// Format that was requested.
    #[schema(value_type = Object)]
    text: Value,
    /// Choice among the tools.
    #[schema(value_type = Object)]
    tool_choice: Value,
    /// Functions of the client.
    #[schema(value_type = Vec<Object>)]
    tools: Vec<Value>,
    /// Nucleus sampling that was requested.
    #[schema(value_type = Option<f64>)]
    top_p: Value,
    /// Always `auto`: a conversation that outgrows the context window is summarised.
    truncation: &'static str,
    /// User that the request names.
    user: Option<String>,
}

impl Echo {
    /// Sets the model.
    pub(crate) fn with_model(self, model: String) -> Self {
        Self { model: Some(model), ..self }
    }

    /// Returns the parameters of a body; of an empty one, their defaults.
    pub(crate) fn of(body: &Map<String, Value>) -> Self {
        let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
        let value = |name: &str| body.get(name).cloned();
        let flag = |name: &str| body.get(name).and_then(Value::as_bool);
        let mut format = json!({"format": {"type": "text"}});
        if let (Some(format), Some(Value::Object(asked))) = (format.as_object_mut(), body.get("text")) {
            format.extend(asked.clone());
        }
        let previous = text("previous_response_id");
        let reasoning = body.get("reasoning").unwrap_or(&Value::Null);
        Self {
            model: text("model"),
            background: flag("background").unwrap_or_default(),
            conversation: None,
            instructions: text("instructions"),
            max_output_tokens: body.get("max_output_tokens").and_then(Value::as_u64),
            parallel_tool_calls: flag("parallel_tool_calls").unwrap_or(true),
            previous_response_id: previous.and_then(|id| Some(response_name(response_turn(&id).ok()?))),
            reasoning: json!({"effort": reasoning["effort"], "summary": reasoning["summary"]}),
            store: true,
            temperature: value("temperature").unwrap_or_default(),
            text: format,
            tool_choice: value("tool_choice").unwrap_or_else(|| json!("auto")),
            tools: body.get("tools").and_then(Value::as_array).cloned().unwrap_or_default(),
            top_p: value("top_p").unwrap_or_default(),
            truncation: "auto",
            user: text("user"),
        }
    }
}

/// A request whose parameters are known. Nothing is looked up yet.
#[derive(Debug)]
pub(crate) struct Draft {
    body: Map<String, Value>,
    /// Response to continue.
    pub(crate) previous: Option<TurnId>,
    /// Conversation to continue or to begin.
    pub(crate) conversation: Option<String>,
    /// True if the response shall be sent at once.
    pub(crate) background: bool,
    instructions: Option<String>,
}

/// A request for a turn, and the parameters that its response repeats.
pub(crate) struct ResponseRequest {
    pub(crate) chat: ChatRequest,
    pub(crate) echo: Echo,
    pub(crate) places: Places,
}

/// Names of the parameters of the chat completion in the request.
pub(crate) struct Places(ChatMessages);

impl Places {
    /// Names the parameter of the request in an error about that of the chat completion.
    pub(crate) fn rename(&self, error: ApiError) -> ApiError {
        error.rename_param(|param| self.0.place_of(param).or_else(|| names::of_response(param)))
    }
}

impl Draft {
    /// Parses a body.
    pub(crate) fn parse(mut body: Map<String, Value>) -> Result<Self, ApiError> {
        // Clients may send null for omitted fields.
        body.retain(|_, value| !value.is_null());
        names::check(&body)?;
        let previous = field::<String>(&body, "previous_response_id")?;
        let previous = previous.map(|id| response_turn(&id)).transpose();
        let previous = previous.map_err(|error| error.with_param("previous_response_id"))?;
        let conversation = conversation::named(&body)?;
        if conversation.is_some() && previous.is_some() {
            let detail = "conversation: it cannot be sent together with previous_response_id";
            return Err(Kind::Invalid.because(detail).hint("send one of them").with_param("conversation"));
        }
        let background = field(&body, "background")?.unwrap_or_default();
        let instructions = field::<String>(&body, "instructions")?.filter(|text| !text.trim().is_empty());
        Ok(Self { body, previous, conversation, background, instructions })
    }

    /// Returns the turns whose answers the input refers to.
    pub(super) fn referenced(&self) -> Vec<TurnId> {
        referenced(&self.body)
    }

    /// Converts the request to that of a turn. The input continues the thread `existing`, if there is one; otherwise a header may
    /// name the thread, and `replies` are the answers that the input refers to.
    pub(crate) fn into_request(
        self,
        existing: Option<ThreadId>,
        header: Option<ThreadId>,
        replies: &BTreeMap<TurnId, String>,
    ) -> Result<ResponseRequest, ApiError> {
        let mut messages = ChatMessages::of(&self.body, replies)?;
        // A thread contains its instructions.
        if let Some(text) = self.instructions.as_ref().filter(|_| existing.is_none()) {
            messages.instruct(text);
        }
        let mut chat = names::chat_body(&self.body);
        chat.insert("messages".to_owned(), Value::Array(std::mem::take(&mut messages.messages)));
        let (places, echo) = (Places(messages), Echo::of(&self.body));
        let chat = ChatRequest::parse(chat, header.filter(|_| existing.is_none()));
        let mut chat = chat.map_err(|error| places.rename(error))?;
        if let Some(thread) = existing {
            chat = chat.continuing(thread)?;
        }
        Ok(ResponseRequest { chat, echo, places })
    }
}

fn field<T: serde::de::DeserializeOwned>(
    body: &Map<String, Value>,
    name: &str,
) -> Result<Option<T>, ApiError> {
    body.get(name).map(|value| deserialize(name, value)).transpose()
}
