//! Input of a response, as a list of items.

use std::collections::BTreeSet;

use api_types::{Message, OpenAiList, Role, Turn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::TurnId;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::object::FunctionCall;
use crate::{
    openai::completion::arguments,
    server::{
        pagination::{openai_list, page},
        problem::{ApiError, Kind},
    },
    turns::client_calls::client_id,
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

/// Item of a conversation, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
pub(crate) enum InputItem {
    /// Message.
    Message(MessageItem),
    /// Call of a function of the client.
    Call(FunctionCall),
    /// Result of a function of the client.
    Output(CallOutput),
}

/// Result of a function of the client.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CallOutput {
    /// Id of the item.
    id: String,
    /// Type of the item, always `function_call_output`.
    #[serde(rename = "type")]
    kind: &'static str,
    /// Status of the item, always `completed`.
    status: &'static str,
    /// Id of the call.
    call_id: String,
    /// Text of the result.
    output: String,
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
    /// Converts message `nth` of the input of a turn, or of a conversation.
    fn of(turn: TurnId, nth: usize, message: &Message) -> Self {
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
        let id = format!("msg_{}_{nth}", turn.simple());
        Self { id, kind: "message", status: "completed", role: message.role, content }
    }
}

impl InputItem {
    fn id(&self) -> &str {
        match self {
            Self::Message(message) => &message.id,
            Self::Call(call) => &call.id,
            Self::Output(output) => &output.id,
        }
    }
}

/// Returns the items of messages in the order of the conversation. Ids begin with that of their `owner`, a turn or a conversation.
/// `call_id` returns the id by which the client knows a call; none if the call is not its own.
pub(super) fn items(
    owner: Uuid,
    messages: &[Message],
    call_id: impl Fn(&str) -> Option<String>,
) -> Vec<InputItem> {
    let mut items = Vec::new();
    for (nth, message) in messages.iter().enumerate() {
        if message.role == Role::Tool {
            items.extend(message.answers.as_deref().and_then(&call_id).map(|call_id| {
                let (id, output) = (format!("fco_{}_{nth}", owner.simple()), message.content.clone());
                let (kind, status) = ("function_call_output", "completed");
                InputItem::Output(CallOutput { id, kind, status, call_id, output })
            }));
            continue;
        }
        if !message.content.is_empty() || !message.attachments.is_empty() {
            items.push(InputItem::Message(MessageItem::of(owner, nth, message)));
        }
        for (place, call) in message.tool_calls.iter().enumerate() {
            items.extend(call_id(&call.id).map(|call_id| {
                let id = format!("fc_{}_{nth}_{place}", owner.simple());
                InputItem::Call(FunctionCall::new(id, call_id, call.name.clone(), arguments(call)))
            }));
        }
    }
    items
}

/// Returns the items of the input of a turn. Calls that the client sent itself keep their ids.
pub(super) fn items_of_input(turn: &Turn) -> Vec<InputItem> {
    let sent: BTreeSet<&str> =
        turn.input.iter().flat_map(|message| &message.tool_calls).map(|call| call.id.as_str()).collect();
    let known = |id: &str| if sent.contains(id) { id.to_owned() } else { client_id(turn.thread_id, id) };
    items(turn.id, &turn.input, |id| Some(known(id)))
}

impl ItemParams {
    /// Parameters of a list of all items of a request.
    pub(super) fn all() -> Self {
        Self { after: None, limit: Some(LIMIT_MAX), order: Some(ItemOrder::Asc) }
    }

    /// Returns a page of these items, which are in the order of the conversation.
    pub(super) fn page(self, mut items: Vec<InputItem>) -> Result<OpenAiList<InputItem>, ApiError> {
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
