//! Fields of the bodies of conversations.

use serde_json::{Map, Value};
use shared::Message as LogMessage;

use super::items::ChatMessages;
use crate::{
    openai::conversation,
    server::{
        extract::deserialize,
        problem::{ApiError, Kind},
    },
    turns::content::Messages,
};

/// Maximum number of items of a request.
const ITEMS_MAX: usize = 20;

/// Maximum number of pairs of metadata, and of the characters of a value, as in OpenAI's API.
const METADATA_MAX: usize = 16;
const VALUE_MAX: usize = 512;

/// Checks the fields of a body.
pub(super) fn check_fields(body: &Map<String, Value>, known: &[&str]) -> Result<(), ApiError> {
    match body.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            let detail = format!("{name}: unknown parameter");
            Err(Kind::Unsupported.because(detail).hint("remove it").with_param(name.as_str()))
        }
        None => Ok(()),
    }
}

/// Returns the metadata of a body.
pub(super) fn metadata_of(body: &Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let Some(value) = body.get("metadata").filter(|value| !value.is_null()) else { return Ok(Map::new()) };
    let metadata: Map<String, Value> = deserialize("metadata", value)?;
    let wrong = |name: &str, detail: &str| {
        let place = format!("metadata.{name}");
        Err(Kind::Invalid.because(format!("{place}: {detail}")).with_param(place))
    };
    if METADATA_MAX < metadata.len() {
        let detail = format!("metadata: at most {METADATA_MAX} pairs are possible");
        return Err(Kind::Invalid.because(detail).with_param("metadata"));
    }
    for (name, value) in &metadata {
        match value.as_str().map(|text| text.chars().count()) {
            None => return wrong(name, "it must be a text"),
            Some(length) if VALUE_MAX < length => {
                return wrong(name, &format!("it has more than {VALUE_MAX} characters"));
            }
            Some(_) => {}
        }
    }
    Ok(metadata)
}

/// Converts the items of a body to messages of the log.
pub(super) fn items_of(body: &Map<String, Value>) -> Result<Vec<LogMessage>, ApiError> {
    let Some(items) = body.get("items").filter(|items| !items.is_null()) else { return Ok(Vec::new()) };
    let list = items.as_array().filter(|items| items.len() <= ITEMS_MAX).ok_or_else(|| {
        Kind::Invalid
            .because(format!("items: it must be a list of at most {ITEMS_MAX} items"))
            .with_param("items")
    })?;
    if list.is_empty() {
        return Ok(Vec::new());
    }
    let input = Map::from_iter([("input".to_owned(), items.clone())]);
    let in_items = |param: &str| param.strip_prefix("input").map(|rest| format!("items{rest}"));
    let chat = ChatMessages::of(&input, &[].into()).map_err(|error| error.rename_param(in_items))?;
    let of_chat = |param: &str| chat.place_of(param).and_then(|place| in_items(&place));
    let Messages { messages, attachments } =
        conversation::messages_of(&chat.messages).map_err(|error| error.rename_param(of_chat))?;
    match attachments.is_empty() {
        true => Ok(messages),
        false => Err(Kind::Unsupported
            .because("items: images and files are not supported")
            .hint("send them in the input of a response")
            .with_param("items")),
    }
}
