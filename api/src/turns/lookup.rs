//! Turns as rows and as responses, and waiting for their end.

use std::{collections::BTreeMap, time::Duration};

use api_types::{BudgetExceeded, Message, Output, ToolCall, Turn, Usage};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use queue::{Notification, clock::rfc3339};
use serde::Deserialize;
use shared::{TurnStatus, UsageTotal};
use store::{ThreadId, TurnId};
use threads::{Course, TurnEnd, TurnResult};
use tokio::time::Instant;
use utoipa::IntoParams;

use crate::{
    logs::{
        end_cache::KeptEnd,
        folded::{EndedTurn, Folded},
        folded_log::turn_results,
        subscription::{Signal, Subscription},
    },
    server::{
        principal::Principal,
        problem::{ApiError, Kind},
        state::AppState,
    },
};

/// Maximum value of `wait` in seconds.
const WAIT_MAX: u64 = 60;

/// Interval at which a waiting request rereads its turn. A queued turn may be rejected or cancelled without an event.
pub(crate) const RECHECK: Duration = Duration::from_secs(2);

/// Time after which a waiting request first reads its turn, which may have ended before the request listened.
const FIRST_LOOK: Duration = Duration::from_millis(100);

/// Maximum number of logs that one list of turns reads at the same time.
const LOGS_AT_ONCE: usize = 64;

/// Query parameters of a request that can wait for a turn.
#[derive(Clone, Copy, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WaitParams {
    /// Maximum time to wait for the end of the turn, in seconds. Default: 0.
    #[param(minimum = 0, maximum = 60, example = 20)]
    wait: Option<u64>,
}

impl WaitParams {
    /// Returns the time to wait; none means not at all.
    pub(crate) fn check(self) -> Result<Option<Duration>, ApiError> {
        match self.wait {
            Some(wait) if WAIT_MAX < wait => {
                Err(Kind::Malformed.because(format!("wait must be 0 to {WAIT_MAX} seconds, but is {wait}")))
            }
            Some(0) | None => Ok(None),
            Some(wait) => Ok(Some(Duration::from_secs(wait))),
        }
    }
}

/// Returns the row of a turn. A turn of another tenant does not exist.
pub(crate) async fn find(app: &AppState, principal: &Principal, id: TurnId) -> Result<store::Turn, ApiError> {
    let turn = app.backends.store.turn(id).await?.filter(|turn| principal.sees(&turn.tenant));
    turn.ok_or_else(|| store::Error::UnknownTurn(id).into())
}

/// Returns the current row of a turn that the principal is known to see.
pub(crate) async fn load(app: &AppState, id: TurnId) -> Result<store::Turn, ApiError> {
    let turn = app.backends.store.turn(id).await?;
    turn.ok_or_else(|| store::Error::UnknownTurn(id).into())
}

/// Returns the row of a turn and its response once it has ended, `wait` has passed, or the API shuts down.
pub(crate) async fn show_within(
    app: &AppState,
    turn: store::Turn,
    wait: Option<Duration>,
) -> Result<(store::Turn, Turn), ApiError> {
    let (row, announced) = match wait.filter(|_| !turn.status.is_over()) {
        Some(wait) => wait_until_ended(app, turn, wait).await?,
        None => (turn, None),
    };
    let Some(TurnEnd { strategy, result, .. }) = announced else {
        return Ok((row.clone(), show(app, row).await?));
    };
    let results = BTreeMap::from([(row.id, EndedTurn { result, interrupt: None })]);
    let mut threads = BTreeMap::from([(row.thread, ThreadResults { strategy, results, unreadable: None })]);
    Ok((row.clone(), response(row, &mut threads)))
}

/// Returns the row of a turn once it has ended, `wait` has passed, or the API shuts down, with its end if that was announced.
async fn wait_until_ended(
    app: &AppState,
    turn: store::Turn,
    wait: Duration,
) -> Result<(store::Turn, Option<TurnEnd>), ApiError> {
    let deadline = Instant::now() + wait;
    let mut subscription = Subscription::listen_to_ends(app, turn.thread, RECHECK).await;
    let mut until = deadline.min(Instant::now() + FIRST_LOOK);
    loop {
        match tokio::time::timeout_at(until, subscription.next()).await {
            Ok(Signal::Notification(Notification::Appended { end: Some(end), .. }))
                if let Some(end) = TurnEnd::of(turn.id, &end) =>
            {
                return Ok((end.row(turn), Some(end)));
            }
            Ok(Signal::Notification(_) | Signal::Recheck) => (),
            Ok(Signal::Shutdown) => return Ok((load(app, turn.id).await?, None)),
            Err(_) if until == deadline => return Ok((load(app, turn.id).await?, None)),
            Err(_) => until = deadline,
        }
        let row = load(app, turn.id).await?;
        if row.status.is_over() {
            return Ok((row, None));
        }
    }
}

