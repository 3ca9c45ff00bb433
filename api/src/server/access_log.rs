//! The access log: one line for each request.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use axum::{
    extract::{ConnectInfo, MatchedPath, Request},
    middleware::Next,
    response::Response,
};
use tokio::time::Instant;
use tracing::{Level, enabled, info};

use super::principal::Principal;

/// Place in which authentication leaves the principal of a request for the access log.
#[derive(Clone, Default)]
pub(super) struct Authenticated(Arc<OnceLock<Principal>>);

impl Authenticated {
    /// Stores the principal for the line of the log.
    pub(super) fn set(&self, principal: &Principal) {
        // Each request is authenticated once.
        let _ = self.0.set(principal.clone());
    }
}

/// Middleware that logs each request when its response begins. The line has the template of the route, not the path.
pub(crate) async fn access_log(mut request: Request, next: Next) -> Response {
    if !enabled!(Level::INFO) {
        return next.run(request).await;
    }
    let started = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let address = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    let authenticated = Authenticated::default();
    request.extensions_mut().insert(authenticated.clone());
    let response = next.run(request).await;
    let principal = authenticated.0.get();
    let caller = principal.map(Principal::caller);
    info!(
        %method,
        route = route.as_ref().map_or("", MatchedPath::as_str),
        status = response.status().as_u16(),
        ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        key = caller.and_then(|caller| caller.key.as_deref()),
        subject = caller.and_then(|caller| caller.subject.as_deref()),
        tenant = principal.and_then(Principal::only),
        address = address.map(tracing::field::display),
        "request"
    );
    response
}
