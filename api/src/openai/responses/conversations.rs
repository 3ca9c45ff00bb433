//! Routes of conversations. A conversation is a thread, which its first response begins.

use api_types::{Message, OpenAiList, Problem, Role};
use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::{Map, Value, json};
use shared::Message as LogMessage;
use store::{Conversation, ThreadId};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    input_items::{ItemParams, MessageItem},
    items::ChatMessages,
    object::texts,
};
use crate::{
    logs::{folded::Folded, lookup::find_thread},
    openai::conversation,
    server::{
        extract::{Body, MaybeBody, Path, Query, deserialize},
        openai_ids::seconds,
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
        tenant_rules::Submitter,
    },
    threads::retention::delete_thread,
    turns::content::Messages,
};

const PREFIX: &str = "conv_";

/// Maximum number of items of a request.
const ITEMS_MAX: usize = 20;

/// Maximum size of the items that wait for a turn, as JSON, in bytes.
const ITEMS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of pairs of metadata, and of the characters of a value, as in OpenAI's API.
const METADATA_MAX: usize = 16;
const VALUE_MAX: usize = 512;

/// Maximum number of a tenant's conversations that no turn has begun.
const UNUSED_MAX: u64 = 10_000;

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

/// A conversation that was deleted, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeletedConversation {
    /// Id of the conversation.
    id: String,
    /// Type of the object, always `conversation.deleted`.
    object: &'static str,
    /// True, because the conversation was deleted.
    deleted: bool,
}

/// Formats the id of a conversation.
fn name_of(id: ThreadId) -> String {
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
    kept: Option<Conversation>,
    thread: Option<store::Thread>,
}

impl Found {
    /// Finds a conversation, or a thread as one.
    pub(super) async fn of(app: &AppState, principal: &Principal, name: &str) -> Result<Self, ApiError> {
        let id = thread_of(name)?;
        let kept = app.backends.store.conversation(id).await?.filter(|it| principal.sees(&it.tenant));
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

    fn object(self) -> ConversationObject {
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

    /// Returns the messages of the thread, and those that wait for the next turn. Calls of tools are in the log only.
    async fn items(&self, app: &AppState) -> Result<Vec<MessageItem>, ApiError> {
        let mut messages: Vec<LogMessage> = Vec::new();
        if self.thread.is_some() {
            let folded = Folded::load(app, self.id, None).await?;
            messages.extend(folded.thread.messages().iter().cloned());
        }
        messages.extend(self.kept.iter().flat_map(|kept| kept.items.clone()));
        let messages = messages.iter().map(Message::from).enumerate();
        let is_said = |(_, message): &(usize, Message)| {
            message.role != Role::Tool && !(message.content.is_empty() && message.attachments.is_empty())
        };
        Ok(messages.filter(is_said).map(|(nth, message)| MessageItem::of(self.id, nth, &message)).collect())
    }
}

/// Checks the fields of a body.
fn check_fields(body: &Map<String, Value>, known: &[&str]) -> Result<(), ApiError> {
    match body.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            let detail = format!("{name}: unknown parameter");
            Err(Kind::Unsupported.because(detail).hint("remove it").with_param(name.as_str()))
        }
        None => Ok(()),
    }
}

fn metadata_of(body: &Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
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
fn items_of(body: &Map<String, Value>) -> Result<Vec<LogMessage>, ApiError> {
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

/// Create a conversation
///
/// Works as `POST /v1/conversations` of OpenAI's API. A conversation is a thread: its first response, with `conversation`, chooses the
/// model and begins the thread, with the items before its input.
#[utoipa::path(
    post, path = "/v1/conversations", tag = "openai", operation_id = "create_conversation",
    request_body(content = Option<Object>, description = "`metadata` and `items`, both optional.", content_type = "application/json",
        example = json!({"metadata": {"topic": "demo"}, "items": [{"role": "user", "content": "hello"}]})),
    params(("X-Turnfold-Tenant" = Option<String>, Header, description = "Tenant of the request, for operators.")),
    responses(
        (status = 200, description = "The conversation.", body = ConversationObject),
        (status = 400, description = "The request is invalid; `param` names the field.", body = Problem),
        (status = 507, description = "The tenant has too many conversations that no turn has begun.", body = Problem)
    )
)]
pub(crate) async fn create(
    State(app): SharedState,
    principal: Principal,
    MaybeBody(body): MaybeBody<Map<String, Value>>,
) -> Result<Json<ConversationObject>, ApiError> {
    let body = body.unwrap_or_default();
    check_fields(&body, &["metadata", "items"])?;
    let new = Conversation::new(Submitter::from(&principal).tenant, metadata_of(&body)?, items_of(&body)?);
    if !app.backends.store.keep_conversation(&new, UNUSED_MAX).await? {
        let detail = format!("there are {UNUSED_MAX} conversations already that no response has begun");
        return Err(Kind::StorageFull.because(detail).hint("delete some, or use them"));
    }
    Ok(Json(Found { id: new.id, kept: Some(new), thread: None }.object()))
}

