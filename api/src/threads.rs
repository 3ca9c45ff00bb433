//! How threads are looked at: lists, one, what it remembered, whether its log holds.

use axum::{Json, extract::State};
use serde::Deserialize;
use shared::{Standing, Verifier};
use store::{Chain, ThreadFilter, ThreadId};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::{
    auth::Acting,
    extract::{Path, Query},
    fold::{Folded, Log, corrupt, graph_of, interrupt},
    house::{House, Inside},
    page::{Page, limit},
    problem::{Kind, Problem},
    schema::{
        ChainView, Message, Origin, StandingName, StateView, ThreadLine, ThreadStatus, ThreadView,
        Verification,
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
    let thread = log.thread()?;
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
        forked: log.forked().map(Origin::from),
    })
}

/// When.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Moment {
    /// After the event of this number; after the last, if nobody says.
    #[param(example = 0)]
    pub(crate) at: Option<u64>,
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
    let Folded { seq, thread, doubted } = Folded::load(&house, id, at).await?;
    let standing = thread.standing();
    let unwritable = |err: serde_json::Error| Kind::Internal.because(format!("the state has no JSON: {err}"));
    Ok(Json(StateView {
        seq,
        state: thread.state().map_err(unwritable)?,
        messages: thread.messages().iter().map(Message::from).collect(),
        standing: StandingName::from(&standing),
        interrupt: interrupt(&standing, || doubted),
        node: thread.node(),
        config: thread.config().map_err(unwritable)?,
    }))
}

/// What to tell of an audit.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Telling {
    /// Prompts that are worded otherwise today, too.
    #[serde(default)]
    prompts: bool,
}

/// How many divergences are told; all are counted.
const TOLD: usize = 1_000;

/// Audits a thread
///
/// Whether the stored bytes are those that were appended, and where today's code would have decided otherwise.
#[utoipa::path(
    get, path = "/v1/threads/{id}/verify", tag = "threads", operation_id = "verify_thread",
    params(("id" = Uuid, Path, description = "The thread."), Telling),
    responses(
        (status = 200, description = "What the audit says.", body = Verification),
        (status = 404, description = "There is no such thread.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn verify(
    State(house): Inside,
    acting: Acting,
    Path(id): Path<Uuid>,
    Query(Telling { prompts }): Query<Telling>,
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
    let (mut diverged, mut reworded, mut divergences) = (0, 0, Vec::new());
    let count = |it: shared::Divergence| {
        let counter = if it.field.is_prompt() { &mut reworded } else { &mut diverged };
        *counter += 1;
        if (prompts || !it.field.is_prompt()) && divergences.len() < TOLD {
            divergences.push(it);
        }
    };
    let unreadable = match reconsider(&house, id, count).await {
        Ok(()) => None,
        Err(problem) if problem.kind == Kind::Damaged => Some(problem.detail().to_owned()),
        Err(problem) => return Err(problem),
    };
    divergences.sort_by_key(|it| (it.field.is_prompt(), it.seq));
    let ok = chain.intact && diverged == 0 && (reworded == 0 || !prompts) && unreadable.is_none();
    let divergences = divergences.into_iter().map(Into::into).collect();
    Ok(Json(Verification { ok, events, chain, diverged, reworded, divergences, unreadable }))
}

/// Tells where today's code would have decided otherwise.
async fn reconsider(
    house: &House,
    id: ThreadId,
    mut told: impl FnMut(shared::Divergence),
) -> Result<(), Problem> {
    let mut verifier = Verifier::new(graph_of(house, id).await?);
    let each = |it: store::Recorded| {
        verifier.see(&it.event).map_err(|err| corrupt(&err))?.into_iter().for_each(&mut told);
        Ok::<(), Problem>(())
    };
    house.parts.store.along(id, 0, None, each).await
}
