//! Cancels a running turn as a stored request demands. The store says why the request comes first.

use shared::{Cancelled, RunStatus};
use shared::{ThreadStatus, TurnStatus};
use store::{CancelRequest, Error, ReadModelUpdate, TurnUpdate};

use crate::{
    announce::Appended, backends::Backends, log::Log, registry::StrategyRegistry, thread_log::ThreadLog,
};

/// Appends that may have been under way when a request was stored. Several workers may hold the thread for a moment.
const ATTEMPTS: usize = 100;

/// Cancels the turn of a stored request, whatever its thread does. Returns false if the turn ended before, or another
/// caller has cancelled it; the request is then deleted.
///
/// # Errors
///
/// As [`ThreadLog::open`]; the request is deleted unless the database does not answer.
pub async fn obey_cancel_request<L: Log>(
    parts: &Backends<L>,
    strategies: &StrategyRegistry,
    request: &CancelRequest,
) -> Result<bool, Error> {
    match ThreadLog::open(parts, strategies, request.thread).await {
        Ok(log) => cancel_requested_turn(parts, log, request).await,
        Err(error @ Error::Unavailable(_)) => Err(error),
        // No version of turnfold appends to this log, so the request would stay for ever.
        Err(error) => {
            parts.store.drop_cancel_request(request).await?;
            Err(error)
        }
    }
}

/// Cancels the turn of a stored request in a log that is open, as [`obey_cancel_request`] does.
///
/// # Errors
///
/// As [`ThreadLog::refresh`] and [`ThreadLog::flush`].
pub async fn cancel_requested_turn<L: Log>(
    parts: &Backends<L>,
    mut log: ThreadLog,
    request: &CancelRequest,
) -> Result<bool, Error> {
    let mut attempts_left = ATTEMPTS;
    loop {
        if log.thread().turn() != Some(request.turn) || log.thread().status() == RunStatus::Idle {
            parts.store.drop_cancel_request(request).await?;
            return Ok(false);
        }
        attempts_left -= 1;
        match append_cancelled(parts, &log, request).await {
            Err(Error::Stale { .. }) if attempts_left > 0 => log.refresh(parts).await?,
            done => return done.map(|()| true),
        }
    }
}

/// Appends the event without folding it, so that the log can be refreshed if another append came first.
async fn append_cancelled<L: Log>(
    parts: &Backends<L>,
    log: &ThreadLog,
    CancelRequest { thread, turn, actor, caller, rolled_back }: &CancelRequest,
) -> Result<(), Error> {
    let turn = TurnUpdate { turn: *turn, status: TurnStatus::Cancelled, error: None, outcome: None };
    let update = ReadModelUpdate { status: ThreadStatus::Idle, turn: Some(turn) };
    let event = Cancelled { actor: actor.clone(), caller: caller.clone(), rolled_back: *rolled_back }.into();
    let at = parts.store.now();
    let head = parts.store.append(log.head(), std::slice::from_ref(&event), at, Some(&update)).await?;
    let (last, update, thread_state) = (Some(&event), Some(&update), log.thread());
    let (responses, asked, running) = (Vec::new(), None, None);
    let appended = Appended { at, head, thread: thread_state, update, last, responses, asked, running };
    let notification = appended.announce(parts);
    parts.notifications.publish(*thread, notification).await;
    Ok(())
}
