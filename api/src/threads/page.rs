//! Route that returns a thread as one HTML page, which shows and verifies it without turnfold.

use std::collections::BTreeMap;

use api_types::{LogStatus, Problem, Takeover, TimeTotal, Usage};
use audit::{AttachmentLine, EventLine, LogExport};
use axum::{
    extract::State,
    http::header::{CONTENT_DISPOSITION, CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{ThreadId, TurnFilter};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    redacted::redacted,
    states::{STATES_BYTES, States},
    view::{Shown, view},
};
use crate::{
    logs::{folded::Folded, lookup::find_thread},
    server::{
        extract::{Path, Query},
        principal::Principal,
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
    turns::timeline::time_of,
};

/// The page without a run, as `npm run build` writes it.
const TEMPLATE: &str = include_str!("../../../console/dist/run.html");

/// Place of the run in the template.
const PLACE: &str = "__RUN__";

/// Largest log with its attachments of which a page is made, in bytes.
const LOG_MAX: usize = 32 << 20;

/// Maximum number of events whose states are in a page: the first ones.
const STATES_MAX: u64 = 1_000;

/// Maximum number of turns whose uses of time are in a page: the last ones.
const TURNS_MAX: u64 = 100;

/// Query parameters of the page of a thread.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PageParams {
    /// False leaves out all messages, prompts, arguments and results of tools, facts, reasons, names of people, and all hashes but the
    /// last. Default: true.
    contents: Option<bool>,
}

/// A run as the script of the page reads it.
#[derive(Serialize)]
struct Run {
    thread: Summary,
    is_redacted: bool,
    /// Number, time in microseconds, kind, stored bytes and hash of each event.
    log: Vec<(u64, i64, String, String, String)>,
    attachments: Vec<AttachmentLine>,
    /// Each state with the event after which it is new. An entry without a state: those from here on are not in the page.
    states: Vec<Vec<Value>>,
    times: BTreeMap<Uuid, Time>,
}

#[derive(Serialize)]
struct Summary {
    id: ThreadId,
    strategy: String,
    created_at: String,
    log_status: LogStatus,
    outcome: Option<api_types::Outcome>,
    usage: Usage,
}

/// Uses of the time of a turn.
#[derive(Serialize)]
struct Time {
    ms: u64,
    totals: Vec<TimeTotal>,
    takeovers: Vec<Takeover>,
}

/// Save a thread as a page
///
/// Returns one HTML file that needs no network: the conversation, the timeline, the state after each of the first 1,000 events (at
/// most 32 MiB of states), and the stored bytes of the log, whose hashes it verifies by itself. `turnfold thread export --html`
/// writes the same.
#[utoipa::path(
    get, path = "/v1/threads/{id}/page", tag = "threads", operation_id = "thread_page",
    params(("id" = Uuid, Path, description = "Id of the thread."), PageParams),
    responses(
        (status = 200, description = "The page.", body = String, content_type = "text/html"),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The log with its attachments is larger than 32 MiB.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn page(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
    Query(params): Query<PageParams>,
) -> Result<Response, ApiError> {
    let row = find_thread(&app, &principal, id).await?;
    let Ok(_permit) = app.replays.acquire().await else {
        return Err(Kind::Unavailable.because("the API is stopping"));
    };
    let has_contents = params.contents.unwrap_or(true);
    let mut run = Run {
        thread: summary(&app, row).await?,
        is_redacted: !has_contents,
        log: Vec::new(),
        attachments: Vec::new(),
        states: vec![vec![json!(0)]],
        times: times(&app, id).await?,
    };
    read_log(&app, &mut run).await?;
    if has_contents {
        run.states = states(&app, id, run.log.len() as u64).await?;
    } else {
        redact(&mut run);
    }
    let data = serde_json::to_string(&run);
    let data = data.map_err(|error| Kind::Internal.because(format!("the run is not JSON: {error}")))?;
    // No text in it ends its element.
    let page = TEMPLATE.replacen(PLACE, &data.replace('<', "\\u003c"), 1);
    let name = format!("{id}{}", if has_contents { "" } else { "-redacted" });
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.html\"")),
    ];
    Ok((headers, page).into_response())
}

async fn summary(app: &AppState, row: store::Thread) -> Result<Summary, ApiError> {
    let thread = view(app, row, Shown { messages: Some(0), before: None }).await?;
    Ok(Summary {
        id: thread.summary.id,
        strategy: thread.summary.strategy,
        created_at: thread.summary.created_at,
        log_status: thread.log_status,
        outcome: thread.outcome,
        usage: thread.usage,
    })
}

/// Reads the log, and its attachments unless the contents are left out.
async fn read_log(app: &AppState, run: &mut Run) -> Result<(), ApiError> {
    let id = run.thread.id;
    let wrong = |error: serde_json::Error| Kind::Internal.because(format!("the log of {id}: {error}"));
    let mut export = LogExport::new(app.backends.store.clone(), id);
    let mut bytes = 0;
    while let Some(lines) = export.next().await? {
        for line in lines.lines() {
            let is_attachment = line.starts_with("{\"sha256\":");
            if is_attachment && run.is_redacted {
                continue;
            }
            bytes += line.len();
            if LOG_MAX < bytes {
                let with = if run.is_redacted { "" } else { " with its attachments" };
                let what = format!("the log of thread {id}{with} has more than {} MiB", LOG_MAX >> 20);
                return Err(Kind::Invalid.because(what).hint("export it: turnfold thread export"));
            }
            if is_attachment {
                run.attachments.push(serde_json::from_str(line).map_err(wrong)?);
            } else {
                let EventLine { seq, at, kind, payload, hash, .. } =
                    serde_json::from_str(line).map_err(wrong)?;
                run.log.push((seq, at, kind, payload, hash));
            }
        }
    }
    Ok(())
}

/// Leaves out the contents. The hash of an event with few possible contents tells which one it has; the last hash covers the
/// contents of all events.
fn redact(run: &mut Run) {
    let last = run.log.len().saturating_sub(1);
    for (nth, (_, _, _, payload, hash)) in run.log.iter_mut().enumerate() {
        // What is not JSON has no fields that could be kept.
        *payload = serde_json::from_str(payload)
            .map_or_else(|_| "{}".to_owned(), |event| redacted(event).to_string());
        if nth < last {
            hash.clear();
        }
    }
}

/// Returns the states after the first events, without those that are as the one before.
async fn states(app: &AppState, id: ThreadId, events: u64) -> Result<Vec<Vec<Value>>, ApiError> {
    let mut states = States::new(STATES_BYTES);
    // A state that cannot be shown is missing in the page.
    let mut add = |folded: &Folded| states.add(folded.seq(), folded.thread.state().unwrap_or_default());
    let shown = events.min(STATES_MAX);
    let first = Folded::load(app, id, Some(0)).await?;
    add(&first);
    if 1 < shown {
        Folded::walk(app, id, 0, shown - 1, add).await?;
    }
    if STATES_MAX < events {
        states.end(STATES_MAX);
    }
    Ok(states.into_entries())
}

/// Returns the uses of the time of the last turns. A turn that was copied with its log has none.
async fn times(app: &AppState, thread: ThreadId) -> Result<BTreeMap<Uuid, Time>, ApiError> {
    let filter = TurnFilter { thread: Some(thread), ..TurnFilter::default() };
    let mut times = BTreeMap::new();
    for turn in app.backends.store.turns(filter, None, TURNS_MAX).await? {
        let time = time_of(app, &turn).await?.timeline(thread);
        times.insert(turn.id, Time { ms: time.ms, totals: time.totals, takeovers: time.takeovers });
    }
    Ok(times)
}
