//! Routes that audit threads page by page, and list checkpoints.

use api_types::{AuditPage, BrokenChain, Checkpoint, DivergenceCluster, NotReplayed, Page};
use audit::replay::{Broken, Cluster, replay_some};
use axum::{Json, extract::State};
use queue::clock::rfc3339;
use serde::Deserialize;
use store::{ThreadFilter, ThreadId};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::server::{
    extract::Query,
    pagination::whole,
    principal::{Operator, Principal},
    problem::{ApiError, Kind},
    state::SharedState,
};

/// Default and maximum number of threads of one request.
const THREADS: u64 = 20;
const THREADS_MAX: u64 = 100;

/// Number of events after which a request audits no further thread.
const EVENTS_MAX: u64 = 10_000;

/// Query parameters of an audit.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditParams {
    /// Only threads created before this one: `next` of the previous page.
    after: Option<Uuid>,
    /// Maximum number of threads. Default: 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u64>,
    /// If true, requests count as differences whose prompts have a different text, or whose tools or replies are described
    /// differently. Default: false.
    #[serde(default)]
    prompts: bool,
}

/// Audit a page of threads
///
/// Verifies the hash chains of threads, newest first, and runs today's code against their logs. Nothing is written, and no model
/// or tool is called. A request ends after 10,000 events, so a page may have fewer threads than `limit`; continue with `next`.
/// If clusters of several pages have the same strategy, node and field, add up their `threads`.
#[utoipa::path(
    get, path = "/v1/audit/threads", tag = "audit", operation_id = "audit_threads", params(AuditParams),
    responses((status = 200, description = "The findings.", body = AuditPage))
)]
pub(crate) async fn threads(
    State(app): SharedState,
    principal: Principal,
    Query(AuditParams { after, limit, prompts }): Query<AuditParams>,
) -> Result<Json<AuditPage>, ApiError> {
    let limit = limit.unwrap_or(THREADS);
    if !(1..=THREADS_MAX).contains(&limit) {
        let detail = format!("limit must be between 1 and {THREADS_MAX}, but is {limit}");
        return Err(Kind::Malformed.because(detail));
    }
    let Ok(_permit) = app.replays.acquire().await else {
        return Err(Kind::Unavailable.because("the API is stopping"));
    };
    let filter = ThreadFilter { tenant: principal.only(), ..ThreadFilter::default() };
    let rows = app.backends.store.threads(filter, after, limit + 1).await?;
    let ids: Vec<ThreadId> = rows.iter().map(|it| it.id).take(usize::try_from(limit).unwrap_or(0)).collect();
    let (report, read) = replay_some(&app.backends.store, &app.strategies, &ids, prompts, EVENTS_MAX).await?;
    let next = if read < rows.len() { ids[..read].last().copied() } else { None };
    Ok(Json(AuditPage {
        threads: read as u64,
        events: report.events,
        broken: report.broken_chains.into_iter().map(broken).collect(),
        diverged: report.diverged,
        clusters: report.clusters.into_iter().map(cluster).collect(),
        not_checked: report
            .not_checked
            .into_iter()
            .map(|thread| NotReplayed { thread_id: thread.thread, problem: thread.why })
            .collect(),
        next,
    }))
}

fn broken(Broken { thread, seq, what }: Broken) -> BrokenChain {
    BrokenChain { thread_id: thread, seq, problem: what }
}

fn cluster(cluster: Cluster) -> DivergenceCluster {
    let Cluster { strategy, node, field, threads, example } = cluster;
    DivergenceCluster {
        strategy,
        node,
        field,
        threads,
        thread_id: example.thread,
        divergence: example.divergence.into(),
    }
}

/// List checkpoints
///
/// Returns the last checkpoint of each signing key, newest first, at most 100. Requires an operator.
#[utoipa::path(
    get, path = "/v1/audit/checkpoints", tag = "audit", operation_id = "list_checkpoints",
    responses((status = 200, description = "The checkpoints.", body = Page<Checkpoint>))
)]
pub(crate) async fn checkpoints(
    State(app): SharedState,
    _: Operator,
) -> Result<Json<Page<Checkpoint>>, ApiError> {
    let checkpoint = |record: store::CheckpointRecord| Checkpoint {
        origin: record.origin,
        file: record.file,
        heads: record.heads,
        threads: record.threads,
        findings: record.findings,
        made_at: rfc3339(record.made_at),
    };
    Ok(Json(whole(app.backends.store.checkpoints().await?.into_iter().map(checkpoint).collect())))
}
