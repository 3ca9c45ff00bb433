//! Settles several calls in doubt of one tool at once. Each is an ordinary verdict in the log of its thread.

use api_types::{DoubtRef, NotSettled, Problem, SettleRequest, Settled};
use axum::{Json, extract::State};
use shared::{Event, RunStatus};

use super::routes::called;
use crate::{
    logs::{folded::Folded, lookup::find_thread},
    server::{
        extract::Body,
        principal::{Actor, Principal},
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
    threads::answer::try_reconcile,
};

/// Maximum number of calls in one request.
const DOUBTS_MAX: usize = 200;

/// Kinds of errors that refuse one call and not the request.
const OF_ONE_CALL: [Kind; 4] = [Kind::UnknownThread, Kind::Stale, Kind::NotInDoubt, Kind::Damaged];

/// Settle several calls in doubt
///
/// Records one verdict for the calls that are named, all of the same tool. Each becomes an ordinary verdict in the log of its
/// thread. Calls whose question was settled or asked anew meanwhile are refused one by one, and no other call is settled in their
/// place. The request may be repeated: calls that have this verdict already count as settled.
#[utoipa::path(
    post, path = "/v1/inbox/settle", tag = "inbox", operation_id = "settle_doubts", request_body = SettleRequest,
    params(("X-Turnfold-User" = Option<String>, Header, description = "User who gives the verdict. Default: `api`.")),
    responses(
        (status = 200, description = "The number of calls that were settled, and those that were not.", body = Settled),
        (status = 422, description = "The request names no call, or too many.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn settle(
    State(app): SharedState,
    principal: Principal,
    by: Actor,
    Body { value: request, .. }: Body<SettleRequest>,
) -> Result<Json<Settled>, ApiError> {
    if !(1..=DOUBTS_MAX).contains(&request.doubts.len()) {
        let count = request.doubts.len();
        return Err(
            Kind::Invalid.because(format!("doubts: has {count} entries, and must have 1 to {DOUBTS_MAX}"))
        );
    }
    let mut done = Settled::default();
    for doubt in &request.doubts {
        match settle_one(&app, &principal, &by, &request, doubt).await {
            Ok(()) => done.settled += 1,
            Err(error) if OF_ONE_CALL.contains(&error.kind) => done.refused.push(NotSettled {
                thread_id: doubt.thread_id,
                slot: doubt.slot,
                kind: error.urn().to_owned(),
                detail: error.detail().to_owned(),
            }),
            Err(error) => return Err(error),
        }
    }
    tracing::info!(
        server = request.server,
        tool = request.tool,
        settled = done.settled,
        refused = done.refused.len(),
        "calls reconciled together"
    );
    Ok(Json(done))
}

/// Settles one call.
///
/// **Invariant:** the verdict reaches the question that the person saw, or none: `seq` and the head of the log are the same.
async fn settle_one(
    app: &AppState,
    principal: &Principal,
    by: &Actor,
    request: &SettleRequest,
    doubt: &DoubtRef,
) -> Result<(), ApiError> {
    let id = find_thread(app, principal, doubt.thread_id).await?.id;
    let log = Folded::open(app, id).await?;
    let verdict: shared::Verdict = request.verdict.clone().into();
    if log.head().seq != doubt.seq || !matches!(log.thread().status(), RunStatus::Waiting(_)) {
        return match has_verdict(app, doubt, &verdict).await? {
            true => Ok(()),
            false => Err(Kind::Stale.because("another question is open in this thread, or none")),
        };
    }
    let folded = Folded::load(app, id, doubt.seq.checked_sub(1)).await?;
    let named = (request.server.as_str(), request.tool.as_str());
    if called(folded.request(doubt.slot)) != Some(named) {
        let (server, tool) = named;
        return Err(Kind::NotInDoubt.because(format!("slot {} is no call of {server}.{tool}", doubt.slot)));
    }
    try_reconcile(app, log, doubt.slot, &verdict, by).await?;
    app.enqueue(id).await;
    Ok(())
}

/// Returns true if the event after the question gave this verdict to its call.
async fn has_verdict(app: &AppState, doubt: &DoubtRef, verdict: &shared::Verdict) -> Result<bool, ApiError> {
    let rows = app.backends.store.events(doubt.thread_id, doubt.seq.checked_sub(1), 1).await?;
    Ok(rows.iter().any(|row| {
        matches!(&row.event, Event::Reconciled(given) if given.slot == doubt.slot && given.verdict == *verdict)
    }))
}
