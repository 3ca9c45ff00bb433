//! Ids of threads, turns and batches in every form in which they are written: whole, by their first characters, or by their last.

use api_types::{FoundId, IdKind, Page, Problem};
use axum::{Json, extract::State};
use serde::Deserialize;
use store::{Conditions, IdOf, PartOfId, SHORT_ID};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::server::{
    extract::{Path, Query},
    openai_ids::batch_name,
    principal::Principal,
    problem::{ApiError, Kind},
    state::{AppState, SharedState},
};

/// Maximum ids of each kind that are returned.
const LISTED_MAX: usize = 10;

/// Query parameters of the search for an id.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FindIds {
    /// Only ids of this kind. Default: all kinds.
    kind: Option<IdKind>,
}

/// Find ids by a part
///
/// Returns the threads, turns and batches whose ids begin with the text (at least 4 characters) or end with it (at least 8), at most 10
/// of each kind. The short form of an id is its last 8 characters.
#[utoipa::path(
    get, path = "/v1/ids/{text}", tag = "threads", operation_id = "find_ids",
    params(("text" = String, Path, description = "A part of an id, or a whole id, with or without hyphens and `batch_`."), FindIds),
    responses(
        (status = 200, description = "The ids.", body = Page<FoundId>),
        (status = 422, description = "The text is no part of an id.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn find(
    State(app): SharedState,
    principal: Principal,
    Path(text): Path<String>,
    Query(FindIds { kind }): Query<FindIds>,
) -> Result<Json<Page<FoundId>>, ApiError> {
    let digits = text.strip_prefix("batch_").unwrap_or(&text);
    let part = PartOfId::parse(digits).ok_or_else(|| {
        let shown: String = text.chars().take(40).collect();
        Kind::Invalid
            .because(format!("{shown:?} is no part of an id"))
            .hint("write an id, its first 4 characters or more, or its last 8 or more")
    })?;
    let (mut data, mut has_more) = (Vec::new(), false);
    for kind in IdKind::ALL.into_iter().filter(|each| kind.is_none_or(|kind| kind == *each)) {
        let (ids, is_cut) = app.backends.store.ids_with(owner(kind), &part, principal.only()).await?;
        has_more |= is_cut || LISTED_MAX < ids.len();
        data.extend(ids.into_iter().take(LISTED_MAX).map(|id| found(kind, id)));
    }
    Ok(Json(Page { data, has_more }))
}

fn owner(kind: IdKind) -> IdOf {
    match kind {
        IdKind::Thread => IdOf::Thread,
        IdKind::Turn => IdOf::Turn,
        IdKind::Batch => IdOf::Batch,
    }
}

fn found(kind: IdKind, id: Uuid) -> FoundId {
    let short = short(id);
    let id = if kind == IdKind::Batch { batch_name(id) } else { id.to_string() };
    FoundId { kind, id, short }
}

/// Returns the short form of an id.
pub(crate) fn short(id: Uuid) -> String {
    let digits = id.simple().to_string();
    digits.get(digits.len().saturating_sub(SHORT_ID)..).unwrap_or_default().to_owned()
}

/// Refuses conditions that name a thread by a part of its id which others have too.
pub(crate) async fn check_threads(
    app: &AppState,
    principal: &Principal,
    conditions: &Conditions,
) -> Result<(), ApiError> {
    for part in conditions.parts_of_threads() {
        let (ids, is_cut) = app.backends.store.ids_with(IdOf::Thread, part, principal.only()).await?;
        if 1 < ids.len() || is_cut {
            let listed: Vec<String> = ids.iter().take(LISTED_MAX).map(Uuid::to_string).collect();
            let what = format!("where: thread {part} is ambiguous: {}", listed.join(", "));
            return Err(Kind::Invalid.because(what).hint("write more characters of the id"));
        }
    }
    Ok(())
}