/// Converts a turn to its response.
pub(crate) async fn show(app: &AppState, turn: store::Turn) -> Result<Turn, ApiError> {
    let mut shown = show_all(app, vec![turn]).await?;
    shown.pop().ok_or_else(|| Kind::Internal.because("a turn is missing from the response"))
}

/// An ended turn.
pub(crate) struct Ended {
    pub(crate) shown: Turn,
    /// Usage of the thread up to the end of the turn; `None` if the log cannot be read.
    pub(crate) usage: Option<UsageTotal>,
    pub(crate) course: Course,
}

/// Converts an ended turn to its response.
pub(crate) async fn show_ended(app: &AppState, turn: store::Turn) -> Result<Ended, ApiError> {
    let thread = read_thread(app, turn.thread, &[&turn]).await?;
    let usage = match thread.results.get(&turn.id) {
        Some(ended) => Some(ended.result.thread_usage),
        // The turn never started, or its log cannot be read.
        None => match thread_usage(app, turn.thread).await {
            Err(error) if error.kind == Kind::Damaged => None,
            usage => Some(usage?),
        },
    };
    let course = thread.results.get(&turn.id).map(|ended| ended.result.course.clone()).unwrap_or_default();
    let mut threads = BTreeMap::from([(turn.thread, thread)]);
    Ok(Ended { shown: response(turn, &mut threads), usage, course })
}

/// Returns the usage of all turns of a thread so far.
pub(crate) async fn thread_usage(app: &AppState, thread: ThreadId) -> Result<UsageTotal, ApiError> {
    Ok(*Folded::load(app, thread, None).await?.thread.usage())
}

/// Part of a thread that the responses of its turns need.
struct ThreadResults {
    strategy: String,
    results: BTreeMap<TurnId, EndedTurn>,
    /// Reason why the log cannot be read.
    unreadable: Option<String>,
}

impl ThreadResults {
    /// Creates the part of a thread of which no turn is known yet.
    fn of(strategy: &str) -> Self {
        Self { strategy: strategy.to_owned(), results: BTreeMap::new(), unreadable: None }
    }
}

/// Converts turns to their responses, in the same order.
pub(crate) async fn show_all(app: &AppState, turns: Vec<store::Turn>) -> Result<Vec<Turn>, ApiError> {
    let shown = show_with_usage(app, turns).await?;
    Ok(shown.into_iter().map(|(turn, _)| turn).collect())
}

/// Converts turns to their responses, in the same order, each with the usage of its thread up to its end; `None` until it has
/// ended.
pub(crate) async fn show_with_usage(
    app: &AppState,
    turns: Vec<store::Turn>,
) -> Result<Vec<(Turn, Option<UsageTotal>)>, ApiError> {
    // A single turn is read once, when it has ended.
    let hashes = if turns.len() == 1 { BTreeMap::new() } else { end_hashes(app, &turns).await? };
    let (mut by_thread, mut threads): (BTreeMap<ThreadId, Vec<&store::Turn>>, BTreeMap<_, ThreadResults>) =
        Default::default();
    for turn in &turns {
        match hashes.get(&turn.id).and_then(|hash| app.ends.get(turn.id, hash)) {
            Some(kept) => {
                let thread = threads.entry(turn.thread).or_insert_with(|| ThreadResults::of(&kept.strategy));
                thread.results.insert(turn.id, kept.ended.clone());
            }
            None => by_thread.entry(turn.thread).or_default().push(turn),
        }
    }
    // The store reads logs that are wanted at the same time in one query.
    let reads = by_thread.into_iter().map(|(thread, turns)| async move {
        Ok::<_, ApiError>((thread, read_thread(app, thread, &turns).await?))
    });
    // Collected, because the compiler cannot prove that a stream over the closure is `Send`.
    let reads = stream::iter(reads.collect::<Vec<_>>()).buffer_unordered(LOGS_AT_ONCE);
    let read: Vec<(ThreadId, ThreadResults)> = reads.try_collect().await?;
    for (id, thread) in read {
        for (turn, ended) in &thread.results {
            if let Some(hash) = hashes.get(turn) {
                let (strategy, ended) = (thread.strategy.clone(), ended.clone());
                app.ends.keep(*turn, KeptEnd { strategy, ended, hash: hash.clone() });
            }
        }
        let known = threads.entry(id).or_insert_with(|| ThreadResults::of(&thread.strategy));
        known.results.extend(thread.results);
        known.unreadable = thread.unreadable;
    }
    let shown = turns.into_iter().map(|turn| {
        let ended = threads.get(&turn.thread).and_then(|thread| thread.results.get(&turn.id));
        let usage = ended.map(|ended| ended.result.thread_usage);
        (response(turn, &mut threads), usage)
    });
    Ok(shown.collect())
}

