//! Routes of sessions of browsers.

use api_types::{Problem, Session};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::SET_COOKIE},
};
use queue::clock;

use crate::server::{principal::Principal, problem::ApiError, session, state::SharedState};

/// The header that sets a cookie.
type SetCookie = [(HeaderName, HeaderValue); 1];

/// Start a session
///
/// For browsers: seals the key of the request in a cookie that scripts cannot read (`HttpOnly`, `SameSite=Strict`). Requests that send
/// the header `X-Turnfold-Session: 1` and no key are then made with it, for 12 hours or until the key ends. A request without this
/// header ignores the cookie, so that a page of another site cannot use it. For a page with TLS, the name of the cookie begins with
/// `__Host-`, and with `X-Turnfold-Session: https` no other cookie counts, so that no other host of the domain can set one.
#[utoipa::path(
    post, path = "/v1/session", tag = "keys", operation_id = "start_session",
    responses(
        (status = 200, description = "The session; its cookie is in `Set-Cookie`.", body = Session),
        (status = 422, description = "The request has no key, or one that does not fit into a cookie, or the API needs none.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn start(
    State(app): SharedState,
    principal: Principal,
    headers: HeaderMap,
) -> Result<(SetCookie, Json<Session>), ApiError> {
    let session = app.keys.start_session(&headers, principal.caller())?;
    Ok(([(SET_COOKIE, session.cookie)], Json(Session { expires_at: clock::rfc3339(session.expires_at) })))
}

/// End a session
///
/// Deletes the cookie of the browser, which need not be valid any more. The key remains valid. The request needs no key.
#[utoipa::path(
    delete, path = "/v1/session", tag = "keys", operation_id = "end_session",
    responses((status = 204, description = "The cookie is deleted."))
)]
pub(crate) async fn end(headers: HeaderMap) -> Result<(StatusCode, SetCookie), ApiError> {
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, session::ended(&headers)?)]))
}
