//! Contents of the images and files that models are given.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use shared::{Fault, Message};
use store::Store;
use uuid::Uuid;

use super::store_fault;

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
}

#[async_trait]
impl Attachments for Store {
    async fn content(&self, thread: Uuid, sha256: &str) -> Result<Option<Vec<u8>>, store::Error> {
        self.attachment(thread, sha256).await
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
    for attachment in messages.iter().flat_map(|it| &it.attachments) {
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
