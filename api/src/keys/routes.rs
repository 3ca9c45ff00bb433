//! Routes of API keys.
//!
//! **Invariant:** a key never creates a key that may do more, for more tenants, or for longer than itself.

use std::collections::BTreeSet;

use api_types::{NewKey, Page, Problem, RotateKey, Scope};
use axum::{Json, extract::State};
use queue::clock;
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use store::{Key, MOST_KEYS};
use utoipa::IntoParams;

use super::view;
use crate::server::{
    extract::{Body, MaybeBody, Path, Query},
    issued_keys::NewSecret,
    pagination::{limit, page},
    principal::{Decider, Principal},
    problem::{ApiError, Kind},
    state::{AppState, SharedState},
};

/// Maximum length of a key's name in characters.
const NAME_MAX: usize = 100;

/// Maximum lifetime of a key in seconds: ten years.
const LIFETIME_MAX: u64 = 3660 * 24 * 3600;

/// Maximum overlap of a rotation in seconds: 30 days.
const OVERLAP_MAX: u64 = 30 * 24 * 3600;

/// Create a key
///
/// The response contains the key, which is not shown again; only its hash is stored. The key acts for the tenant of the
/// request. An operator who names no tenant creates an operator's key. A key can have no scope that the creating key lacks, and
/// expires no later than it.
#[utoipa::path(
    post, path = "/v1/keys", tag = "keys", operation_id = "create_key", request_body = NewKey,
    params(
        ("X-Turnfold-Tenant" = Option<String>, Header, description = "Tenant of the key, for operators."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who creates the key. Default: `api`."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The key with its secret.", body = api_types::Key),
        (status = 403, description = "The creating key lacks a scope.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The maximum number of keys is reached.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The request is invalid; `detail` names the field.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn create(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Body { value: new, .. }: Body<NewKey>,
) -> Result<Json<api_types::Key>, ApiError> {
    if new.name.chars().count() > NAME_MAX || new.name.chars().any(char::is_control) {
        let detail = format!("name: it must be one line of at most {NAME_MAX} characters");
        return Err(Kind::Invalid.because(detail));
    }
    if new.scopes.is_empty() {
        return Err(Kind::Invalid.because("scopes: at least one is required"));
    }
    may_grant(&principal, &new.scopes)?;
    let lifetime = seconds("expires_in_seconds", new.expires_in_seconds, 1, LIFETIME_MAX)?;
    let now = clock::now();
    let expires_at = earlier(lifetime.map(|lifetime| now + lifetime), principal.caller().expires_at);
    let secret = generate()?;
    let key = Key {
        id: secret.id.clone(),
        hash: secret.hash.clone(),
        tenant: principal.only().map(str::to_owned),
        name: new.name,
        scopes: names(&new.scopes),
        created_by: by.name.clone(),
        created_at: now,
        expires_at,
        revoked_at: None,
        last_used_at: None,
        multitask_strategy: new.multitask_strategy,
    };
    if !app.backends.store.add_key(&key, by).await? {
        return Err(too_many());
    }
    tracing::info!(key = key.id, by = principal.caller().key.as_deref(), "key created");
    Ok(Json(shown(key, &secret)))
}

/// Get the caller
///
/// Returns what the key of the request may do. Every valid key may ask.
#[utoipa::path(
    get, path = "/v1/caller", tag = "keys", operation_id = "get_caller",
    params(("X-Turnfold-Tenant" = Option<String>, Header, description = "Tenant to act for, for operators.")),
    responses((status = 200, description = "The caller.", body = api_types::Caller))
)]
pub(crate) async fn caller(principal: Principal) -> Json<api_types::Caller> {
    let caller = principal.caller();
    Json(api_types::Caller {
        key: caller.key.as_deref().map(str::to_owned),
        subject: caller.subject.as_deref().map(str::to_owned),
        tenant: principal.only().map(str::to_owned),
        scopes: caller.scopes.iter().copied().collect(),
        expires_at: caller.expires_at.map(clock::rfc3339),
        multitask_strategy: caller.multitask_strategy,
    })
}

/// Query parameters of the list of keys.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListKeys {
    /// Only keys created after this one: the last key of the previous page.
    after: Option<String>,
    /// Maximum number of keys. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// List keys
