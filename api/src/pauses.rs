//! What an operator pauses and resumes: a strategy, a model, a tenant.

use axum::{Json, extract::State};
use store::{Notice, Pause, PauseKind, WORKERS};

use crate::{
    auth::{By, Operator},
    extract::{Body, Path},
    house::{House, Inside},
    problem::{Kind, Problem},
    schema::{NewPause, PausePage, PauseView},
    submit::unknown,
};

/// Lists what is paused
#[utoipa::path(
    get, path = "/v1/pauses", tag = "pauses", operation_id = "list_pauses",
    responses((status = 200, description = "All of it, by kind and name.", body = PausePage))
)]
pub(crate) async fn list(State(house): Inside, _: Operator) -> Result<Json<PausePage>, Problem> {
    let data = house.parts.store.pauses().await?.into_iter().map(PauseView::from).collect();
    Ok(Json(PausePage { data, has_more: false }))
}

/// Shows a pause
#[utoipa::path(
    get, path = "/v1/pauses/{kind}/{name}", tag = "pauses", operation_id = "get_pause",
    params(
        ("kind" = String, Path, description = "`strategy`, `model` or `tenant`.", example = "model"),
        ("name" = String, Path, description = "Which; a slash in it is written `%2F`.", example = "openai/gpt-4o")
    ),
    responses(
        (status = 200, description = "The pause.", body = PauseView),
        (status = 404, description = "It is not paused.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(house): Inside,
    _: Operator,
    Path((kind, name)): Path<(String, String)>,
) -> Result<Json<PauseView>, Problem> {
    Ok(Json(find(&house, self::kind(&kind)?, &name).await?.into()))
}

/// Pauses a strategy, a model or a tenant
///
/// Requests that are under way are finished, and nothing new is begun: no node of a thread under the strategy or of the
/// tenant, no request to the model. For operators. Workers hear of it at once. What is paused already is so for this reason from now on.
#[utoipa::path(
    put, path = "/v1/pauses/{kind}/{name}", tag = "pauses", operation_id = "pause", request_body = NewPause,
    params(
        ("kind" = String, Path, description = "`strategy`, `model` or `tenant`.", example = "model"),
        ("name" = String, Path, description = "Which; a slash in it is written `%2F`.", example = "openai/gpt-4o"),
        ("X-Turnfold-User" = Option<String>, Header, description = "Who says so; `api` if nobody does.")
    ),
    responses(
        (status = 200, description = "It is paused.", body = PauseView),
        (status = 422, description = "There is nothing of that name to pause.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn put(
    State(house): Inside,
    _: Operator,
    By(by): By,
    Path((kind, name)): Path<(String, String)>,
    Body { value: new, .. }: Body<NewPause>,
) -> Result<Json<PauseView>, Problem> {
    let kind = self::kind(&kind)?;
    match kind {
        PauseKind::Strategy if house.strategies.find(&name).is_none() => {
            return Err(unknown(Kind::NamesNoStrategy, &house, &name));
        }
        PauseKind::Model if !name.contains('/') => {
            let words = format!("model: {name:?} names no provider");
            return Err(Kind::Invalid
                .because(words)
                .mend("write it as provider/model, and the slash as %2F"));
        }
        PauseKind::Tenant if !store::is_tenant(&name) => {
            return Err(Kind::Invalid.because(format!("tenant: {name:?} is no tenant's name")));
        }
        PauseKind::Strategy | PauseKind::Model | PauseKind::Tenant => (),
    }
    let pause = Pause::new(kind, &name, &new.reason, &by);
    house.parts.store.pause(&pause).await?;
    tracing::info!("{pause}");
    house.parts.news.publish(WORKERS, Notice::Paused).await;
    Ok(Json(pause.into()))
}

/// Resumes a strategy, a model or a tenant
///
/// Threads that were put off for it go on at once.
#[utoipa::path(
    delete, path = "/v1/pauses/{kind}/{name}", tag = "pauses", operation_id = "resume",
    params(
        ("kind" = String, Path, description = "`strategy`, `model` or `tenant`.", example = "model"),
        ("name" = String, Path, description = "Which; a slash in it is written `%2F`.", example = "openai/gpt-4o")
    ),
    responses(
        (status = 200, description = "The pause that was ended.", body = PauseView),
        (status = 404, description = "It is not paused.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn delete(
    State(house): Inside,
    _: Operator,
    Path((kind, name)): Path<(String, String)>,
) -> Result<Json<PauseView>, Problem> {
    let kind = self::kind(&kind)?;
    let pause = find(&house, kind, &name).await?;
    if !house.parts.store.resume(kind, &name).await? {
        return Err(not_paused(kind, &name));
    }
    tracing::info!(%kind, name, "resumed");
    house.parts.news.publish(WORKERS, Notice::Paused).await;
    Ok(Json(pause.into()))
}

async fn find(house: &House, kind: PauseKind, name: &str) -> Result<Pause, Problem> {
    let all = house.parts.store.pauses().await?;
    all.into_iter().find(|it| it.kind == kind && it.name == name).ok_or_else(|| not_paused(kind, name))
}

fn not_paused(kind: PauseKind, name: &str) -> Problem {
    Kind::UnknownPause.because(format!("{kind} {name:?} is not paused")).mend("GET /v1/pauses tells what is")
}

fn kind(text: &str) -> Result<PauseKind, Problem> {
    text.parse().map_err(|unknown: store::UnknownKind| Kind::Invalid.because(unknown.to_string()))
}
