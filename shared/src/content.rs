//! What a tool gave back besides words. The log keeps it beside the answer; a model hears only that it is there.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What the log keeps beside an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kept {
    /// What there is besides words, in the order in which it came.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// Which session with the server it was said in, where the server keeps one for the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// Something besides words. Bytes are in base64.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "content", rename_all = "snake_case", deny_unknown_fields)]
pub enum Content {
    /// JSON, as the tool's own schema describes it.
    Structured {
        /// It.
        value: Value,
    },
    /// A picture.
    Image {
        /// Of what kind.
        mime_type: String,
        /// Its bytes.
        data: String,
    },
    /// A sound.
    Audio {
        /// Of what kind.
        mime_type: String,
        /// Its bytes.
        data: String,
    },
    /// Something that the server has. If it is a text, that stands among the words.
    Resource {
        /// Where.
        uri: String,
        /// Of what kind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// Its bytes, if it is no text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<String>,
    },
    /// Something that the server would give.
    Link {
        /// Where.
        uri: String,
        /// What it is called.
        name: String,
        /// Of what kind.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// There was more, and it is not kept.
    Cut {
        /// What there was, and why it is not kept.
        what: String,
    },
}

impl fmt::Display for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |kind: &Option<String>| kind.as_ref().map(|it| format!(", {it}")).unwrap_or_default();
        match self {
            Content::Structured { value } => write!(f, "json {}", crate::request::quoted(&value.to_string())),
            Content::Image { mime_type, data } => write!(f, "image {mime_type}, {}", size(data)),
            Content::Audio { mime_type, data } => write!(f, "audio {mime_type}, {}", size(data)),
            Content::Resource { uri, mime_type, data } => {
                write!(f, "resource {uri}{}", of(mime_type))?;
                data.iter().try_for_each(|it| write!(f, ", {}", size(it)))
            }
            Content::Link { uri, name, mime_type } => write!(f, "link {name} {uri}{}", of(mime_type)),
            Content::Cut { what } => write!(f, "not kept: {what}"),
        }
    }
}

/// How much some base64 is.
fn size(base64: &str) -> String {
    match base64.len() / 4 * 3 {
        bytes @ 0..1_000 => format!("{bytes} B"),
        bytes => format!("{} kB", bytes.div_ceil(1_000)),
    }
}