/// Returns the hashes of the events that ended these turns. Those of cancelled turns are left out, because calls that were under way
/// end after them.
async fn end_hashes(app: &AppState, turns: &[store::Turn]) -> Result<BTreeMap<TurnId, Vec<u8>>, ApiError> {
    let ended = turns.iter().filter(|turn| turn.status != TurnStatus::Cancelled);
    let ended: BTreeMap<(ThreadId, u64), TurnId> =
        ended.filter_map(|turn| Some(((turn.thread, turn.ended_seq?), turn.id))).collect();
    let events: Vec<(ThreadId, u64)> = ended.keys().copied().collect();
    let hashes = app.backends.store.event_hashes(&events).await?.into_iter();
    Ok(hashes.filter_map(|(thread, seq, hash)| Some((*ended.get(&(thread, seq))?, hash))).collect())
}

/// Reads the log of a thread as far as the turns that have ended reach. If none has, or the log cannot be read, reads the row
/// of the thread.
async fn read_thread(
    app: &AppState,
    thread: ThreadId,
    turns: &[&store::Turn],
) -> Result<ThreadResults, ApiError> {
    let unreadable = match turn_results(app, thread, turns).await {
        Ok(Some((strategy, results))) => {
            return Ok(ThreadResults { strategy: strategy.to_owned(), results, unreadable: None });
        }
        Ok(None) => None,
        // One invalid log must not hide the turns of other threads.
        Err(error) if error.kind == Kind::Damaged => Some(error.detail().to_owned()),
        Err(error) => return Err(error),
    };
    let row = app.backends.store.thread(thread).await?.ok_or(store::Error::UnknownThread(thread))?;
    Ok(ThreadResults { strategy: row.strategy, results: BTreeMap::new(), unreadable })
}

fn response(turn: store::Turn, threads: &mut BTreeMap<ThreadId, ThreadResults>) -> Turn {
    let thread = threads.get_mut(&turn.thread);
    let (strategy, ended, unreadable) = match thread {
        Some(thread) => (thread.strategy.clone(), thread.results.remove(&turn.id), thread.unreadable.clone()),
        None => (String::new(), None, None),
    };
    let (result, interrupt) = ended.map(|ended| (ended.result, ended.interrupt)).unzip();
    Turn {
        id: turn.id,
        thread_id: turn.thread,
        tenant: turn.tenant,
        strategy,
        status: turn.status,
        priority: turn.priority,
        input: turn.messages.iter().map(Message::from).collect(),
        usage: result.as_ref().map(|result| Usage::from(&result.usage)),
        budget_exceeded: result.as_ref().and_then(|result| result.budget_exceeded).map(BudgetExceeded::from),
        output: result.map(output),
        interrupt: interrupt.flatten(),
        error: turn.error.or(unreadable),
        outcome: turn.outcome,
        cause: turn.cause,
        not_before: turn.due_at.map(rfc3339),
        metadata: turn.metadata,
        author: turn.author,
        created_at: rfc3339(turn.created_at),
        updated_at: rfc3339(turn.updated_at),
        started_seq: turn.started_seq,
        ended_seq: turn.ended_seq,
    }
}

fn output(TurnResult { messages, reply, client_calls, .. }: TurnResult) -> Output {
    Output {
        messages: messages.iter().map(Message::from).collect(),
        reply,
        tool_calls: client_calls.iter().map(ToolCall::from).collect(),
    }
}
