//! Content of a message as a client sends it: text, or parts with images and files.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;
use shared::{Attachment, AttachmentKind, IMAGE_TYPES, Message, Role, ToolCall};
use store::AttachmentContent;

use crate::server::problem::{ApiError, Kind};

/// Maximum number of images and files of one turn.
pub(crate) const ATTACHMENTS_MAX: usize = 32;

/// Maximum size of an image or a file in bytes. The limit on the body usually applies first.
const BYTES_MAX: usize = 20 << 20;

/// Maximum length of a file's name, in characters.
const NAME_MAX: usize = 255;

/// Messages of a turn, with the contents of their images and files.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) messages: Vec<Message>,
    pub(crate) attachments: Vec<AttachmentContent>,
}

impl Messages {
    /// Adds a message. `at` is the path of its content in the request.
    ///
    /// # Errors
    ///
    /// A part that is not supported, or content that is empty or too large.
    pub(crate) fn add(&mut self, role: Role, at: &str, content: &Value) -> Result<(), ApiError> {
        if content.is_null() {
            return Err(invalid(at, "it must be a text or a list of parts"));
        }
        let message = self.message_of(role, at, content)?;
        if message.content.trim().is_empty() && message.attachments.is_empty() {
            return Err(invalid(at, "it is empty"));
        }
        self.messages.push(message);
        Ok(())
    }

    /// Adds a message of the assistant that calls tools. Its content may be empty.
    pub(crate) fn add_calls(
        &mut self,
        at: &str,
        content: &Value,
        calls: Vec<ToolCall>,
    ) -> Result<(), ApiError> {
        let message = self.message_of(Role::Assistant, at, content)?;
        self.messages.push(Message { tool_calls: calls, ..message });
        Ok(())
    }

    /// Adds the result of the call `id`, which may have images. It may be empty.
    pub(crate) fn add_result(&mut self, at: &str, content: &Value, id: &str) -> Result<(), ApiError> {
        let message = self.message_of(Role::Tool, at, content)?;
        self.messages.push(Message { tool_call_id: Some(id.to_owned()), ..message });
        Ok(())
    }

