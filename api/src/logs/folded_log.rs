//! Folds of logs up to an event.

use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

use shared::{Event, Graph, TurnStatus};
use store::{Recorded, ThreadId, Turn, TurnId};
use threads::{Course, ThreadLog};

use super::folded::{EndedTurn, Folded};
use crate::server::{
    problem::{ApiError, Kind},
    state::AppState,
};

/// Number of folds that are kept along a log that is folded from its first event.
const CHECKPOINTS: u64 = 16;

/// Least number of events between two of them.
const CHECKPOINT_EVENTS: u64 = 500;

/// Events after a cancellation in which the ends of its calls are looked for.
const WRITES_MAX: u64 = 50;

impl Folded {
    /// Folds a log up to event `at`, or completely.
    pub(crate) async fn load(app: &AppState, id: ThreadId, at: Option<u64>) -> Result<Arc<Self>, ApiError> {
        let until = up_to(app, id, at).await?;
        Self::walk(app, id, until, until, |_| ()).await
    }

    /// Opens the log of a thread for an append, without reading again what is folded already.
    pub(crate) async fn open(app: &AppState, id: ThreadId) -> Result<ThreadLog, ApiError> {
        let head = app.backends.store.head(id).await?;
        let folded = Self::load(app, id, head.seq.checked_sub(1)).await?;
        Ok(ThreadLog::folded_to(head, folded.thread.clone()))
    }

    /// Folds a log up to event `until`, and calls `seen` after each event beyond `from`. Begins at the nearest fold that was
    /// kept, and keeps the result.
    ///
    /// Reads the log in pieces, so memory use does not grow with its length.
    pub(crate) async fn walk(
        app: &AppState,
        id: ThreadId,
        from: u64,
        until: u64,
        mut seen: impl FnMut(&Self),
    ) -> Result<Arc<Self>, ApiError> {
        let mut folded = app.folds.take(id, from);
        let begin = loop {
            let (mut is_same, begin) = (true, folded.as_ref().map_or(0, |folded| folded.seq()));
            let interval = ((until - begin) / CHECKPOINTS).max(CHECKPOINT_EVENTS);
            let each = |recorded: Recorded| {
                if let Some(folded) = folded.as_ref().filter(|folded| folded.seq() == recorded.seq) {
                    is_same = folded.last() == Some(&recorded);
                    return Ok(if is_same { ControlFlow::Continue(()) } else { ControlFlow::Break(()) });
                }
                let folded = match &mut folded {
                    Some(folded) => folded,
                    None => folded.insert(Arc::new(Self::new(graph(app, id, Some(&recorded.event))?))),
                };
                let seq = recorded.seq;
                // Copies the fold only if it is kept.
                Arc::make_mut(folded).apply(recorded)?;
                if from < seq {
                    seen(folded);
                }
                if seq.is_multiple_of(interval) && seq < until {
                    app.folds.keep(id, folded);
                }
                Ok::<_, ApiError>(ControlFlow::Continue(()))
            };
            app.backends.store.along_until(id, begin, Some(until), each).await?;
            if is_same {
                break begin;
            }
            // The thread was deleted, and another one was imported under its id.
            app.folds.forget(id);
            folded = None;
        };
        let folded = folded.ok_or(store::Error::UnknownThread(id))?;
        if begin < folded.seq() {
            app.folds.keep(id, &folded);
        }
        Ok(folded)
    }
}

/// Returns the strategy of a thread, and the results of those of these turns that have ended; `None` if none has ended. Reads
/// the log from the first of them to the last.
pub(crate) async fn turn_results(
    app: &AppState,
    id: ThreadId,
    turns: &[&Turn],
) -> Result<Option<(&'static str, BTreeMap<TurnId, EndedTurn>)>, ApiError> {
    let ended: BTreeMap<u64, &Turn> =
        turns.iter().filter_map(|turn| Some((turn.ended_seq?, *turn))).collect();
    let started: BTreeMap<u64, TurnId> =
        ended.values().filter_map(|turn| Some((turn.started_seq?, turn.id))).collect();
    let Some(last) = ended.keys().next_back() else { return Ok(None) };
    let first = started.keys().chain(ended.keys()).min().copied().unwrap_or_default();
    // The log begins with `opened`, which starts no turn.
    let before = first.saturating_sub(1);
    let (mut first_message, mut results) = (BTreeMap::new(), BTreeMap::new());
    let mut course = Course::default();
    let seen = |folded: &Folded| {
        folded.last().inspect(|last| course.add(last.at, &last.event));
        if let Some(turn) = started.get(&folded.seq()) {
            first_message.insert(*turn, folded.thread.messages().len());
        }
        // Calls that were under way at a cancellation end after their turn.
        let of_ended =
            || matches!(folded.last()?.event, Event::WriteEnded(_)).then(|| folded.thread.turn()).flatten();
        let turn = ended.get(&folded.seq()).map(|turn| turn.id);
        let turn = turn.or_else(|| of_ended().filter(|turn| results.contains_key(turn)));
        if let Some(turn) = turn {
            let first = first_message.get(&turn).copied().unwrap_or_default();
            let known = results.get(&turn).map(|known: &EndedTurn| known.result.course.clone());
            results.insert(turn, folded.result(first, known.unwrap_or_else(|| course.clone())));
        }
    };
    let until = match turns
        .iter()
        .any(|turn| turn.status == TurnStatus::Cancelled && turn.ended_seq == Some(*last))
    {
        true => up_to(app, id, None).await?.min(*last + WRITES_MAX),
        false => *last,
    };
    let folded = Folded::walk(app, id, before, until, seen).await?;
    Ok(Some((folded.thread.strategy(), results)))
}

/// Returns the requested event, or the last one. Fails if the log has no such event yet.
pub(crate) async fn up_to(app: &AppState, id: ThreadId, at: Option<u64>) -> Result<u64, ApiError> {
    let last = app.backends.store.head(id).await?.seq - 1;
    match at {
        Some(at) if last < at => {
            Err(Kind::Invalid.because(format!("event {at} does not exist yet: the last event is {last}")))
        }
        Some(at) => Ok(at),
        None => Ok(last),
    }
}

/// Returns the graph that wrote the log of a thread.
pub(crate) async fn graph_of(app: &AppState, id: ThreadId) -> Result<&'static dyn Graph, ApiError> {
    let recorded = app.backends.store.events(id, None, 1).await?;
    graph(app, id, recorded.first().map(|recorded| &recorded.event))
}

fn graph(app: &AppState, id: ThreadId, first: Option<&Event>) -> Result<&'static dyn Graph, ApiError> {
    let Some(Event::Opened(opened)) = first else {
        return Err(Kind::Damaged.because(format!("the log of thread {id} does not start with `opened`")));
    };
    app.strategies.find(&opened.strategy).ok_or_else(|| {
        let known = app.strategies.names().join(", ");
        let detail = format!("this build has no strategy {:?}; it has: {known}", opened.strategy);
        Kind::Damaged.because(detail).hint("start a build of the API with this strategy")
    })
}
