//! Blocks in forms that the protocol does not name, but whose meaning is plain.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use serde_json::{Map, Value, json};

/// Reads base64 with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Media types that are text although they do not begin with `text/`.
const TEXTUAL: [&str; 6] = ["json", "xml", "yaml", "toml", "javascript", "sql"];

/// Media types of content that a model cannot read as text.
const BINARY: [&str; 8] = [
    "image/",
    "audio/",
    "video/",
    "application/pdf",
    "application/zip",
    "application/gzip",
    "application/x-",
    "application/octet-stream",
];

/// Rewrites a block of a result in the protocol's form.
pub(super) fn normalise(block: &mut Value) {
    let Value::Object(fields) = block else { return };
    match fields.get("type").and_then(Value::as_str) {
        Some("text") => text(fields),
        Some("image" | "audio") => media(fields),
        Some("resource") => {
            if let Some(resource) = fields.get_mut("resource") {
                normalise_resource(resource);
            }
        }
        Some(_) | None => (),
    }
}

/// Rewrites the contents of a resource: a text that was sent as base64 becomes text, and base64 that was sent as a text becomes
/// binary content.
pub(super) fn normalise_resource(resource: &mut Value) {
    let Value::Object(fields) = resource else { return };
    let Some(media_type) = fields.get("mimeType").and_then(Value::as_str).map(str::to_ascii_lowercase) else {
        return;
    };
    let blob = fields.get("blob").and_then(Value::as_str);
    if let Some(read) = blob.filter(|_| is_text(&media_type)).and_then(decoded_text) {
        fields.remove("blob");
        fields.insert("text".to_owned(), read.into());
        return;
    }
    let text = fields.get("text").and_then(Value::as_str);
    let is_binary = BINARY.iter().any(|kind| media_type.starts_with(kind)) && !is_text(&media_type);
    if let Some(data) = text.filter(|text| is_binary && !text.is_empty()).and_then(plain_base64) {
        fields.remove("text");
        fields.insert("blob".to_owned(), data.into());
    }
}

/// A text that is no text is shown as JSON. One that is nothing but the `data:` URL of a picture is the picture: as text, it would
/// fill a model's window.
fn text(fields: &mut Map<String, Value>) {
    match fields.get("text") {
        Some(Value::String(text)) => {
            let picture = data_url(text).filter(|(media_type, _)| media_type.starts_with("image/"));
            if let Some((media_type, data)) = picture
                && let Some(data) = plain_base64(data)
            {
                let media_type = media_type.to_owned();
                fields.clear();
                fields.insert("type".to_owned(), "image".into());
                fields.insert("mimeType".to_owned(), media_type.into());
                fields.insert("data".to_owned(), data.into());
            }
        }
        Some(Value::Null) | None => (),
        Some(other) => {
            let shown = other.to_string();
            fields.insert("text".to_owned(), shown.into());
        }
    }
}

/// The data of a picture or sound may be a `data:` URL, have line breaks, lack its padding or use the alphabet of URLs.
fn media(fields: &mut Map<String, Value>) {
    let Some(sent) = fields.get("data").and_then(Value::as_str) else { return };
    let (media_type, data) = match data_url(sent) {
        Some((media_type, data)) => (Some(media_type.to_owned()), data),
        None => (None, sent),
    };
    let plain = plain_base64(data).filter(|plain| plain != sent);
    if let Some(plain) = plain {
        fields.insert("data".to_owned(), plain.into());
    }
    if let Some(media_type) = media_type.filter(|named| !named.is_empty()) {
        fields.entry("mimeType").or_insert_with(|| json!(media_type));
    }
}

/// Returns the media type and the base64 of a `data:` URL.
fn data_url(text: &str) -> Option<(&str, &str)> {
    let (head, data) = text.trim().strip_prefix("data:")?.split_once(',')?;
    let media_type = head.strip_suffix(";base64")?;
    Some((media_type.split(';').next().unwrap_or_default(), data))
}

/// Returns base64 in its plain form; `None` if it is not base64.
fn plain_base64(data: &str) -> Option<String> {
    let plain: String = data
        .chars()
        .filter(|character| !character.is_ascii_whitespace())
        .map(|character| match character {
            '-' => '+',
            '_' => '/',
            other => other,
        })
        .collect();
    LENIENT.decode(plain).ok().map(|bytes| STANDARD.encode(bytes))
}

fn decoded_text(blob: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(plain_base64(blob)?).ok()?).ok()
}

fn is_text(media_type: &str) -> bool {
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    media_type.starts_with("text/")
        || media_type.strip_prefix("application/").is_some_and(|kind| {
            TEXTUAL.iter().any(|text| kind.strip_prefix("x-").unwrap_or(kind) == *text)
                || kind.ends_with("+json")
                || kind.ends_with("+xml")
        })
        || media_type.ends_with("+xml")
}