/// Show a conversation
///
/// Returns the conversation. Every thread is one, with the id `conv_` and that of the thread.
#[utoipa::path(
    get, path = "/v1/conversations/{id}", tag = "openai", operation_id = "get_conversation",
    params(("id" = String, Path, description = "Id of the conversation, or of its thread.")),
    responses(
        (status = 200, description = "The conversation.", body = ConversationObject),
        (status = 404, description = "The conversation does not exist.", body = Problem)
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
) -> Result<Json<ConversationObject>, ApiError> {
    Ok(Json(Found::of(&app, &principal, &name).await?.object()))
}

/// Update a conversation
///
/// Replaces the metadata.
#[utoipa::path(
    post, path = "/v1/conversations/{id}", tag = "openai", operation_id = "update_conversation",
    request_body(content = Object, description = "The field `metadata`.", content_type = "application/json",
        example = json!({"metadata": {"topic": "demo"}})),
    params(("id" = String, Path, description = "Id of the conversation.")),
    responses(
        (status = 200, description = "The conversation.", body = ConversationObject),
        (status = 400, description = "The request is invalid; `param` names the field.", body = Problem),
        (status = 404, description = "The conversation does not exist.", body = Problem)
    )
)]
pub(crate) async fn update(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
    Body { value: body, .. }: Body<Map<String, Value>>,
) -> Result<Json<ConversationObject>, ApiError> {
    let found = Found::of(&app, &principal, &name).await?;
    check_fields(&body, &["metadata"])?;
    app.backends.store.set_conversation_metadata(found.id, &metadata_of(&body)?).await?;
    Ok(Json(Found::of(&app, &principal, &name).await?.object()))
}

/// Delete a conversation
///
/// Deletes the conversation and its thread. Refused while the thread is busy, waits for an answer or is under a hold.
#[utoipa::path(
    delete, path = "/v1/conversations/{id}", tag = "openai", operation_id = "delete_conversation",
    params(("id" = String, Path, description = "Id of the conversation, or of its thread.")),
    responses(
        (status = 200, description = "The conversation was deleted.", body = DeletedConversation),
        (status = 404, description = "The conversation does not exist.", body = Problem),
        (status = 409, description = "The thread must stay.", body = Problem)
    )
)]
pub(crate) async fn delete(
    State(app): SharedState,
    principal: Principal,
    Actor { name: by, .. }: Actor,
    Path(name): Path<String>,
) -> Result<Json<DeletedConversation>, ApiError> {
    let found = Found::of(&app, &principal, &name).await?;
    if let Some(thread) = found.existing() {
        delete_thread(&app, thread, &by).await?;
    } else {
        app.backends.store.delete_conversation(found.id).await?;
    }
    Ok(Json(DeletedConversation { id: name_of(found.id), object: "conversation.deleted", deleted: true }))
}

/// List the items of a conversation
///
/// Returns the messages of the thread, and those that the next response takes to it.
#[utoipa::path(
    get, path = "/v1/conversations/{id}/items", tag = "openai", operation_id = "list_conversation_items",
    params(("id" = String, Path, description = "Id of the conversation, or of its thread."), ItemParams),
    responses(
        (status = 200, description = "A page of messages.", body = OpenAiList<MessageItem>),
        (status = 404, description = "The conversation does not exist.", body = Problem)
    )
)]
pub(crate) async fn items(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
    Query(params): Query<ItemParams>,
) -> Result<Json<OpenAiList<MessageItem>>, ApiError> {
    let found = Found::of(&app, &principal, &name).await?;
    Ok(Json(params.page(found.items(&app).await?)?))
}

/// Add items to a conversation
///
/// The items wait until the next response of the conversation takes them to the thread, before its input.
#[utoipa::path(
    post, path = "/v1/conversations/{id}/items", tag = "openai", operation_id = "create_conversation_items",
    request_body(content = Object, description = "The field `items`.", content_type = "application/json",
        example = json!({"items": [{"role": "user", "content": "hello"}]})),
    params(("id" = String, Path, description = "Id of the conversation.")),
    responses(
        (status = 200, description = "The items that were added.", body = OpenAiList<MessageItem>),
        (status = 400, description = "The request is invalid; `param` names the field.", body = Problem),
        (status = 404, description = "The conversation does not exist, or was not created as one.", body = Problem)
    )
)]
pub(crate) async fn add_items(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
    Body { value: body, .. }: Body<Map<String, Value>>,
) -> Result<Json<OpenAiList<MessageItem>>, ApiError> {
    let found = Found::of(&app, &principal, &name).await?;
    check_fields(&body, &["items"])?;
    let items = items_of(&body)?;
    let added = items.len();
    if !app.backends.store.add_conversation_items(found.id, items, ITEMS_BYTES_MAX).await? {
        let detail = format!("items: more than {ITEMS_BYTES_MAX} bytes would wait for the next response");
        return Err(Kind::Invalid.because(detail).hint("create a response first").with_param("items"));
    }
    let mut all = Found::of(&app, &principal, &name).await?.items(&app).await?;
    let added = all.split_off(all.len().saturating_sub(added));
    Ok(Json(ItemParams::all().page(added)?))
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
