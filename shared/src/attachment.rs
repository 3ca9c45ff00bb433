//! Images and files of messages.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Image or file of a message. The log holds its hash, and the store its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// Way in which a model receives it.
    pub kind: AttachmentKind,
    /// Media type of the content, such as `image/png`.
    pub media_type: String,
    /// Name of the file. Empty for an image.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
    /// Size of the content in bytes.
    pub bytes: u64,
}

/// Media types of the images that models take.
pub const IMAGE_TYPES: [&str; 4] = ["image/gif", "image/jpeg", "image/png", "image/webp"];

/// Way in which a model receives an attachment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttachmentKind {
    /// A picture.
    Image,
    /// A document.
    File,
}

impl AttachmentKind {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            AttachmentKind::Image => "image",
            AttachmentKind::File => "file",
        }
    }
}

impl fmt::Display for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, media_type, name, sha256, bytes } = self;
        let gap = if name.is_empty() { "" } else { " " };
        let size = match bytes {
            0..1_000 => format!("{bytes} B"),
            _ => format!("{} kB", bytes.div_ceil(1_000)),
        };
        write!(
            f,
            "[{}{gap}{name}, {media_type}, {size}, sha256 {}]",
            kind.name(),
            sha256.get(..8).unwrap_or(sha256)
        )
    }
}

/// Kinds of attachments that models take, by provider. A provider that is not listed reads no attachments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accepts(pub BTreeMap<String, BTreeSet<AttachmentKind>>);

impl Accepts {
    /// Returns true if `model` can be given attachments of this kind. A provider that is not listed takes all.
    pub fn takes(&self, model: &str, kind: AttachmentKind) -> bool {
        let provider = model.split('/').next().unwrap_or(model);
        self.0.get(provider).is_none_or(|kinds| kinds.contains(&kind))
    }

    /// Returns true if any listed provider takes attachments of this kind.
    pub fn any_takes(&self, kind: AttachmentKind) -> bool {
        self.0.values().any(|kinds| kinds.contains(&kind))
    }

    /// Returns the reason why `model` cannot be given these attachments. `None` if it can, or if its provider is not
    /// listed.
    pub fn refusal<'a>(
        &self,
        model: &str,
        attachments: impl IntoIterator<Item = &'a Attachment>,
    ) -> Option<String> {
        let provider = model.split('/').next().unwrap_or(model);
        let kinds = self.0.get(provider)?;
        let refused = attachments.into_iter().find(|attachment| !kinds.contains(&attachment.kind))?;
        let kind = refused.kind.name();
        Some(format!(
            "model {model} takes no {kind}s, and a message has {refused}; hint: use a model that does, or add {kind:?} to \
             providers.{provider}.accepts if this one does"
        ))
    }
}

#[test]
fn a_model_is_given_only_what_its_provider_takes() {
    let picture = Attachment {
        kind: AttachmentKind::Image,
        media_type: "image/png".to_owned(),
        name: String::new(),
        sha256: "0123456789abcdef".to_owned(),
        bytes: 33_001,
    };
    let paper = Attachment { kind: AttachmentKind::File, name: "a.pdf".to_owned(), ..picture.clone() };
    let accepts = Accepts(BTreeMap::from([("eyes".to_owned(), BTreeSet::from([AttachmentKind::Image]))]));
    assert_eq!(accepts.refusal("eyes/m", [&picture]), None);
    let refusal = accepts.refusal("eyes/m", [&picture, &paper]).unwrap();
    assert!(refusal.starts_with("model eyes/m takes no files") && refusal.contains("a.pdf"), "{refusal}");
    assert_eq!(accepts.refusal("script/m", [&paper]), None);
    let takes = |model| [AttachmentKind::Image, AttachmentKind::File].map(|kind| accepts.takes(model, kind));
    assert_eq!((takes("eyes/m"), takes("script/m")), ([true, false], [true, true]));
    assert!(accepts.any_takes(AttachmentKind::Image) && !accepts.any_takes(AttachmentKind::File));
    assert_eq!(accepts.refusal("eyes/m", []), None);
    assert_eq!(picture.to_string(), "[image, image/png, 34 kB, sha256 01234567]");
}
