//! Turns that are submitted while another one of their thread is running, in doubt or queued.

use shared::{InterruptKind, MultitaskStrategy, RunStatus, ThreadStatus, says_stop};
use store::{NewTurn, Opening, Thread, TurnId};

use super::cancel_retry::obey;
use crate::{
    logs::folded::Folded,
    server::{
        principal::Principal,
        problem::{ApiError, Kind},
        state::AppState,
    },
};

/// Returns what applies to a turn: what the request says, or else its key, or else the tenant, or else the strategy.
///
/// # Errors
///
/// [`Kind::Invalid`] if the request displaces a turn, or rejects its own, at a time that it does not know.
pub(crate) fn multitask_for(
    app: &AppState,
    principal: &Principal,
    asked: Option<MultitaskStrategy>,
    thread: &Thread,
    is_later: bool,
) -> Result<MultitaskStrategy, ApiError> {
    match asked {
        Some(MultitaskStrategy::Enqueue) => Ok(MultitaskStrategy::Enqueue),
        Some(asked) if is_later => {
            let detail =
                format!("multitask_strategy: a turn that starts later can be enqueued, and not {asked}");
            Err(Kind::Invalid.because(detail).hint("remove it, or `not_before` and `delay_seconds`"))
        }
        Some(asked) => Ok(asked),
        None if is_later => Ok(MultitaskStrategy::Enqueue),
        None => {
            let of_key = principal.caller().multitask_strategy;
            let of_tenant = || app.tenant_rules.of(&thread.tenant).multitask_strategy;
            let of_strategy = || app.multitask.get(&thread.strategy).copied();
            Ok(of_key.or_else(of_tenant).or_else(of_strategy).unwrap_or_default())
        }
    }
}

/// Completes a turn of an existing thread: a message that says nothing but stop interrupts what the thread is doing, also
/// during a doubt, whatever else is set. Returns true for a stop. The answer to a question of a strategy goes to the strategy.
pub(super) async fn prepare(app: &AppState, new: &mut NewTurn, thread: &Thread) -> bool {
    if let Opening::Asking(..) = new.thread {
        new.multitask = MultitaskStrategy::Enqueue;
        return false;
    }
    let says_stop = new.due_at.is_none() && says_stop(&new.messages);
    if says_stop || new.multitask != MultitaskStrategy::Enqueue {
        new.in_doubt = in_doubt(app, thread).await;
    }
    let stops = says_stop && (thread.status == ThreadStatus::Busy || new.in_doubt.is_some());
    if stops {
        new.multitask = MultitaskStrategy::Interrupt;
    }
    stops
}

/// Returns the turn of a thread that is in doubt, if there is one.
async fn in_doubt(app: &AppState, thread: &Thread) -> Option<TurnId> {
    if thread.status != ThreadStatus::Interrupted {
        return None;
    }
    let folded = Folded::load(app, thread.id, None).await.ok()?;
    let RunStatus::Waiting(interrupt) = folded.thread.status() else { return None };
    folded.thread.turn().filter(|_| interrupt.kind == InterruptKind::InDoubt)
}

/// Cancels what a new turn displaces, as its transaction has stored. If this process dies before, or the database does not
/// answer, the next append of a worker does it.
pub(super) async fn displace(app: &AppState, turn: &store::Turn) {
    let request = match app.backends.store.cancel_request(turn.thread).await {
        Ok(request) => request,
        Err(error) => {
            tracing::warn!(turn = %turn.id, %error, "cannot read the request to cancel; a worker obeys it");
            return;
        }
    };
    app.notify_followers(turn.thread).await;
    let Some(request) = request else { return };
    if let Err(error) = obey(app, &request).await {
        tracing::warn!(turn = %request.turn, error = error.detail(), "cannot cancel a turn now; a worker does it");
    }
    app.wake_worker(turn.thread).await;
    app.enqueue(turn.thread).await;
}
