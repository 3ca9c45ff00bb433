//! Routes of the sign-in with the pages of an issuer.

use std::net::SocketAddr;

use api_types::{Problem, SignInWays};
use axum::{
    Extension, Json,
    extract::{ConnectInfo, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{ACCEPT, CACHE_CONTROL, LOCATION, REFERRER_POLICY, SET_COOKIE},
    },
    response::{IntoResponse, Response},
};

use crate::server::{
    extract::Query,
    problem::{ApiError, Kind},
    session::NewSession,
    sign_in::{Failure, IssuerReply, SignIn},
    state::SharedState,
};

/// Start of the console, which shows the word behind it.
const CONSOLE: &str = "/#/?sign_in=";

/// Word for a sign-in that succeeded.
const DONE: &str = "done";

/// List the ways to sign in
///
/// For the console: names the issuer whose pages sign people in and out, if `[api.oidc.sign_in]` is configured. The request needs no key.
#[utoipa::path(
    get, path = "/v1/session", tag = "keys", operation_id = "list_sign_in_ways",
    responses((status = 200, description = "The ways to sign in.", body = SignInWays))
)]
pub(crate) async fn ways(State(app): SharedState) -> Json<SignInWays> {
    let sign_in = app.keys.sign_in().ok();
    let sign_out_url = match sign_in {
        Some(sign_in) => sign_in.sign_out_url().await,
        None => None,
    };
    Json(SignInWays { issuer: sign_in.map(SignIn::host), url: sign_in.map(SignIn::url), sign_out_url })
}

/// Sign in with an issuer
///
/// For browsers: leads to the page of the issuer that asks a person to sign in. The browser keeps the secrets of the attempt for ten
/// minutes in a cookie that scripts cannot read. After a failure, a browser is led to the console, which explains it. The request needs no
/// key.
#[utoipa::path(
    get, path = "/v1/session/oidc", tag = "keys", operation_id = "begin_sign_in",
    responses(
        (status = 303, description = "The page of the issuer is in `Location`."),
        (status = 404, description = "No pages of an issuer are configured.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The addresses of the issuer cannot be read.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn begin(State(app): SharedState, headers: HeaderMap) -> Result<Response, ApiError> {
    let departure = match app.keys.sign_in()?.begin(&headers).await {
        Ok(departure) => departure,
        Err(failure) => return explained(failure, &headers),
    };
    let mut response = redirect(departure.location);
    response.headers_mut().append(SET_COOKIE, departure.cookie);
    Ok(response)
}

/// End a sign-in with an issuer
///
/// The issuer sends browsers here. Starts a session with the token of the person who signed in, as `POST /v1/session` does with a key, and
/// leads to the console. A browser, which accepts `text/html`, is led there also after a failure, and the console explains it. Wrong
/// requests count as wrong keys of their address. The request needs no key.
#[utoipa::path(
    get, path = "/v1/session/oidc/callback", tag = "keys", operation_id = "end_sign_in", params(IssuerReply),
    responses(
        (status = 303, description = "The session began: its cookie is in `Set-Cookie`, and the console in `Location`."),
        (status = 401, description = "The browser did not begin the sign-in, or the reply or token of the issuer is not valid.", body = Problem, content_type = "application/problem+json"),
        (status = 403, description = "The sign-in was denied, or the token names no tenant.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "No pages of an issuer are configured.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The token is too long for a cookie.", body = Problem, content_type = "application/problem+json"),
        (status = 429, description = "The address has sent many wrong requests or keys.", body = Problem, content_type = "application/problem+json"),
        (status = 502, description = "The issuer does not accept this API as a client.", body = Problem, content_type = "application/problem+json"),
        (status = 503, description = "The issuer does not answer.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn finish(
    State(app): SharedState,
    peer: Option<Extension<ConnectInfo<SocketAddr>>>,
    reply: Result<Query<IssuerReply>, ApiError>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let sign_in = app.keys.sign_in()?;
    let address = peer.map(|Extension(ConnectInfo(peer))| peer.ip());
    let reply = reply.ok().map(|Query(reply)| reply);
    let finished = app.keys.finish_sign_in(&headers, reply.as_ref(), address).await;
    // A page of another site can lead here without the state. The attempt of the browser then goes on.
    let is_over = !matches!(&finished, Err(Failure::Lost | Failure::Other(_)));
    let mut response = arrival(finished, &headers)?;
    if is_over {
        response.headers_mut().append(SET_COOKIE, sign_in.ended(&headers)?);
    }
    Ok(response)
}

/// Returns the response to a browser that comes back.
fn arrival(finished: Result<NewSession, Failure>, headers: &HeaderMap) -> Result<Response, ApiError> {
    match finished {
        Ok(session) => {
            let mut response = to_console(DONE)?;
            response.headers_mut().append(SET_COOKIE, session.cookie);
            Ok(response)
        }
        Err(failure) => explained(failure, headers),
    }
}

/// Returns the response to a failure: for a browser, the console, which explains it.
fn explained(failure: Failure, headers: &HeaderMap) -> Result<Response, ApiError> {
    if accepts_page(headers) { to_console(failure.word()) } else { Ok(failure.error().into_response()) }
}

fn to_console(word: &str) -> Result<Response, ApiError> {
    let location = HeaderValue::from_str(&format!("{CONSOLE}{word}"));
    Ok(redirect(location.map_err(|_| Kind::Internal.because("cannot write the address of the console"))?))
}

fn redirect(location: HeaderValue) -> Response {
    let headers = [
        (LOCATION, location),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        // The address has the code of the issuer.
        (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (StatusCode::SEE_OTHER, headers).into_response()
}

/// Reports whether the client shows a page to a person.
fn accepts_page(headers: &HeaderMap) -> bool {
    let mut accepted = headers.get_all(ACCEPT).iter().filter_map(|kinds| kinds.to_str().ok());
    accepted.any(|kinds| kinds.contains("text/html"))
}
