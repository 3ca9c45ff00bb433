//! Authentication of requests.

use std::{net::SocketAddr, sync::Arc};

use axum::{
    extract::{ConnectInfo, Request, State},
    middleware::Next,
    response::Response,
};

use super::{
    access_log::Authenticated,
    ongoing::{Ongoing, StreamForm},
    principal::Principal,
    problem::ApiError,
    state::AppState,
};

/// Middleware that rejects requests without a valid key and sets the [`Principal`] of all others.
pub(crate) async fn authenticate(
    State(app): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    let (caller, session_end) = app.keys.caller(request.headers(), address).await?;
    let principal = Principal::new(Arc::clone(&caller), request.headers())?;
    if let Some(place) = request.extensions().get::<Authenticated>() {
        place.set(&principal);
    }
    request.extensions_mut().insert(principal);
    let form = StreamForm::at(request.uri().path());
    Ongoing { app, caller, session_end }.answer(form, next.run(request)).await
}
