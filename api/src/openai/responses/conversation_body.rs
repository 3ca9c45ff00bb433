//! Fields of the bodies of conversations.

use serde_json::{Map, Value};
use shared::Message as LogMessage;

use super::items::ChatMessages;
use crate::{
    openai::conversation,
    server::{
        extract::deserialize,
        problem::{ApiError, Kind},
        state::AppState,
    },
    turns::content::{ATTACHMENTS_MAX, Messages},
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
pub(super) fn items_of(body: &Map<String, Value>) -> Result<Messages, ApiError> {
    let Some(items) = body.get("items").filter(|items| !items.is_null()) else {
        return Ok(Messages::default());
    };
    let list = items.as_array().filter(|items| items.len() <= ITEMS_MAX).ok_or_else(|| {
        Kind::Invalid
            .because(format!("items: it must be a list of at most {ITEMS_MAX} items"))
            .with_param("items")
    })?;
    if list.is_empty() {
        return Ok(Messages::default());
    }
    let input = Map::from_iter([("input".to_owned(), items.clone())]);
    let in_items = |param: &str| param.strip_prefix("input").map(|rest| format!("items{rest}"));
    let chat = ChatMessages::of(&input, &[].into()).map_err(|error| error.rename_param(in_items))?;
    let of_chat = |param: &str| chat.place_of(param).and_then(|place| in_items(&place));
    conversation::messages_of(&chat.messages).map_err(|error| error.rename_param(of_chat))
}

/// Checks that the images and files of items fit: in number with those that wait already, in size into what the tenant may store.
pub(super) async fn check_room(
    app: &AppState,
    tenant: &str,
    waiting: &[LogMessage],
    new: &Messages,
) -> Result<(), ApiError> {
    if new.attachments.is_empty() {
        return Ok(());
    }
    let waiting: usize = waiting.iter().map(|message| message.attachments.len()).sum();
    if ATTACHMENTS_MAX < waiting + new.attachments.len() {
        let detail =
            format!("items: at most {ATTACHMENTS_MAX} images and files can wait for the next response");
        return Err(Kind::Invalid.because(detail).hint("create a response first").with_param("items"));
    }
    let bytes: usize = new.attachments.iter().map(|attachment| attachment.content.len()).sum();
    match app.storage_left(tenant).await? {
        Some(left) if left < bytes as u64 => Err(Kind::StorageFull
            .because(format!("items: their images and files have {bytes} bytes, and {left} are left"))
            .hint("an operator can raise max_stored_bytes of the tenant, or delete old threads and files")
            .with_param("items")),
        Some(_) | None => Ok(()),
    }
}