    /// Returns a message, which may be empty.
    fn message_of(&mut self, role: Role, at: &str, content: &Value) -> Result<Message, ApiError> {
        let mut message = Message::new(role, "");
        match content {
            Value::Null => (),
            Value::String(text) => message.content.clone_from(text),
            Value::Array(parts) => {
                for (nth, part) in parts.iter().enumerate() {
                    self.add_part(&mut message, &format!("{at}[{nth}]"), part)?;
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
                return Err(invalid(at, "it must be a text or a list of parts"));
            }
        }
        Ok(message)
    }

    fn add_part(&mut self, message: &mut Message, at: &str, part: &Value) -> Result<(), ApiError> {
        let attachment = match (part["type"].as_str(), part["text"].as_str()) {
            (Some("text" | "input_text") | None, Some(text)) => {
                if !message.content.is_empty() {
                    message.content.push('\n');
                }
                message.content.push_str(text);
                return Ok(());
            }
            (Some("image_url"), _) => {
                self.image(&format!("{at}.image_url.url"), &part["image_url"]["url"])?
            }
            (Some("file"), _) => self.file(&format!("{at}.file"), &part["file"])?,
            (Some(other), _) => {
                let detail = format!("{at}: parts of type {other:?} are not supported");
                return Err(Kind::Unsupported
                    .because(detail)
                    .hint("send text, image_url or file")
                    .with_param(at));
            }
            (None, None) => return Err(invalid(at, "it must be a part with a type")),
        };
        match (message.role, attachment.kind) {
            (Role::User, _) | (Role::Tool, AttachmentKind::Image) => {}
            (Role::Tool, AttachmentKind::File) => {
                return Err(invalid(at, "results of tools may have images, but no files"));
            }
            (Role::System | Role::Assistant, _) => {
                let detail = "only messages of the user and results of tools may have images and files";
                return Err(invalid(at, detail));
            }
        }
        message.attachments.push(attachment);
        Ok(())
    }

    /// ## Why addresses of images are refused
    ///
    /// turnfold does not fetch them, because a client could make it read the operator's network. If the provider fetched
    /// them, the log could not tell what the model saw.
    fn image(&mut self, at: &str, url: &Value) -> Result<Attachment, ApiError> {
        let url = url.as_str().ok_or_else(|| invalid(at, "it must be a data: URL"))?;
        let (media_type, content) = data_url(at, url)?;
        if !IMAGE_TYPES.contains(&media_type.as_str()) {
            let known = IMAGE_TYPES.join(", ");
            return Err(invalid(at, &format!("{media_type:?} is not one of the image types {known}")));
        }
        self.keep(at, AttachmentKind::Image, media_type, String::new(), content)
    }

    fn file(&mut self, at: &str, file: &Value) -> Result<Attachment, ApiError> {
        if !file["file_id"].is_null() {
            let at = format!("{at}.file_id");
            let detail = format!("{at}: uploaded files cannot be part of a message");
            return Err(Kind::Unsupported.because(detail).hint("send the file as file_data").with_param(at));
        }
        let name = file["filename"].as_str().unwrap_or("file").to_owned();
        if NAME_MAX < name.chars().count() {
            return Err(invalid(
                &format!("{at}.filename"),
                &format!("it has more than {NAME_MAX} characters"),
            ));
        }
        let at = format!("{at}.file_data");
        let url = file["file_data"].as_str().ok_or_else(|| invalid(&at, "it must be a data: URL"))?;
        let (media_type, content) = data_url(&at, url)?;
        self.keep(&at, AttachmentKind::File, media_type, name, content)
    }

    fn keep(
        &mut self,
        at: &str,
        kind: AttachmentKind,
        media_type: String,
        name: String,
        content: Vec<u8>,
    ) -> Result<Attachment, ApiError> {
        if content.is_empty() {
            return Err(invalid(at, "it is empty"));
        }
        if BYTES_MAX < content.len() {
            return Err(invalid(at, &format!("it has {} bytes, more than {BYTES_MAX}", content.len())));
        }
        let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let content = AttachmentContent::new(content);
        let sha256 = content.sha256.clone();
        if !self.attachments.iter().any(|attachment| attachment.sha256 == sha256) {
            if ATTACHMENTS_MAX <= self.attachments.len() {
                return Err(invalid(
                    at,
                    &format!("a turn may have at most {ATTACHMENTS_MAX} images and files"),
                ));
            }
            self.attachments.push(content);
        }
        Ok(Attachment { kind, media_type, name, sha256, bytes })
    }

    /// Keeps only the last message of the user, with its images and files.
    pub(crate) fn only_last_of_user(&mut self) {
        let last = self.messages.iter().rposition(|message| message.role == Role::User);
        let last = last.map(|nth| self.messages.swap_remove(nth)).into_iter().collect();
        self.keep_only(last);
    }

    /// Keeps only these of the messages, with their images and files.
    pub(crate) fn keep_only(&mut self, messages: Vec<Message>) {
        self.messages = messages;
        let kept: Vec<&str> = self
            .messages
            .iter()
            .flat_map(|message| &message.attachments)
            .map(|attachment| attachment.sha256.as_str())
            .collect();
        self.attachments.retain(|it| kept.contains(&it.sha256.as_str()));
    }
}

fn invalid(at: &str, detail: &str) -> ApiError {
    Kind::Invalid.because(format!("{at}: {detail}")).with_param(at)
}

/// Splits a `data:` URL with base64 content into its media type and its content.
fn data_url(at: &str, url: &str) -> Result<(String, Vec<u8>), ApiError> {
    let hint = "send the content itself, as data:TYPE;base64,…";
    if url.starts_with("http:") || url.starts_with("https:") {
        let detail = format!("{at}: addresses are not supported, because the log keeps what a model sees");
        return Err(Kind::Unsupported.because(detail).hint(hint).with_param(at));
    }
    let malformed = |detail: &str| invalid(at, detail).hint(hint);
    let (head, data) = url
        .strip_prefix("data:")
        .and_then(|rest| rest.split_once(','))
        .ok_or_else(|| malformed("it is not a data: URL"))?;
    let media_type = head.strip_suffix(";base64").ok_or_else(|| malformed("it is not encoded in base64"))?;
    let media_type = media_type.to_ascii_lowercase();
    let is_legal = |c: char| c.is_ascii_alphanumeric() || "/+.-;=_".contains(c);
    if !media_type.contains('/') || 100 < media_type.len() || !media_type.chars().all(is_legal) {
        return Err(malformed("it has no media type"));
    }
    let content = STANDARD.decode(data).map_err(|error| malformed(&format!("it is not base64: {error}")))?;
    Ok((media_type, content))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A picture of 1 × 1 pixels.
    const PIXEL: &str = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7";

    fn read(content: Value) -> Result<Messages, String> {
        let mut messages = Messages::default();
        messages.add(Role::User, "messages[0].content", &content).map_err(|error| error.message())?;
        Ok(messages)
    }

    #[test]
    fn parts_become_text_and_attachments() {
        let image = json!({"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}});
        let file = json!({"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}});
        let Messages { messages, attachments } = read(
            json!([{"type": "text", "text": "Look"}, image, {"type": "text", "text": "here"}, image, file]),
        )
        .unwrap();
        let [message] = &messages[..] else { panic!("{messages:?}") };
        assert_eq!((message.content.as_str(), message.attachments.len()), ("Look\nhere", 3));
        assert_eq!(attachments.len(), 2, "the same picture is kept once");
        assert_eq!(&*attachments[1].content, b"hi");
        let file = &message.attachments[2];
        assert_eq!(
            (file.kind, file.media_type.as_str(), file.name.as_str()),
            (AttachmentKind::File, "text/plain", "a.txt")
        );
        assert_eq!((file.bytes, &file.sha256), (2, &attachments[1].sha256));
        assert!(read(json!([image])).unwrap().messages[0].content.is_empty(), "a picture needs no text");
    }

    #[test]
    fn unsupported_content_is_refused_by_name() {
        let image = |url: &str| json!([{"type": "image_url", "image_url": {"url": url}}]);
        for (content, why) in [
            (image("https://example.com/a.png"), "addresses are not supported"),
            (image("data:image/png,abc"), "not encoded in base64"),
            (image("data:image/png;base64,???"), "not base64"),
            (image("data:image/svg+xml;base64,aGk="), "not one of the image types"),
            (image("data:;base64,aGk="), "no media type"),
            (image("data:image/png;base64,"), "it is empty"),
            (json!([{"type": "image_url"}]), "must be a data: URL"),
            (json!([{"type": "input_audio", "input_audio": {}}]), "\"input_audio\" are not supported"),
            (json!([{"type": "file", "file": {"file_id": "file-1"}}]), "file_id: uploaded files cannot"),
            (json!([{"type": "file", "file": {"filename": "a"}}]), "file_data: it must be a data: URL"),
            (json!([]), "it is empty"),
            (json!(" "), "it is empty"),
            (json!({"text": "a"}), "a text or a list of parts"),
            (json!([7]), "a part with a type"),
        ] {
            let error = read(content.clone()).unwrap_err();
            assert!(error.starts_with("messages[0].content") && error.contains(why), "{content}: {error}");
        }
        let mut messages = Messages::default();
        let error = messages.add(Role::System, "it", &image(PIXEL)).unwrap_err();
        assert!(error.message().contains("only messages of the user"), "{}", error.message());
        let file = json!([{"type": "file", "file": {"file_data": "data:a/b;base64,aGk="}}]);
        let error = messages.add_result("it", &file, "call_1").unwrap_err();
        assert!(error.message().contains("it[0]: results of tools may have images"), "{}", error.message());
        let many: Vec<Value> = (0..=ATTACHMENTS_MAX)
            .map(|n| json!({"type": "file", "file": {"file_data": format!("data:a/b;base64,{}", STANDARD.encode(n.to_string()))}}))
            .collect();
        assert!(read(json!(many)).unwrap_err().contains("at most 32 images and files"));
    }

    #[test]
    fn only_the_last_message_keeps_its_attachments() {
        let mut messages = Messages::default();
        let file =
            |text: &str| json!([{"type": "file", "file": {"file_data": format!("data:a/b;base64,{text}")}}]);
        messages.add(Role::User, "a", &file("aGk=")).unwrap();
        messages.add(Role::Assistant, "b", &json!("Yes?")).unwrap();
        messages.add(Role::User, "c", &file("aG8=")).unwrap();
        messages.only_last_of_user();
        assert_eq!((messages.messages.len(), messages.attachments.len()), (1, 1));
        assert_eq!(&*messages.attachments[0].content, b"ho");
    }
}
