//! Tool content other than text. The log keeps it beside the answer. A model is given the attached images, and learns of
//! the rest that it exists.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attachment::Attachment;

/// Extras that the log keeps beside an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ResponseExtras {
    /// Content other than text, in the order of arrival.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// Session of the server that produced the answer, if the server keeps one for the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Content other than text. Bytes are encoded in base64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "content", rename_all = "snake_case", deny_unknown_fields)]
pub enum Content {
    /// JSON that follows the output schema of the tool.
    Structured {
        /// Value of the structured output.
        value: Value,
    },
    /// An image.
    Image {
        /// MIME type of the image.
        mime_type: String,
        /// Image bytes in base64.
        data: String,
    },
    /// An image that the store keeps by its hash, for models that take images.
    Attached {
        /// Hash and size of the image.
        attachment: Attachment,
    },
    /// An audio clip.
    Audio {
        /// MIME type of the clip.
        mime_type: String,
        /// Audio bytes in base64.
        data: String,
    },
    /// A resource embedded by the server. The text of a text resource is part of the answer's text.
    Resource {
        /// URI of the resource.
        uri: String,
        /// MIME type of the resource.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// Bytes in base64, unless the resource is text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
    /// A link to a resource on the server.
    Link {
        /// URI of the resource.
        uri: String,
        /// Name of the resource.
        name: String,
        /// MIME type of the resource.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// Content that was not kept.
    Omitted {
        /// Description of the content, and the reason for omitting it.
        description: String,
    },
}

impl ResponseExtras {
    /// Returns the images that the store keeps.
    pub fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        self.content.iter().filter_map(|content| match content {
            Content::Attached { attachment } => Some(attachment),
            Content::Structured { .. }
            | Content::Image { .. }
            | Content::Audio { .. }
            | Content::Resource { .. }
            | Content::Link { .. }
            | Content::Omitted { .. } => None,
        })
    }
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |kind: &Option<String>| kind.as_ref().map(|kind| format!(", {kind}")).unwrap_or_default();
        match self {
            Content::Structured { value } => {
                write!(f, "json {}", crate::request::quoted(&value.to_string(), true))
            }
            Content::Image { mime_type, data } => write!(f, "image {mime_type}, {}", size(data)),
            Content::Attached { attachment } => write!(f, "{attachment}"),
            Content::Audio { mime_type, data } => write!(f, "audio {mime_type}, {}", size(data)),
            Content::Resource { uri, mime_type, data } => {
                write!(f, "resource {uri}{}", of(mime_type))?;
                data.iter().try_for_each(|base64| write!(f, ", {}", size(base64)))
            }
            Content::Link { uri, name, mime_type } => write!(f, "link {name} {uri}{}", of(mime_type)),
            Content::Omitted { description } => write!(f, "omitted: {description}"),
        }
    }
}

/// Formats the decoded size of base64 text.
fn size(base64: &str) -> String {
    match base64.len() / 4 * 3 {
        bytes @ 0..1_000 => format!("{bytes} B"),
        bytes => format!("{} kB", bytes.div_ceil(1_000)),
    }
}
