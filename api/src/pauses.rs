//! Routes that pause and resume strategies, models and tenants.

use api_types::{NewPause, Page, Problem};
use axum::{Json, extract::State};
use queue::{ALL_WORKERS, EntryState, MAX_LISTED, Notification, rate_limits::Subject};
use shared::PauseKind;
use store::Pause;

use crate::{
    server::{
        extract::{Body, Path},
        pagination::whole,
        principal::{Actor, Decider, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
        tenant_rules::Submitter,
    },
    turns::opening::find_strategy,
    views,
};

/// List active pauses
///
/// Returns all pauses, sorted by kind and name. A tenant's key returns only the pauses of that tenant.
#[utoipa::path(
    get, path = "/v1/pauses", tag = "pauses", operation_id = "list_pauses",
    responses((status = 200, description = "All pauses.", body = Page<api_types::Pause>))
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
) -> Result<Json<Page<api_types::Pause>>, ApiError> {
    let is_own = |pause: &Pause| match pause.kind {
        PauseKind::Tenant | PauseKind::OwnTenant => principal.sees(&pause.name),
        PauseKind::Strategy | PauseKind::Model => principal.only().is_none(),
    };
    let pauses = app.backends.store.pauses().await?.into_iter().filter(is_own);
    Ok(Json(whole(pauses.map(views::pause).collect())))
}

