//! Input of a response, as a list of items.

use api_types::{Message, OpenAiList, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::TurnId;
use utoipa::{IntoParams, ToSchema};

use super::object::FunctionCall;
use crate::{
    openai::completion::arguments,
    server::{
        pagination::{openai_list, page},
        problem::{ApiError, Kind},
    },
};

/// Maximum number of items on a page.
const LIMIT_MAX: u64 = 100;

/// Default number of items on a page.
const LIMIT: u64 = 20;

/// Query parameters of a list of items.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ItemParams {
    /// Only items after this one: the last item of the previous page.
    after: Option<String>,
    /// Maximum number of items. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u64>,
    /// Order of the list. Default: `desc`, the last item first.
    #[param(inline)]
    order: Option<ItemOrder>,
}

/// Order of a list of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ItemOrder {
    /// First item first.
    Asc,
    /// Last item first.
    #[default]
    Desc,
}

/// An item of a conversation, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum ConversationItem {
    /// Message.
    Message(MessageItem),
    /// Call of a tool.
    Call(FunctionCall),
    /// Result of a call.
    Result(CallResult),
}

/// Result of a call of a tool.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallResult {
    /// Id of the item.
    id: String,
    /// Type of the item, always `function_call_output`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Status of the item, always `completed`.
    status: &'static str,
    /// Id of the call.
    call_id: String,
    /// Text of the result, or its parts if it has images.
    #[schema(value_type = Object)]
    output: Value,
}

impl ConversationItem {
    /// Converts message `nth` of a turn, or of a conversation, which may have a text and calls. `known` returns the id by which the
    /// client knows a call.
    pub(super) fn all(
        turn: TurnId,
        nth: usize,
        message: &Message,
        known: impl Fn(&str) -> String,
    ) -> Vec<Self> {
        let id = |kind: &str| format!("{kind}_{}_{nth}", turn.simple());
        if let Some(call_id) = message.answers.as_deref().map(&known).filter(|_| message.role == Role::Tool) {
            let output = match message.attachments.is_empty() {
                true => json!(message.content),
                false => json!(MessageItem::parts(message)),
            };
            let (kind, status) = ("function_call_output", "completed");
            return vec![Self::Result(CallResult { id: id("fco"), kind, status, call_id, output })];
        }
        let is_said = !message.content.is_empty() || !message.attachments.is_empty();
        let said = is_said.then(|| Self::Message(MessageItem::of(turn, nth, message)));
        let calls = message.tool_calls.iter().enumerate().map(|(place, call)| {
            let parts = (known(&call.id), call.name.clone(), arguments(call));
            Self::Call(FunctionCall::of(format!("{}_{place}", id("fc")), parts))
        });
        said.into_iter().chain(calls).collect()
    }

    fn id(&self) -> &str {
        match self {
            Self::Message(message) => &message.id,
            Self::Call(call) => &call.id,
            Self::Result(result) => &result.id,
        }
    }
}

/// A message of a conversation, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MessageItem {
    /// Id of the item.
    id: String,
    /// Type of the item, always `message`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Status of the item, always `completed`.
    status: &'static str,
    /// Author of the message.
    role: Role,
    /// Parts of the message.
    #[schema(value_type = Vec<Object>)]
    content: Vec<Value>,
}

impl MessageItem {
    /// Converts message `nth` of the input of a turn.
    fn of(turn: TurnId, nth: usize, message: &Message) -> Self {
        let id = format!("msg_{}_{nth}", turn.simple());
        let content = Self::parts(message);
        Self { id, kind: "message", status: "completed", role: message.role, content }
    }

    /// Returns text, images and files.
    fn parts(message: &Message) -> Vec<Value> {
        let kind = if message.role == Role::Assistant { "output_text" } else { "input_text" };
        let mut content = Vec::new();
        if !message.content.is_empty() {
            let mut text = json!({"type": kind, "text": message.content});
            if message.role == Role::Assistant {
                text["annotations"] = json!([]);
                text["logprobs"] = json!([]);
            }
            content.push(text);
        }
        // The content itself is at `GET /v1/threads/{id}/attachments/{sha256}`.
        let attachments = message.attachments.iter().map(|attachment| match attachment.kind.as_str() {
            "image" => json!({"type": "input_image", "detail": "auto", "file_id": attachment.sha256}),
            _ => json!({"type": "input_file", "file_id": attachment.sha256, "filename": attachment.name}),
        });
        content.extend(attachments);
        content
    }
}

impl ItemParams {
    /// Parameters of a list of all items of a request.
    pub(super) fn all() -> Self {
        Self { after: None, limit: Some(LIMIT_MAX), order: Some(ItemOrder::Asc) }
    }

    /// Returns a page of these items, which are in the order of the conversation.
    pub(super) fn page(
        self,
        mut items: Vec<ConversationItem>,
    ) -> Result<OpenAiList<ConversationItem>, ApiError> {
        let limit = self.limit.unwrap_or(LIMIT);
        if !(1..=LIMIT_MAX).contains(&limit) {
            return Err(Kind::Malformed.because(format!("limit must be 1 to {LIMIT_MAX}, but is {limit}")));
        }
        if self.order.unwrap_or_default() == ItemOrder::Desc {
            items.reverse();
        }
        if let Some(after) = self.after {
            let unknown =
                || Kind::Invalid.because(format!("after: there is no item {after:?}")).with_param("after");
            let nth = items.iter().position(|item| item.id() == after).ok_or_else(unknown)?;
            items.drain(..=nth);
        }
        Ok(openai_list(page(items, limit), |item| item.id().to_owned()))
    }
}
