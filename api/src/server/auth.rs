//! Authentication: the principal and the actor of a request.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, request::Parts},
    middleware::Next,
    response::Response,
};
use queue::{MAX_TENANT_LEN, is_valid_tenant};
use shared::DEFAULT_TENANT;

use super::{
    api_keys::KeyOwner,
    problem::{ApiError, Kind},
    state::AppState,
};

/// Header that names the user who submits a turn, requests a retry or gives a verdict.
pub(crate) const USER_HEADER: &str = "x-turnfold-user";

/// Maximum length of a user name in characters.
pub(crate) const USER_MAX: usize = 200;

/// Header that names the tenant of a request.
pub(crate) const TENANT_HEADER: &str = "x-turnfold-tenant";

/// The tenant that a request acts for. The request sees that tenant's threads and turns and creates threads for it. An
/// operator who names no tenant sees everything and creates threads for the default tenant.
///
/// ## Why an operator who names a tenant sees no other
///
/// The header then has the same meaning in every request: data of other tenants does not exist.
#[derive(Clone, Debug)]
pub(crate) struct Principal(Option<Arc<str>>);

impl Principal {
    fn new(owner: &KeyOwner<'_>, headers: &HeaderMap) -> Result<Self, ApiError> {
        let named = match headers.get(TENANT_HEADER) {
            Some(name) => Some(name.to_str().ok().filter(|name| is_valid_tenant(name)).ok_or_else(|| {
                let detail =
                    format!("X-Turnfold-Tenant must have 1 to {MAX_TENANT_LEN} characters of a-z 0-9 . _ -");
                Kind::Invalid.because(detail)
            })?),
            None => None,
        };
        match (owner, named) {
            (KeyOwner::Tenant(own), Some(named)) if own.as_ref() != named => {
                let detail = "X-Turnfold-Tenant: the key belongs to another tenant";
                Err(Kind::Invalid.because(detail).hint("remove the header, or send a key of that tenant"))
            }
            (KeyOwner::Tenant(own), _) => Ok(Self(Some(Arc::clone(own)))),
            (KeyOwner::Operator, named) => Ok(Self(named.map(Arc::from))),
        }
    }

    /// Returns the only visible tenant, or none if all tenants are visible.
    pub(crate) fn only(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Reports whether data of this tenant is visible.
    pub(crate) fn sees(&self, tenant: &str) -> bool {
        self.only().is_none_or(|only| only == tenant)
    }

    /// Returns the tenant that owns new threads.
    pub(crate) fn tenant(&self) -> &str {
        self.only().unwrap_or(DEFAULT_TENANT)
    }
}

impl<S: Sync> FromRequestParts<S> for Principal {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // **Invariant:** a protected handler runs only after `authenticate` has set the principal.
        let principal = parts.extensions.get::<Self>().cloned();
        principal.ok_or_else(|| Kind::Internal.because("the request was not authenticated"))
    }
}

/// Proof that a request comes from an operator and names no tenant.
pub(crate) struct Operator;

impl<S: Sync> FromRequestParts<S> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let principal = Principal::from_request_parts(parts, state).await?;
        if principal.only().is_none() {
            return Ok(Self);
        }
        Err(Kind::Forbidden
            .because("this request requires an operator, but it acts for one tenant")
            .hint("send a key from `[api] keys`, without X-Turnfold-Tenant"))
    }
}

/// Middleware that rejects requests without a valid key and sets the [`Principal`] of all others.
pub(crate) async fn authenticate(
    State(app): State<Arc<AppState>>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if let Some(owner) = app.keys.owner(request.headers()) {
        let principal = Principal::new(&owner, request.headers())?;
        request.extensions_mut().insert(principal);
        return Ok(next.run(request).await);
    }
    if app.keys.is_empty() {
        return Err(Kind::Unauthorized
            .because("no keys are configured, so the API answers only at 127.0.0.1, [::1] and localhost")
            .hint("use one of these names, or set `[api] keys`"));
    }
    // The response does not reveal whether the key was missing or wrong.
    Err(Kind::Unauthorized
        .because("a valid key is required")
        .hint("send `Authorization: Bearer KEY` with a key from `[api]` or `[tenants.NAME]`"))
}

/// Name of the user who makes a request, for the log: the header `X-Turnfold-User`, or `api`. It is not authenticated.
pub(crate) struct Actor(pub(crate) String);

impl<S: Sync> FromRequestParts<S> for Actor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let Some(name) = parts.headers.get(USER_HEADER) else { return Ok(Actor("api".to_owned())) };
        let wrong =
            || Kind::Malformed.because(format!("X-Turnfold-User must have 1 to {USER_MAX} characters"));
        let name = std::str::from_utf8(name.as_bytes()).map_err(|_| wrong())?.trim();
        if (1..=USER_MAX).contains(&name.chars().count()) { Ok(Actor(name.to_owned())) } else { Err(wrong()) }
    }
}
