//! Route that returns the content of an image or file of a thread.

use api_types::Problem;
use axum::{
    body::Body,
    extract::State,
    http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    response::{IntoResponse, Response},
};
use uuid::Uuid;

use crate::{
    logs::lookup::find_thread,
    server::{
        extract::Path,
        principal::Principal,
        problem::{ApiError, Kind},
        state::SharedState,
    },
};

/// Download an attachment
///
/// Returns the content of an image or file of the thread's messages, which name it by its hash.
#[utoipa::path(
    get, path = "/v1/threads/{id}/attachments/{sha256}", tag = "threads", operation_id = "read_attachment",
    params(
        ("id" = Uuid, Path, description = "Id of the thread."),
        ("sha256" = String, Path, description = "SHA-256 of the content, in hexadecimal.")
    ),
    responses(
        (status = 200, description = "The content.", body = String, content_type = "application/octet-stream"),
        (status = 404, description = "The thread or the attachment does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn read(
    State(app): SharedState,
    principal: Principal,
    Path((id, sha256)): Path<(Uuid, String)>,
) -> Result<Response, ApiError> {
    find_thread(&app, &principal, id).await?;
    let content = app.backends.store.attachment(id, &sha256).await?;
    let unknown =
        || Kind::UnknownFile.because(format!("thread {id} has no attachment with the SHA-256 {sha256:?}"));
    // A client chose the content, so no browser may interpret it.
    let headers = [
        (CONTENT_TYPE, "application/octet-stream"),
        (CONTENT_DISPOSITION, "attachment"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((headers, Body::from(content.ok_or_else(unknown)?)).into_response())
}
