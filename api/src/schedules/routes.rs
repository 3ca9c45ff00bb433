//! Routes of schedules.

use std::sync::Arc;

use api_types::{NewSchedule, NewTurn, Page, Problem, ScheduleChange};
use axum::{Json, extract::State};
use queue::clock;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use shared::{DEFAULT_TENANT, ScheduleTarget};
use store::schedules::{Holder, MOST_SCHEDULES, Schedule, ScheduleId};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    timetable::{Timetable, first},
    view,
};
use crate::{
    batches::routes as batches,
    server::{
        extract::{Body, Path, Query, deserialize},
        pagination::{limit, page},
        principal::{Actor, Decider, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
    turns::submit,
};

/// Maximum length of a name in characters.
const NAME_MAX: usize = 100;

/// Maximum length of the body that a schedule submits in bytes.
const BODY_MAX: usize = 256 * 1024;

/// Time zone of an expression that names none.
const UTC: &str = "UTC";

/// Field of the metadata of a turn or batch that names its schedule.
const SCHEDULE_ID: &str = "schedule_id";

/// Create a schedule
///
/// Submits a turn or creates a batch at the times of a cron expression. Each firing is submitted once, with the rights that the
/// creating key has at that time. A key that is revoked or expires stops its schedules; a rotated one passes them on. When clocks
/// go forward, an expression that names its hour and minute fires right after the gap; when they go back, it fires once.
#[utoipa::path(
    post, path = "/v1/schedules", tag = "schedules", operation_id = "add_schedule", request_body = NewSchedule,
    params(
        ("X-Turnfold-User" = Option<String>, Header, description = "User who creates the schedule, and submits what it names. Default: `api`."),
        ("X-Turnfold-Tenant" = Option<String>, Header, description = "Tenant of the schedule, for operators. Default: `default`."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The schedule.", body = api_types::Schedule),
        (status = 404, description = "The thread to continue does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The maximum number of schedules is reached.", body = Problem, content_type = "application/problem+json"),
        (status = 413, description = "The turn or batch is too large.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The request is invalid; `detail` names the field.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn add(
    State(app): SharedState,
    principal: Principal,
    actor: Actor,
    Decider(by): Decider,
    Body { value: new, .. }: Body<NewSchedule>,
) -> Result<Json<api_types::Schedule>, ApiError> {
    if new.name.chars().count() > NAME_MAX || new.name.chars().any(char::is_control) {
        let detail = format!("name: it must be one line of at most {NAME_MAX} characters");
        return Err(Kind::Invalid.because(detail).with_param("name"));
    }
    let zone = new.timezone.unwrap_or_else(|| UTC.to_owned());
    let next_at = first(&Timetable::new(&new.cron, &zone)?)?;
    let holder = holder(&app, &principal, principal.tenant()).await?;
    let id = clock::new_id();
    let (target, body) = match (new.turn, new.batch) {
        (Some(turn), None) => (ScheduleTarget::Turn, turn),
        (None, Some(batch)) => (ScheduleTarget::Batch, batch),
        (Some(_), Some(_)) | (None, None) => {
            return Err(Kind::Invalid.because("exactly one of `turn` and `batch` is required"));
        }
    };
    let body = named(body, target, id)?;
    check(&app, &principal, actor.clone(), target, &body).await?;
    let schedule = Schedule {
        id,
        tenant: principal.tenant().to_owned(),
        holder,
        author: actor.name,
        name: new.name,
        cron: new.cron,
        zone,
        missed: new.missed,
        target,
        body: body.to_string(),
        created_at: clock::now(),
        next_at,
        stopped: None,
        last: None,
    };
    if !app.backends.store.add_schedule(&schedule, by).await? {
        let error = Kind::NotNow.because(format!("the maximum of {MOST_SCHEDULES} schedules is reached"));
        return Err(error.hint("remove one with DELETE /v1/schedules/{id}"));
    }
    tracing::info!(schedule = %id, "schedule created");
    Ok(Json(view::schedule(schedule)))
}

/// Returns the holder of the rights with which a schedule of `tenant` submits, if it is created or resumed by `principal`.
///
/// # Errors
///
/// [`Kind::Invalid`] if the principal sends a token, which is valid for minutes.
async fn holder(app: &AppState, principal: &Principal, tenant: &str) -> Result<Holder, ApiError> {
    let key = principal.caller().key.as_deref();
    if app.keys.with_id(key).await?.is_none() {
        return Err(Kind::Invalid
            .because("a schedule needs a key that lasts, and the request was sent with a token")
            .hint("send a key of `turnfold key create --scope submit`"));
    }
    let is_operator = principal.only().is_none() && tenant == DEFAULT_TENANT;
    Ok(Holder { key: key.map(str::to_owned), is_operator })
}

/// Writes the id of the schedule into the metadata of what it submits.
fn named(mut body: Value, target: ScheduleTarget, id: ScheduleId) -> Result<Value, ApiError> {
    let wrong = |field: &str, why: &str| {
        let field = format!("{target}{field}");
        Kind::Invalid.because(format!("{field}: {why}")).with_param(field)
    };
    let fields = body.as_object_mut().ok_or_else(|| wrong("", "it must be an object"))?;
    if fields.contains_key("not_before") || fields.contains_key("delay_seconds") {
        let error = wrong("", "not_before and delay_seconds are not allowed");
        return Err(error.hint("`cron` sets the times"));
    }
    let metadata = fields.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    let pairs = metadata.as_object_mut().ok_or_else(|| wrong(".metadata", "it must be an object"))?;
    if pairs.insert(SCHEDULE_ID.to_owned(), json!(id)).is_some() {
        return Err(wrong(".metadata.schedule_id", "the schedule sets it").hint("choose another name"));
    }
    if body.to_string().len() > BODY_MAX {
        let detail = format!("{target}: it is longer than {BODY_MAX} bytes");
        return Err(Kind::TooLarge.because(detail).hint("upload a file, and schedule a batch of it"));
    }
    Ok(body)
}

/// Checks the request as its route would, so that a mistake is reported now and not at the first firing.
async fn check(
    app: &AppState,
    principal: &Principal,
    actor: Actor,
    target: ScheduleTarget,
    body: &Value,
) -> Result<(), ApiError> {
    let path = target.as_str();
    match target {
        ScheduleTarget::Turn => {
            let turn: NewTurn = deserialize(path, body)?;
            submit::checked(app, principal, actor, turn).await.map(drop)
        }
        ScheduleTarget::Batch => batches::check(app, principal, actor, deserialize(path, body)?).await,
    }
}

/// Query parameters of the list of schedules.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListSchedules {
    /// Only schedules created after this one: the last schedule of the previous page.
    after: Option<Uuid>,
    /// Maximum number of schedules. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// List schedules
///
/// Returns a page of schedules, oldest first.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules", operation_id = "list_schedules", params(ListSchedules),
    responses((status = 200, description = "A page of schedules.", body = Page<api_types::Schedule>))
)]
pub(crate) async fn list(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<ListSchedules>,
) -> Result<Json<Page<api_types::Schedule>>, ApiError> {
    let limit = limit(params.limit)?;
    let rows = app.backends.store.schedules(principal.only(), params.after, limit + 1).await?;
    Ok(Json(page(rows, limit).map(view::schedule)))
}

/// Get a schedule
#[utoipa::path(
    get, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "get_schedule",
    params(("id" = Uuid, Path, description = "Id of the schedule.")),
    responses(
        (status = 200, description = "The schedule.", body = api_types::Schedule),
        (status = 404, description = "The schedule does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
) -> Result<Json<api_types::Schedule>, ApiError> {
    Ok(Json(view::schedule(find(&app, &principal, id).await?)))
}

/// Pause or resume a schedule
///
/// A paused schedule misses nothing: it continues with the first time after it is resumed. A schedule whose key is no longer
/// accepted continues with the rights of the key that resumes it.
#[utoipa::path(
    patch, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "change_schedule", request_body = ScheduleChange,
    params(
        ("id" = Uuid, Path, description = "Id of the schedule."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The schedule.", body = api_types::Schedule),
        (status = 404, description = "The schedule does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn change(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<Uuid>,
    Body { value: ScheduleChange { paused }, .. }: Body<ScheduleChange>,
) -> Result<Json<api_types::Schedule>, ApiError> {
    let schedule = find(&app, &principal, id).await?;
    let store = &app.backends.store;
    match (paused, schedule.stopped.is_some()) {
        (true, false) => store.pause_schedule(id, by).await?,
        (false, true) => {
            let is_valid = app.keys.with_id(schedule.holder.key.as_deref()).await?.is_some();
            let holder = match is_valid {
                true => schedule.holder.clone(),
                false => holder(&app, &principal, &schedule.tenant).await?,
            };
            let next_at = first(&Timetable::new(&schedule.cron, &schedule.zone)?)?;
            store.resume_schedule(id, &holder, next_at, by).await?;
        }
        (true, true) | (false, false) => {}
    }
    Ok(Json(view::schedule(find(&app, &principal, id).await?)))
}

/// Delete a schedule
///
/// Turns and batches that it has submitted continue.
#[utoipa::path(
    delete, path = "/v1/schedules/{id}", tag = "schedules", operation_id = "remove_schedule",
    params(
        ("id" = Uuid, Path, description = "Id of the schedule."),
        ("X-Turnfold-Reason" = Option<String>, Header, description = "Reason, for the administrative log.")
    ),
    responses(
        (status = 200, description = "The deleted schedule.", body = api_types::Schedule),
        (status = 404, description = "The schedule does not exist.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn remove(
    State(app): SharedState,
    principal: Principal,
    Decider(by): Decider,
    Path(id): Path<Uuid>,
) -> Result<Json<api_types::Schedule>, ApiError> {
    let schedule = find(&app, &principal, id).await?;
    app.backends.store.remove_schedule(id, by).await?;
    tracing::info!(schedule = %id, "schedule deleted");
    Ok(Json(view::schedule(schedule)))
}

/// Returns a schedule. One of another tenant does not exist.
async fn find(app: &Arc<AppState>, principal: &Principal, id: ScheduleId) -> Result<Schedule, ApiError> {
    let schedule = app.backends.store.schedule(id).await?;
    let seen = schedule.filter(|schedule| principal.sees(&schedule.tenant));
    seen.ok_or_else(|| Kind::UnknownSchedule.because(format!("schedule {id} does not exist")))
}
