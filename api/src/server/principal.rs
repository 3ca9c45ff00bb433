//! The principal and the actor of a request.

use std::sync::Arc;

use api_types::Scope;
use audit::otel::TraceParent;
use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, request::Parts},
};
use queue::{MAX_TENANT_LEN, is_valid_tenant};
use shared::{CallerId, DEFAULT_TENANT};
use store::By;

use super::{
    caller::Caller,
    problem::{ApiError, Kind},
};

/// Header that names the user who submits a turn, requests a retry or gives a verdict.
pub(crate) const USER_HEADER: &str = "x-turnfold-user";

/// Maximum length of a user name in characters.
pub(crate) const USER_MAX: usize = 200;

/// Header with the reason of an administrative decision.
const REASON_HEADER: &str = "x-turnfold-reason";

/// Maximum length of a reason in characters.
const REASON_MAX: usize = 500;

/// Header that names the tenant of a request.
pub(crate) const TENANT_HEADER: &str = "x-turnfold-tenant";

/// The tenant that a request acts for, and the caller who sent it. The request sees that tenant's threads and turns and
/// creates threads for it. An operator who names no tenant sees everything and creates threads for the default tenant.
///
/// ## Why an operator who names a tenant sees no other
///
/// The header then has the same meaning in every request: data of other tenants does not exist.
#[derive(Clone, Debug)]
pub(crate) struct Principal {
    tenant: Option<Arc<str>>,
    caller: Arc<Caller>,
}

impl Principal {
    /// Checks the tenant that a caller names.
    pub(super) fn new(caller: Arc<Caller>, headers: &HeaderMap) -> Result<Self, ApiError> {
        let named = match headers.get(TENANT_HEADER) {
            Some(name) => Some(name.to_str().ok().filter(|name| is_valid_tenant(name)).ok_or_else(|| {
                let detail =
                    format!("X-Turnfold-Tenant must have 1 to {MAX_TENANT_LEN} characters of a-z 0-9 . _ -");
                Kind::Invalid.because(detail)
            })?),
            None => None,
        };
        let tenant = match (&caller.tenant, named) {
            (Some(own), Some(named)) if own.as_ref() != named => {
                let detail = "X-Turnfold-Tenant: the key belongs to another tenant";
                return Err(Kind::Invalid
                    .because(detail)
                    .hint("remove the header, or send a key of that tenant"));
            }
            (Some(own), _) => Some(Arc::clone(own)),
            (None, named) => named.map(Arc::from),
        };
        Ok(Self { tenant, caller })
    }

    /// Creates a principal that acts for a caller without a request of it. None as the tenant: as an operator who names none.
    pub(crate) fn on_behalf(caller: Arc<Caller>, tenant: Option<&str>) -> Self {
        Self { tenant: tenant.map(Arc::from), caller }
    }

    /// Returns the sender of the request.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Reports whether the key has this scope.
    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.caller.scopes.contains(&scope)
    }

    /// Checks that the key has this scope.
    ///
    /// # Errors
    ///
    /// [`Kind::Forbidden`] if it does not.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.has(scope) {
            return Ok(());
        }
        let hint = format!("send a key with this scope; `turnfold key create --scope {scope}` creates one");
        Err(Kind::Forbidden.because(format!("the key lacks the scope `{scope}`")).hint(hint))
    }

    /// Returns the only visible tenant, or none if all tenants are visible.
    pub(crate) fn only(&self) -> Option<&str> {
        self.tenant.as_deref()
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
            .hint("send a key of an operator, without X-Turnfold-Tenant"))
    }
}

/// Author of a request, for the log.
#[derive(Clone, Debug)]
pub(crate) struct Actor {
    /// Name of the user that the client claims: the header `X-Turnfold-User`, or `api`. It is not authenticated.
    pub(crate) name: String,
    /// Caller as its key proves it; none if no key was required.
    pub(crate) caller: Option<CallerId>,
    /// Span of the client, of which the turns of the request are children in traces.
    pub(crate) trace_parent: Option<String>,
}

impl Actor {
    /// An author without a key: turnfold itself.
    pub(crate) fn without_key(name: &str) -> Self {
        Self { name: name.to_owned(), caller: None, trace_parent: None }
    }
}

impl<S: Sync> FromRequestParts<S> for Actor {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let caller = parts.extensions.get::<Principal>().and_then(|principal| principal.caller().id());
        let trace_parent = trace_parent(&parts.headers);
        let Some(name) = parts.headers.get(USER_HEADER) else {
            return Ok(Self { name: "api".to_owned(), caller, trace_parent });
        };
        let wrong =
            || Kind::Malformed.because(format!("X-Turnfold-User must have 1 to {USER_MAX} characters"));
        let name = std::str::from_utf8(name.as_bytes()).map_err(|_| wrong())?.trim();
        let is_valid = (1..=USER_MAX).contains(&name.chars().count());
        if is_valid { Ok(Self { name: name.to_owned(), caller, trace_parent }) } else { Err(wrong()) }
    }
}

/// Author of an administrative decision and the reason, for the administrative log.
#[derive(Clone, Debug)]
pub(crate) struct Decider(pub(crate) By);

impl<S: Sync> FromRequestParts<S> for Decider {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Actor { name, caller, .. } = Actor::from_request_parts(parts, state).await?;
        let by = By { name, caller, reason: None };
        let Some(reason) = parts.headers.get(REASON_HEADER) else { return Ok(Self(by)) };
        let wrong = || {
            let detail = format!("X-Turnfold-Reason must be one line of 1 to {REASON_MAX} characters");
            Kind::Malformed.because(detail).hint("leave it out if there is no reason to record")
        };
        let reason = std::str::from_utf8(reason.as_bytes()).map_err(|_| wrong())?.trim();
        if !(1..=REASON_MAX).contains(&reason.chars().count()) {
            return Err(wrong());
        }
        Ok(Self(by.because(reason)))
    }
}

/// Returns the `traceparent` header. As the standard demands, an invalid one is ignored.
fn trace_parent(headers: &HeaderMap) -> Option<String> {
    let parent: TraceParent = headers.get("traceparent")?.to_str().ok()?.parse().ok()?;
    Some(parent.to_string())
}