/// Show a pause
///
/// Returns the active pause of a strategy, a model or a tenant. A tenant may see its own.
#[utoipa::path(
    get, path = "/v1/pauses/{kind}/{name}", tag = "pauses", operation_id = "get_pause",
    params(
        ("kind" = String, Path, description = "`strategy`, `model` or `tenant`.", example = "model"),
        ("name" = String, Path, description = "Name of the strategy, model or tenant. Write a slash as `%2F`.", example = "openai/gpt-4o")
    ),
    responses(
        (status = 200, description = "The pause.", body = api_types::Pause),
        (status = 404, description = "It is not paused.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path((kind, name)): Path<(String, String)>,
) -> Result<Json<api_types::Pause>, ApiError> {
    let kind = target(&principal, &kind, &name)?;
    let found = match find(&app, kind, &name).await {
        // An operator's pause stops the tenant too.
        Err(_) if kind == PauseKind::OwnTenant => find(&app, PauseKind::Tenant, &name).await?,
        found => found?,
    };
    Ok(Json(views::pause(found)))
}

/// Pause a strategy, a model or a tenant
///
/// Running requests finish. No node of a thread with this strategy or of this tenant starts, and no request to this model is
/// sent. Workers are notified at once. If it is already paused, the reason is replaced. A tenant may pause itself, with the kind
/// `tenant` and its own name; an operator's pause is another one, which it cannot end.
#[utoipa::path(
    put, path = "/v1/pauses/{kind}/{name}", tag = "pauses", operation_id = "pause", request_body = NewPause,
    params(
        ("kind" = String, Path, description = "`strategy`, `model` or `tenant`.", example = "model"),
        ("name" = String, Path, description = "Name of the strategy, model or tenant. Write a slash as `%2F`.", example = "openai/gpt-4o"),
        ("X-Turnfold-User" = Option<String>, Header, description = "User who pauses it. Default: `api`.")
    ),
    responses(
        (status = 200, description = "The pause.", body = api_types::Pause),
        (status = 422, description = "Nothing with this name can be paused.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn put(
    State(app): SharedState,
    principal: Principal,
    Actor { name: by, caller, .. }: Actor,
    Path((kind, name)): Path<(String, String)>,
    Body { value: new, .. }: Body<NewPause>,
) -> Result<Json<api_types::Pause>, ApiError> {
    let kind = target(&principal, &kind, &name)?;
    match kind {
        PauseKind::Strategy
            if let Err(unknown) = find_strategy(&app, Submitter::OPERATOR, &name, Kind::NamesNoStrategy) =>
        {
            return Err(unknown);
        }
        PauseKind::Model if !name.contains('/') => {
            let detail = format!("model: {name:?} does not name a provider");
            return Err(Kind::Invalid.because(detail).hint("write provider/model, with the slash as %2F"));
        }
        PauseKind::Tenant | PauseKind::OwnTenant if !queue::is_valid_tenant(&name) => {
            return Err(Kind::Invalid.because(format!("tenant: {name:?} is not a valid tenant name")));
        }
        PauseKind::Strategy | PauseKind::Model | PauseKind::Tenant | PauseKind::OwnTenant => (),
    }
    let pause = Pause::new(kind, &name, &new.reason, &by);
    app.backends.store.pause(&pause, caller).await?;
    tracing::info!("{pause}");
    app.backends.notifications.publish(ALL_WORKERS, Notification::PausesChanged).await;
    Ok(Json(views::pause(pause)))
}

/// Resume a strategy, a model or a tenant
///
/// Threads that the pause blocked continue at once. A tenant may end the pause that it started itself. For a model, this also ends the
/// wait after requests that its provider refused, whatever `Retry-After` says.
#[utoipa::path(
    delete, path = "/v1/pauses/{kind}/{name}", tag = "pauses", operation_id = "resume",
    params(
        ("kind" = String, Path, description = "`strategy`, `model` or `tenant`.", example = "model"),
        ("name" = String, Path, description = "Name of the strategy, model or tenant. Write a slash as `%2F`.", example = "openai/gpt-4o")
    ),
    responses(
        (status = 200, description = "The pause that was ended, or the wait for the provider of a model.", body = api_types::Pause),
        (status = 404, description = "It is not paused, and no turn waits for it.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn delete(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path((kind, name)): Path<(String, String)>,
) -> Result<Json<api_types::Pause>, ApiError> {
    let kind = target(&principal, &kind, &name)?;
    let wait = if kind == PauseKind::Model { wait_for(&app, &name).await? } else { None };
    if wait.is_some() {
        tracing::info!(%kind, name, "the wait for its provider is ended");
        let resumed = Notification::ModelResumed { model: name.clone() };
        app.backends.notifications.publish(ALL_WORKERS, resumed).await;
    }
    let pause = match (find(&app, kind, &name).await, wait) {
        (Err(_), Some(wait)) => return Ok(Json(views::pause(wait))),
        (pause, _) => pause?,
    };
    if !app.backends.store.resume(kind, &name, by).await? {
        return Err(not_paused(kind, &name));
    }
    tracing::info!(%kind, name, "resumed");
    app.backends.notifications.publish(ALL_WORKERS, Notification::PausesChanged).await;
    Ok(Json(views::pause(pause)))
}

/// Returns the wait for a model whose provider refuses requests, as if it were a pause by that provider.
async fn wait_for(app: &AppState, model: &str) -> Result<Option<Pause>, ApiError> {
    let jobs = app.backends.queue.list(MAX_LISTED).await;
    let jobs = jobs.map_err(|error| Kind::Unavailable.because(error.to_string()))?;
    let subject = Subject::Model(model.to_owned());
    let reason = jobs.into_iter().find_map(|job| match job.state {
        EntryState::Delayed { reason: Some(reason), .. } if subject.is_waited_for(&reason) => Some(reason),
        EntryState::Delayed { .. } | EntryState::Waiting { .. } | EntryState::InFlight { .. } => None,
    });
    let provider = model.split('/').next().unwrap_or_default();
    Ok(reason.map(|reason| Pause::new(PauseKind::Model, model, &reason.detail, provider)))
}

async fn find(app: &AppState, kind: PauseKind, name: &str) -> Result<Pause, ApiError> {
    let all = app.backends.store.pauses().await?;
    all.into_iter()
        .find(|pause| pause.kind == kind && pause.name == name)
        .ok_or_else(|| not_paused(kind, name))
}

fn not_paused(kind: PauseKind, name: &str) -> ApiError {
    let detail = format!("{kind} {name:?} is not paused");
    Kind::UnknownPause.because(detail).hint("GET /v1/pauses lists the active pauses")
}

/// Returns the kind of pause that this principal may see, start and end. A tenant has only a pause of its own.
fn target(principal: &Principal, kind: &str, name: &str) -> Result<PauseKind, ApiError> {
    let unknown = format!("{kind:?} cannot be paused; hint: pause a strategy, a model or a tenant");
    let kind = kind.parse().map_err(|_| Kind::Invalid.because(unknown))?;
    match (principal.only(), kind) {
        (None, kind) => Ok(kind),
        (Some(own), PauseKind::Tenant | PauseKind::OwnTenant) if own == name => Ok(PauseKind::OwnTenant),
        (Some(own), _) => Err(Kind::Forbidden
            .because(format!("a tenant can pause only itself: tenant {own}"))
            .hint("ask an operator, or use the kind `tenant` and this name")),
    }
}