///
/// Returns a page of keys, oldest first, without their secrets. Of the keys that are revoked or expired, at least the last
/// thousand of each tenant are kept.
#[utoipa::path(
    get, path = "/v1/keys", tag = "keys", operation_id = "list_keys", params(ListKeys),
    responses(
        (status = 200, description = "A page of keys.", body = Page<api_types::Key>),
        (status = 404, description = "The key `after` does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<ListKeys>,
) -> Result<Json<Page<api_types::Key>>, ApiError> {
    let limit = limit(params.limit)?;
    let after = match params.after {
        Some(id) => Some(find(&app, &principal, &id).await?),
        None => None,
    };
    let rows = app.backends.store.keys(principal.only(), after.as_ref(), limit + 1).await?;
    let now = clock::now();
    Ok(Json(page(rows, limit).map(|row| view::key(row, now))))
}

/// Revoke a key
///
/// Every API refuses the key at once. Revoking a revoked key changes nothing.
#[utoipa::path(
    delete, path = "/v1/keys/{id}", tag = "keys", operation_id = "revoke_key",
    params(
        ("id" = String, Path, description = "Id of the key."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The revoked key.", body = api_types::Key),
        (status = 404, description = "The key does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn revoke(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<String>,
) -> Result<Json<api_types::Key>, ApiError> {
    find(&app, &principal, &id).await?;
    app.backends.store.revoke_key(&id, by).await?;
    app.keys_changed().await;
    tracing::info!(key = id, by = principal.caller().key.as_deref(), "key revoked");
    Ok(Json(view::key(find(&app, &principal, &id).await?, clock::now())))
}

/// Rotate a key
///
/// Creates a key with the same tenant, name, scopes, settings and lifetime, and returns it with its secret. The old key expires after
/// `overlap_seconds`.
#[utoipa::path(
    post, path = "/v1/keys/{id}/rotate", tag = "keys", operation_id = "rotate_key", request_body = RotateKey,
    params(
        ("id" = String, Path, description = "Id of the key."),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who rotates the key. Default: `api`."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The new key with its secret.", body = api_types::Key),
        (status = 403, description = "The key has a scope that the rotating key lacks.", body = Problem, content_type = "application/problem+json"),
        (status = 404, description = "The key does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The key is revoked or expired.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The request is invalid; `detail` names the field.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn rotate(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<String>,
    MaybeBody(request): MaybeBody<RotateKey>,
) -> Result<Json<api_types::Key>, ApiError> {
    let RotateKey { overlap_seconds } = request.unwrap_or_default();
    let overlap = seconds("overlap_seconds", Some(overlap_seconds), 0, OVERLAP_MAX)?.unwrap_or_default();
    let old = find(&app, &principal, &id).await?;
    let now = clock::now();
    if !old.is_valid(now) {
        return Err(Kind::NotNow
            .because(format!("key {id} is revoked or expired"))
            .hint("create another one with POST /v1/keys"));
    }
    let scopes: Vec<Scope> = old.scopes.iter().filter_map(|scope| scope.parse().ok()).collect();
    may_grant(&principal, &scopes)?;
    let lifetime = old.expires_at.map(|end| end - old.created_at);
    let secret = generate()?;
    let new = Key {
        id: secret.id.clone(),
        hash: secret.hash.clone(),
        scopes: names(&scopes),
        created_by: by.name.clone(),
        created_at: now,
        expires_at: earlier(lifetime.map(|lifetime| now + lifetime), principal.caller().expires_at),
        last_used_at: None,
        ..old
    };
    if !app.backends.store.rotate_key(&id, now + overlap, &new, by).await? {
        return Err(too_many());
    }
    app.keys_changed().await;
    tracing::info!(key = id, new = new.id, by = principal.caller().key.as_deref(), "key rotated");
    Ok(Json(shown(new, &secret)))
}

/// Checks that the caller may grant these scopes.
fn may_grant(principal: &Principal, scopes: &[Scope]) -> Result<(), ApiError> {
    let Some(scope) = scopes.iter().find(|scope| !principal.has(**scope)) else { return Ok(()) };
    Err(Kind::Forbidden
        .because(format!("scopes: the key that grants the scope `{scope}` lacks it itself"))
        .hint("leave it out, or send a key that has it"))
}

/// Returns the names of scopes, each once.
fn names(scopes: &[Scope]) -> Vec<String> {
    scopes.iter().collect::<BTreeSet<_>>().into_iter().map(|scope| scope.as_str().to_owned()).collect()
}

/// Returns the earlier end of validity, where none means never.
fn earlier(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    [a, b].into_iter().flatten().min()
}

/// Checks a number of seconds, and converts it to microseconds.
fn seconds(field: &str, value: Option<u64>, min: u64, max: u64) -> Result<Option<i64>, ApiError> {
    let Some(value) = value else { return Ok(None) };
    let micros = i64::try_from(value).ok().filter(|_| (min..=max).contains(&value));
    let wrong = || Kind::Invalid.because(format!("{field}: it must be between {min} and {max}"));
    micros.map(|amount| Some(amount * 1_000_000)).ok_or_else(wrong)
}

fn generate() -> Result<NewSecret, ApiError> {
    NewSecret::generate().map_err(|err| Kind::Internal.because(format!("cannot generate a key: {err}")))
}

fn too_many() -> ApiError {
    Kind::NotNow
        .because(format!("the maximum of {MOST_KEYS} valid keys is reached"))
        .hint("revoke one with DELETE /v1/keys/{id}")
}

/// Converts a new key to its response, with the secret.
fn shown(key: Key, secret: &NewSecret) -> api_types::Key {
    let now = key.created_at;
    api_types::Key { key: Some(secret.key.expose_secret().to_owned()), ..view::key(key, now) }
}

/// Returns the row of a key. A key of another tenant or of an operator does not exist for a tenant.
async fn find(app: &AppState, principal: &Principal, id: &str) -> Result<Key, ApiError> {
    let sees =
        |key: &Key| key.tenant.as_deref().map_or(principal.only().is_none(), |tenant| principal.sees(tenant));
    let key = app.backends.store.key(id).await?.filter(sees);
    key.ok_or_else(|| Kind::UnknownKey.because(format!("key {id} does not exist")))
}
