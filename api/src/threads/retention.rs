//! Routes that delete a thread, and place, list and release holds.

use api_types::{DeletedThread, Hold, NewHold, Page, Problem};
use axum::{Json, extract::State};
use queue::clock::rfc3339;
use store::{By, ThreadId};
use uuid::Uuid;

use crate::{
    logs::lookup::find_thread,
    server::{
        extract::{Body, Path},
        pagination::whole,
        principal::{Decider, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
};

/// Delete a thread
///
/// Deletes the thread with its turns and events. Refused while it is busy, waits for an answer, has a queued turn or is under a hold.
#[utoipa::path(
    delete, path = "/v1/threads/{id}", tag = "threads", operation_id = "delete_thread",
    params(
        ("id" = Uuid, Path, description = "Id of the thread."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "What was deleted.", body = DeletedThread),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The thread must stay.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn delete(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<Uuid>,
) -> Result<Json<DeletedThread>, ApiError> {
    find_thread(&app, &principal, id).await?;
    Ok(Json(delete_thread(&app, id, by).await?))
}

/// Deletes a thread for the user `by`.
///
/// # Errors
///
/// [`Kind::NotNow`] if the thread must stay.
pub(crate) async fn delete_thread(app: &AppState, id: ThreadId, by: By) -> Result<DeletedThread, ApiError> {
    let Some(deleted) = app.backends.store.delete_thread(id, by).await? else {
        let detail = format!(
            "thread {id} cannot be deleted: it is busy, waits for an answer, has a queued turn, or is under a hold"
        );
        let hint = format!(
            "cancel its turn with POST /v1/turns/ID/cancel, or release it with DELETE /v1/threads/{id}/hold"
        );
        return Err(Kind::NotNow.because(detail).hint(hint));
    };
    Ok(DeletedThread { id, turns: deleted.turns, events: deleted.events })
}

/// Protect a thread from deletion
///
/// Returns the hold in effect: an earlier one is not replaced.
#[utoipa::path(
    put, path = "/v1/threads/{id}/hold", tag = "threads", operation_id = "hold_thread", request_body = NewHold,
    params(("id" = Uuid, Path, description = "Id of the thread.")),
    responses(
        (status = 200, description = "The hold.", body = Hold),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The reason is empty.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn hold(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<Uuid>,
    Body { value: NewHold { reason }, .. }: Body<NewHold>,
) -> Result<Json<Hold>, ApiError> {
    if reason.trim().is_empty() {
        let hint = "give the reason, so that others know when the hold can be released";
        return Err(Kind::Invalid.because("the reason is empty").hint(hint));
    }
    find_thread(&app, &principal, id).await?;
    Ok(Json(view(app.backends.store.hold(id, &reason, by).await?)))
}

/// Release a thread from its hold
///
/// Returns the hold that was ended.
#[utoipa::path(
    delete, path = "/v1/threads/{id}/hold", tag = "threads", operation_id = "release_thread",
    params(
        ("id" = Uuid, Path, description = "Id of the thread."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The hold that was ended.", body = Hold),
        (status = 404, description = "The thread is not held.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn release(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<Uuid>,
) -> Result<Json<Hold>, ApiError> {
    find_thread(&app, &principal, id).await?;
    let released = app.backends.store.release(id, by).await?.map(view);
    let not_held = || Kind::NotHeld.because(format!("thread {id} is not held"));
    Ok(Json(released.ok_or_else(|| not_held().hint("list held threads with GET /v1/holds"))?))
}

/// List holds
///
/// Returns all holds, newest first; to a tenant, those on its threads.
#[utoipa::path(
    get, path = "/v1/holds", tag = "threads", operation_id = "list_holds",
    responses((status = 200, description = "All holds.", body = Page<Hold>))
)]
pub(crate) async fn holds(
    State(app): SharedState,
    principal: Principal,
) -> Result<Json<Page<Hold>>, ApiError> {
    let mut visible = Vec::new();
    for hold in app.backends.store.holds().await? {
        if principal.only().is_none() || find_thread(&app, &principal, hold.thread).await.is_ok() {
            visible.push(view(hold));
        }
    }
    Ok(Json(whole(visible)))
}

fn view(hold: store::Hold) -> Hold {
    Hold { thread_id: hold.thread, reason: hold.reason, by: hold.by, at: rfc3339(hold.at) }
}
