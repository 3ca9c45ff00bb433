//! A conversation: a thread, which its first response begins.

use api_types::Message;
use serde::Serialize;
use serde_json::{Map, Value, json};
use shared::Message as LogMessage;
use store::{Conversation, ThreadId};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{input_items::ConversationItem, object::texts};
use crate::{
    logs::{folded::Folded, lookup::find_thread},
    server::{
        openai_ids::seconds,
        principal::Principal,
        problem::{ApiError, Kind},
        state::AppState,
    },
};

const PREFIX: &str = "conv_";

/// A conversation, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ConversationObject {
    /// `conv_` followed by the id of the thread.
    #[schema(examples("conv_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"))]
    id: String,
    /// Type of the object, always `conversation`.
    object: &'static str,
    /// Time of creation, in seconds since the Unix epoch.
    created_at: i64,
    /// Data of the client.
    #[schema(value_type = Object)]
    metadata: Map<String, Value>,
}

/// Formats the id of a conversation.
pub(super) fn name_of(id: ThreadId) -> String {
    format!("{PREFIX}{}", id.simple())
}

/// Parses the id of a conversation. The id of a thread is one as well.
fn thread_of(name: &str) -> Result<ThreadId, ApiError> {
    let id = name.strip_prefix(PREFIX).unwrap_or(name);
    let unknown = || {
        Kind::UnknownThread
            .because(format!("conversation {name:?} does not exist"))
            .hint("the id of a conversation begins with conv_")
    };
    Uuid::try_parse(id).map_err(|_| unknown())
}

/// A conversation that the principal may see: what its creation left, and whether a turn has begun its thread.
pub(super) struct Found {
    pub(super) id: ThreadId,
    pub(super) kept: Option<Conversation>,
    pub(super) thread: Option<store::Thread>,
}

impl Found {
    /// Finds a conversation, or a thread as one.
    pub(super) async fn of(app: &AppState, principal: &Principal, name: &str) -> Result<Self, ApiError> {
        let id = thread_of(name)?;
        let kept = app.backends.store.conversation(id).await?.filter(|kept| principal.sees(&kept.tenant));
        let thread = match find_thread(app, principal, id).await {
            Ok(thread) => Some(thread),
            Err(error) if error.kind == Kind::UnknownThread && kept.is_some() => None,
            Err(error) => return Err(error),
        };
        Ok(Self { id, kept, thread })
    }

    /// Returns the thread, if a turn has begun it.
    pub(super) fn existing(&self) -> Option<ThreadId> {
        self.thread.as_ref().map(|thread| thread.id)
    }

    /// Returns the conversation to which a turn of this tenant belongs; none if it is a thread that was not created as one.
    ///
    /// # Errors
    ///
    /// [`Kind::UnknownThread`] if the turn would begin a conversation of another tenant.
    pub(super) fn for_turn(&self, tenant: &str) -> Result<Option<ThreadId>, ApiError> {
        match &self.kept {
            Some(kept) if self.thread.is_none() && kept.tenant != tenant => {
                let name = name_of(self.id);
                let detail = format!(
                    "conversation {name} belongs to tenant {:?}, and the request to {tenant:?}",
                    kept.tenant
                );
                Err(Kind::UnknownThread.because(detail).hint("send X-Turnfold-Tenant"))
            }
            kept => Ok(kept.as_ref().map(|kept| kept.id)),
        }
    }

    pub(super) fn object(self) -> ConversationObject {
        let created_at = match (&self.kept, &self.thread) {
            (Some(kept), _) => kept.created_at,
            (None, Some(thread)) => thread.created_at,
            (None, None) => 0,
        };
        let metadata = self.kept.map(|kept| texts(&Value::Object(kept.metadata))).unwrap_or_default();
        ConversationObject {
            id: name_of(self.id),
            object: "conversation",
            created_at: seconds(created_at),
            metadata,
        }
    }

    /// Returns the items of the thread, and those that wait for the next turn.
    pub(super) async fn items(&self, app: &AppState) -> Result<Vec<ConversationItem>, ApiError> {
        let mut messages: Vec<LogMessage> = Vec::new();
        if self.thread.is_some() {
            let folded = Folded::load(app, self.id, None).await?;
            messages.extend(folded.thread.messages().iter().cloned());
        }
        messages.extend(self.kept.iter().flat_map(|kept| kept.items.clone()));
        Ok(self.items_of(&messages))
    }

    /// Returns the items of messages, in their order.
    pub(super) fn items_of(&self, messages: &[LogMessage]) -> Vec<ConversationItem> {
        let messages = messages.iter().map(Message::from).enumerate();
        messages
            .flat_map(|(nth, message)| ConversationItem::all(self.id, nth, &message, str::to_owned))
            .collect()
    }
}

/// Returns the id in the parameter `conversation`, a text or an object.
pub(super) fn named(body: &Map<String, Value>) -> Result<Option<String>, ApiError> {
    let Some(value) = body.get("conversation") else { return Ok(None) };
    match value.as_str().or_else(|| value["id"].as_str()) {
        Some(name) => Ok(Some(name.to_owned())),
        None => {
            let detail = "conversation: it must be the id of a conversation";
            Err(Kind::Invalid.because(detail).with_param("conversation"))
        }
    }
}

/// Returns the conversation as a response repeats it.
pub(super) fn echoed(id: ThreadId) -> Value {
    json!({"id": name_of(id)})
}
