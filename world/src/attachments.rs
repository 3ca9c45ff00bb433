//! Contents of the images and files that models are given.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use shared::{Attachment, AttachmentKind, Content, Fault, IMAGE_TYPES, Message, Response};
use store::Store;
use uuid::Uuid;

use crate::fault::store_fault;

/// Contents of attachments as `data:` URLs, by hash.
pub(super) type DataUrls = BTreeMap<String, String>;

/// Reads the contents of attachments.
#[async_trait]
pub trait Attachments: Send + Sync {
    /// Returns the content of an attachment of this thread, if there is one with this hash.
    ///
    /// # Errors
    ///
    /// The errors of [`Store::attachment`].
    async fn content(&self, thread: Uuid, sha256: &str) -> Result<Option<Vec<u8>>, store::Error>;

    /// Stores the content of an attachment of this thread, and returns its hash.
    ///
    /// # Errors
    ///
    /// The errors of [`Store::keep_attachment`].
    async fn keep(&self, thread: Uuid, content: Vec<u8>) -> Result<String, store::Error>;
}

#[async_trait]
impl Attachments for Store {
    async fn content(&self, thread: Uuid, sha256: &str) -> Result<Option<Vec<u8>>, store::Error> {
        self.attachment(thread, sha256).await
    }

    async fn keep(&self, thread: Uuid, content: Vec<u8>) -> Result<String, store::Error> {
        self.keep_attachment(thread, content).await
    }
}

/// Maximum number of images of one tool result that models are given. The log keeps further ones.
const IMAGES_MAX: usize = 8;

/// Stores the images of a tool result by their hashes, so that models can be given them. An image that cannot be stored,
/// or that no model takes, stays in the result.
pub(super) async fn keep_images(
    to: Option<&Arc<dyn Attachments>>,
    thread: Uuid,
    response: Response,
) -> Response {
    let Some(to) = to else { return response };
    let Response::OutputWithExtras { output, mut extras } = response else { return response };
    let images = extras.content.iter_mut().filter(|content| matches!(content, Content::Image { .. }));
    for image in images.take(IMAGES_MAX) {
        if let Some(attachment) = keep_image(to, thread, image).await {
            *image = Content::Attached { attachment };
        }
    }
    Response::OutputWithExtras { output, extras }
}

async fn keep_image(to: &Arc<dyn Attachments>, thread: Uuid, image: &Content) -> Option<Attachment> {
    let Content::Image { mime_type, data } = image else { return None };
    if !IMAGE_TYPES.contains(&mime_type.as_str()) {
        return None;
    }
    let content = STANDARD.decode(data).ok().filter(|bytes| !bytes.is_empty())?;
    let (to, bytes) = (Arc::clone(to), u64::try_from(content.len()).ok()?);
    // A task of its own, as for reading: an append must not wait for a statement of a node that was cut off.
    let kept = tokio::spawn(async move { to.keep(thread, content).await }).await;
    match kept.map_err(|error| error.to_string()).and_then(|stored| stored.map_err(|error| error.to_string()))
    {
        Ok(sha256) => {
            let (kind, media_type) = (AttachmentKind::Image, mime_type.clone());
            Some(Attachment { kind, media_type, name: String::new(), sha256, bytes })
        }
        Err(error) => {
            tracing::warn!(%thread, error, "cannot store an image of a tool result; models are not given it");
            None
        }
    }
}

/// Loads the contents of the attachments of these messages.
///
/// The store is awaited in a separate task, as for the pins of MCP servers.
pub(super) async fn load(
    from: Option<&Arc<dyn Attachments>>,
    thread: Uuid,
    messages: &[Message],
) -> Result<DataUrls, Fault> {
    let mut urls = DataUrls::new();
    for attachment in messages.iter().flat_map(|message| &message.attachments) {
        let sha256 = attachment.sha256.clone();
        if urls.contains_key(&sha256) {
            continue;
        }
        let missing = || {
            Fault::permanent(format!(
                "the content of {attachment} is missing; hint: run: turnfold thread verify {thread}"
            ))
        };
        let from = Arc::clone(from.ok_or_else(missing)?);
        let read = tokio::spawn(async move { from.content(thread, &sha256).await }).await;
        let read = read.map_err(|error| Fault::transient(format!("cannot read {attachment}: {error}")))?;
        let content = read.map_err(|error| store_fault("the attachments", &error))?.ok_or_else(missing)?;
        let url = format!("data:{};base64,{}", attachment.media_type, STANDARD.encode(content));
        urls.insert(attachment.sha256.clone(), url);
    }
    Ok(urls)
}
