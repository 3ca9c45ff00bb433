//! Routes that audit threads page by page, and list checkpoints.

use api_types::{
    AdminEntry, AuditPage, BrokenChain, Checkpoint, DivergenceCluster, NotReplayed, Page, Problem,
};
use audit::{
    admin_entry,
    replay::{Broken, Cluster, replay_some},
};
use axum::{Json, extract::State};
use queue::clock::{self, rfc3339};
use serde::Deserialize;
use store::{AdminEvent, AdminFilter, ThreadFilter, ThreadId};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::server::{
    extract::Query,
    pagination::{limit, page, whole},
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

/// Query parameters of an administrative log.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct LogParams {
    /// Only entries of this kind.
    #[param(example = "hold_released")]
    kind: Option<String>,
    /// Only entries from this time on (RFC 3339).
    since: Option<String>,
    /// Only entries older than this one: the last entry of the previous page.
    after: Option<String>,
    /// Maximum number of entries. Default: 50.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u64>,
}

/// Read the administrative log
///
/// Returns a page of decisions, newest first: holds, deletions, keys, pins, pauses, and decisions about batches. A tenant sees those
/// about itself, an operator who names no tenant all of them.
#[utoipa::path(
    get, path = "/v1/audit/log", tag = "audit", operation_id = "read_admin_log", params(LogParams),
    responses(
        (status = 200, description = "A page of entries.", body = Page<AdminEntry>),
        (status = 400, description = "A parameter is invalid.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn log(
    State(app): SharedState,
    principal: Principal,
    Query(params): Query<LogParams>,
) -> Result<Json<Page<AdminEntry>>, ApiError> {
    let limit = limit(params.limit)?;
    if let Some(kind) = params.kind.as_deref().filter(|kind| !AdminEvent::KINDS.contains(kind)) {
        let known = AdminEvent::KINDS.join(", ");
        let detail = format!("kind: {kind:?} is not a kind of entry");
        return Err(Kind::Malformed.because(detail).hint(format!("use one of {known}")));
    }
    let since = params.since.as_deref().map(time).transpose()?;
    let before = params.after.as_deref().map(entry_id).transpose()?;
    let tenant = principal.only().map(str::to_owned);
    let filter = AdminFilter { tenant, kind: params.kind, since, before };
    let rows = app.backends.store.admin_entries(&filter, limit + 1).await?;
    let entries = rows.into_iter().map(admin_entry).collect::<Result<Vec<_>, _>>()?;
    Ok(Json(page(entries, limit)))
}

fn time(text: &str) -> Result<i64, ApiError> {
    let wrong = || Kind::Malformed.because(format!("since: {text:?} is not a time"));
    clock::parse_rfc3339(text).ok_or_else(|| wrong().hint("write it as 2026-01-31T12:00:00Z"))
}

fn entry_id(text: &str) -> Result<(Uuid, u64), ApiError> {
    let read = || {
        let (log, seq) = text.split_once('.')?;
        Some((log.parse().ok()?, seq.parse().ok()?))
    };
    let wrong = || Kind::Malformed.because(format!("after: {text:?} is not the id of an entry"));
    read().ok_or_else(|| wrong().hint("send the `id` of the last entry of the previous page"))
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
