//! How threads are looked at: lists, one, what it remembered, whether its log holds.

use axum::{Json, extract::State};
use serde::Deserialize;
use shared::{Event, Standing};
use store::{Chain, ThreadFilter, ThreadId};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::{
    auth::Acting,
    extract::{Path, Query},
    fold::{Log, interrupt},
    house::{House, Inside},
    page::{Page, limit},
    problem::{Kind, Problem},
    schema::{
        ChainView, Message, StandingName, StateView, ThreadLine, ThreadStatus, ThreadView, Verification,
    },
};

/// Which threads.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Which {
    /// Those in this status.
    #[param(inline)]
    status: Option<ThreadStatus>,
    /// Those opened before this thread: the last of the page before.
    after: Option<Uuid>,
    /// At most so many; 50 if nobody says.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Lists threads
///
/// Newest first.
#[utoipa::path(
    get, path = "/v1/threads", tag = "threads", operation_id = "list_threads", params(Which),
    responses((status = 200, description = "A page of threads.", body = Page<ThreadLine>))
)]
pub(crate) async fn list(
    State(house): Inside,
    acting: Acting,
    Query(which): Query<Which>,
) -> Result<Json<Page<ThreadLine>>, Problem> {
    let limit = limit(which.limit)?;
    let filter = ThreadFilter { tenant: acting.only(), status: which.status.map(Into::into) };
    let rows = house.parts.store.threads(filter, which.after, limit + 1).await?;
    Ok(Json(Page::cut(rows, limit).map(ThreadLine::from)))
}

/// Shows a thread
#[utoipa::path(
    get, path = "/v1/threads/{id}", tag = "threads", operation_id = "get_thread",
    params(("id" = Uuid, Path, description = "The thread.")),
    responses(
        (status = 200, description = "The thread.", body = ThreadView),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn get(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
) -> Result<Json<ThreadView>, Problem> {
    Ok(Json(view(&house, find(&house, &acting, id).await?).await?))
}

/// The row of a thread, if whoever asks sees it: what is another tenant's is not there.
pub(crate) async fn find(house: &House, acting: &Acting, id: ThreadId) -> Result<store::Thread, Problem> {
    let thread = house.parts.store.thread(id).await?.filter(|it| acting.sees(&it.tenant));
    thread.ok_or_else(|| store::Error::UnknownThread(id).into())
}

/// A thread as clients see it.
pub(crate) async fn view(house: &House, row: store::Thread) -> Result<ThreadView, Problem> {
    let log = Log::load(house, row.id).await?;
    let line = row.into();
    let (_, thread) = log.fold(None)?;
    let standing = thread.standing();
    let error = match &standing {
        Standing::Failed { node, reason } => Some(format!("{node}: {reason}")),
        Standing::Idle | Standing::Busy | Standing::Waiting(_) => None,
    };
    Ok(ThreadView {
        line,
        standing: StandingName::from(&standing),
        interrupt: interrupt(&standing, || log.doubted(None)),
        error,
        node: thread.node(),
        turn_id: thread.turn(),
        messages: thread.messages().iter().map(Message::from).collect(),
        took: thread.took().into(),
        events: log.events(),
    })
}

/// When.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Moment {
    /// After the event of this number; after the last, if nobody says.
    #[param(example = 0)]
    at: Option<u64>,
}

/// Shows what a thread had become
///
/// The fold of its events from 0 to `at`.
#[utoipa::path(
    get, path = "/v1/threads/{id}/state", tag = "threads", operation_id = "get_thread_state",
    params(("id" = Uuid, Path, description = "The thread."), Moment),
    responses(
        (status = 200, description = "What it had become.", body = StateView),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "There is no such event yet.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn state(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
    Query(Moment { at }): Query<Moment>,
) -> Result<Json<StateView>, Problem> {
    find(&house, &acting, id).await?;
    let log = Log::load(&house, id).await?;
    let (seq, thread) = log.fold(at)?;
    let standing = thread.standing();
    let unwritable = |err: serde_json::Error| Kind::Internal.because(format!("the state has no JSON: {err}"));
    Ok(Json(StateView {
        seq,
        state: thread.state().map_err(unwritable)?,
        messages: thread.messages().iter().map(Message::from).collect(),
        standing: StandingName::from(&standing),
        interrupt: interrupt(&standing, || log.doubted(Some(seq))),
        node: thread.node(),
        config: thread.config().map_err(unwritable)?,
    }))
}

/// Audits a thread
///
/// Whether the stored bytes are those that were appended, and where today's code would have decided otherwise.
#[utoipa::path(
    get, path = "/v1/threads/{id}/verify", tag = "threads", operation_id = "verify_thread",
    params(("id" = Uuid, Path, description = "The thread.")),
    responses(
        (status = 200, description = "What the audit says.", body = Verification),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn verify(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
) -> Result<Json<Verification>, Problem> {
    find(&house, &acting, id).await?;
    let chain = match house.parts.store.verify_chain(id).await? {
        Chain::Intact { head, .. } => {
            ChainView { intact: true, head: Some(hex::encode(head)), broken_at: None, problem: None }
        }
        Chain::Broken { seq, what } => {
            ChainView { intact: false, head: None, broken_at: Some(seq), problem: Some(what) }
        }
    };
    let events = house.parts.store.head(id).await?.seq;
    let audit = match Log::load(&house, id).await {
        Ok(log) => reconsider(log).await?,
        Err(problem) if problem.kind == Kind::Damaged => Err(problem.detail().to_owned()),
        Err(problem) => return Err(problem),
    };
    let (divergences, unreadable) = match audit {
        Ok(divergences) => (divergences, None),
        Err(words) => (Vec::new(), Some(words)),
    };
    let ok = chain.intact && divergences.is_empty() && unreadable.is_none();
    let divergences = divergences.into_iter().map(Into::into).collect();
    Ok(Json(Verification { ok, events, chain, divergences, unreadable }))
}

/// Where today's code would have decided otherwise, or why it cannot read the log. Away from the executor, because a
/// long log takes its time.
async fn reconsider(log: Log) -> Result<Result<Vec<shared::Divergence>, String>, Problem> {
    let verify = move || {
        let events: Vec<Event> = log.recorded.into_iter().map(|it| it.event).collect();
        shared::verify(log.graph, &events).map_err(|err| err.to_string())
    };
    let done = tokio::task::spawn_blocking(verify).await;
    done.map_err(|err| Kind::Internal.because(format!("the audit did not come to an end: {err}")))
}
