//! Why a thread stands where it stands, and how two threads differ.

use audit::{Explainer, Side};
use axum::{Json, extract::State};
use serde::Deserialize;
use shared::Event;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::{
    auth::Acting,
    extract::{Path, Query},
    fold::{Log, corrupt, graph_of, up_to},
    house::Inside,
    problem::{Kind, Problem},
    schema::{DiffView, WhyView},
    threads::{Moment, find},
};

/// Tells why a thread stands where it stands
///
/// The last decision up to an event with what it stood on: the reason that the node gave, what it had asked and heard, and
/// where else it could have gone. What a turn waits for in the queue, `GET /v1/queue` tells.
#[utoipa::path(
    get, path = "/v1/threads/{id}/why", tag = "threads", operation_id = "explain_thread",
    params(("id" = Uuid, Path, description = "The thread."), Moment),
    responses(
        (status = 200, description = "Why.", body = WhyView),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "There is no such event yet.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn why(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
    Query(Moment { at }): Query<Moment>,
) -> Result<Json<WhyView>, Problem> {
    find(&house, &acting, id).await?;
    let last = up_to(&house, id, at).await?;
    let mut explainer = Explainer::new(graph_of(&house, id).await?);
    let each = |it: store::Recorded| explainer.see(&it.event).map_err(|err| corrupt(&err));
    house.parts.store.along(id, 0, Some(last), each).await?;
    Ok(Json(explainer.finish().map_err(|err| corrupt(&err))?.into()))
}

/// With which thread.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Other {
    /// The thread that is laid beside it, on the right.
    with: Uuid,
}

/// Lays two threads side by side
///
/// Events are aligned by what step they are; told are those that differ or that one thread alone has, where the two part,
/// in what their states differ there, and what each took. Who did something and when, and the names of turns, may differ.
#[utoipa::path(
    get, path = "/v1/threads/{id}/diff", tag = "threads", operation_id = "diff_threads",
    params(("id" = Uuid, Path, description = "The thread, on the left."), Other),
    responses(
        (status = 200, description = "How they differ.", body = DiffView),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn diff(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
    Query(Other { with }): Query<Other>,
) -> Result<Json<DiffView>, Problem> {
    find(&house, &acting, id).await?;
    find(&house, &acting, with).await?;
    let (left, right) = (Log::load(&house, id).await?, Log::load(&house, with).await?);
    let lay = move || {
        let events = |log: Log| -> (_, Vec<Event>) {
            (log.graph, log.recorded.into_iter().map(|it| it.event).collect())
        };
        let ((graph_left, left), (graph_right, right)) = (events(left), events(right));
        audit::diff(Side { graph: graph_left, log: &left }, Side { graph: graph_right, log: &right })
    };
    // Away from the executor: long logs take their time.
    let laid = tokio::task::spawn_blocking(lay).await;
    let laid = laid.map_err(|err| Kind::Internal.because(format!("it did not come to an end: {err}")))?;
    Ok(Json(laid.map_err(|err| corrupt(&err))?.into()))
}
