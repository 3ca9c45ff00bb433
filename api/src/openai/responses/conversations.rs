//! Routes of conversations. A conversation is a thread, which its first response begins.

use api_types::{OpenAiList, Problem};
use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::{Map, Value};
use store::Conversation;
use utoipa::ToSchema;

use super::{
    conversation::{ConversationObject, Found, name_of},
    conversation_body::{check_fields, check_room, items_of, metadata_of},
    input_items::{ConversationItem, ItemParams},
};
use crate::{
    server::{
        extract::{Body, MaybeBody, Path, Query},
        principal::{Decider, Principal},
        problem::{ApiError, Kind},
        state::SharedState,
        tenant_rules::Submitter,
    },
    threads::retention::delete_thread,
    turns::content::Messages,
};

/// Maximum size of the items that wait for a turn, as JSON, in bytes.
const ITEMS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of a tenant's conversations that no turn has begun.
const UNUSED_MAX: u64 = 10_000;

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
    let (items, tenant) = (items_of(&body)?, Submitter::from(&principal).tenant);
    check_room(&app, tenant, &[], &items).await?;
    let Messages { messages, attachments } = items;
    let new = Conversation::new(tenant, metadata_of(&body)?, messages);
    if !app.backends.store.keep_conversation(&new, attachments, UNUSED_MAX).await? {
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
    request_body(content = api_types::ConversationMetadataBody, description = "The field `metadata`.", content_type = "application/json",
        example = json!({"metadata": {"topic": "demo"}})),
    params(("id" = String, Path, description = "Id of the conversation.")),
    responses(
        (status = 200, description = "The conversation.", body = ConversationObject),
        (status = 400, description = "The request is invalid; `param` names the field.", body = Problem),
        (status = 404, description = "The conversation does not exist, or was not created as one.", body = Problem)
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
    if !app.backends.store.set_conversation_metadata(found.id, &metadata_of(&body)?).await? {
        let detail = format!("{name} was not created as a conversation, so it has no metadata");
        return Err(Kind::UnknownThread.because(detail).hint("create one with POST /v1/conversations"));
    }
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
    Decider(by): Decider,
    Path(name): Path<String>,
) -> Result<Json<DeletedConversation>, ApiError> {
    let found = Found::of(&app, &principal, &name).await?;
    if let Some(thread) = found.existing() {
        delete_thread(&app, thread, by).await?;
    } else {
        app.backends.store.delete_conversation(found.id).await?;
    }
    Ok(Json(DeletedConversation { id: name_of(found.id), object: "conversation.deleted", deleted: true }))
}

/// List the items of a conversation
///
/// Returns the messages, calls and results of the thread, and those that the next response takes to it.
#[utoipa::path(
    get, path = "/v1/conversations/{id}/items", tag = "openai", operation_id = "list_conversation_items",
    params(("id" = String, Path, description = "Id of the conversation, or of its thread."), ItemParams),
    responses(
        (status = 200, description = "A page of items.", body = OpenAiList<ConversationItem>),
        (status = 404, description = "The conversation does not exist.", body = Problem)
    )
)]
pub(crate) async fn items(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
    Query(params): Query<ItemParams>,
) -> Result<Json<OpenAiList<ConversationItem>>, ApiError> {
    let found = Found::of(&app, &principal, &name).await?;
    Ok(Json(params.page(found.items(&app).await?)?))
}

/// Add items to a conversation
///
/// The items wait until the next response of the conversation takes them to the thread, before its input.
#[utoipa::path(
    post, path = "/v1/conversations/{id}/items", tag = "openai", operation_id = "create_conversation_items",
    request_body(content = api_types::ConversationItemsBody, description = "The field `items`.", content_type = "application/json",
        example = json!({"items": [{"role": "user", "content": "hello"}]})),
    params(("id" = String, Path, description = "Id of the conversation.")),
    responses(
        (status = 200, description = "The items that were added.", body = OpenAiList<ConversationItem>),
        (status = 400, description = "The request is invalid; `param` names the field.", body = Problem),
        (status = 404, description = "The conversation does not exist, or was not created as one.", body = Problem)
    )
)]
pub(crate) async fn add_items(
    State(app): SharedState,
    principal: Principal,
    Path(name): Path<String>,
    Body { value: body, .. }: Body<Map<String, Value>>,
) -> Result<Json<OpenAiList<ConversationItem>>, ApiError> {
    let found = Found::of(&app, &principal, &name).await?;
    check_fields(&body, &["items"])?;
    let items = items_of(&body)?;
    if let Some(kept) = &found.kept {
        check_room(&app, &kept.tenant, &kept.items, &items).await?;
    }
    let Messages { messages, attachments } = items;
    let added = found.items_of(&messages).len();
    if !app.backends.store.add_conversation_items(found.id, messages, attachments, ITEMS_BYTES_MAX).await? {
        let detail = format!("items: more than {ITEMS_BYTES_MAX} bytes would wait for the next response");
        return Err(Kind::Invalid.because(detail).hint("create a response first").with_param("items"));
    }
    let mut all = Found::of(&app, &principal, &name).await?.items(&app).await?;
    let added = all.split_off(all.len().saturating_sub(added));
    Ok(Json(ItemParams::all().page(added)?))
}
