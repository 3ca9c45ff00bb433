//! A turn that is submitted while another one of its thread is running, in doubt or queued.
//!
//! ## Why everything happens in the transaction of the new turn
//!
//! A process may be killed at any time. Either the new turn is stored together with the request to cancel the running one, or
//! neither is. The next process that appends to the thread obeys the request.

use queue::clock;
use sea_orm::{ActiveValue::Set, ColumnTrait as _, EntityTrait as _, FromQueryResult, QueryFilter as _};
use shared::{CallerId, MultitaskStrategy, TurnStatus, says_stop};

use crate::{
    Error,
    log::{
        cancel_requests::rows::{self, CancelRequest},
        database::statement,
        ids::{ThreadId, TurnId},
        pool::Transaction,
        submit::new_turn::NewTurn,
        tables::turns,
    },
};

/// Turns of a thread that have not ended, without those that start later.
#[derive(Default)]
struct InFlight {
    running: Option<TurnId>,
    queued: Vec<TurnId>,
}

/// Way that a turn makes for itself in its thread.
pub(super) struct Way {
    thread: ThreadId,
    multitask: MultitaskStrategy,
    /// The turn of the thread that is in doubt, if there is one.
    in_doubt: Option<TurnId>,
    is_stop: bool,
    actor: String,
    caller: Option<CallerId>,
}

impl Way {
    /// Returns the way that a turn makes, or `None` if it starts after the others.
    pub(super) fn of(new: &NewTurn, thread: ThreadId, is_asked: bool) -> Option<Self> {
        (new.multitask != MultitaskStrategy::Enqueue).then(|| Self {
            thread,
            multitask: new.multitask,
            in_doubt: new.in_doubt.filter(|_| is_asked),
            is_stop: says_stop(&new.messages),
            actor: new.author.clone(),
            caller: new.caller.clone(),
        })
    }

    /// Makes the way, and returns the queued turns that never start. The thread's row is locked.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadBusy`] if the turn is rejected.
    pub(super) async fn make(self, tx: &Transaction) -> Result<Vec<TurnId>, Error> {
        let Self { thread, multitask, in_doubt, is_stop, actor, caller } = self;
        let InFlight { running, queued } = in_flight(tx, thread).await?;
        let running = running.or(in_doubt);
        let rolled_back = match multitask {
            MultitaskStrategy::Enqueue => return Ok(Vec::new()),
            MultitaskStrategy::Reject if running.is_none() && queued.is_empty() => return Ok(Vec::new()),
            MultitaskStrategy::Reject => return Err(Error::ThreadBusy(thread)),
            MultitaskStrategy::Interrupt => false,
            MultitaskStrategy::Rollback => true,
        };
        if let Some(turn) = running {
            rows::put(tx, &CancelRequest { thread, turn, actor, caller, rolled_back }).await?;
        }
        // A stop ends what the thread is doing. It says nothing about what comes after it.
        if queued.is_empty() || is_stop {
            return Ok(Vec::new());
        }
        let row = turns::ActiveModel {
            status: Set(TurnStatus::Cancelled.to_string()),
            updated_at: Set(clock::now()),
            ..Default::default()
        };
        let update = turns::Entity::update_many().set(row).filter(turns::Column::Id.is_in(queued.clone()));
        update.filter(turns::Column::Status.eq(TurnStatus::Queued.as_str())).exec(tx).await?;
        Ok(queued)
    }
}

async fn in_flight(tx: &Transaction, thread: ThreadId) -> Result<InFlight, Error> {
    #[derive(FromQueryResult)]
    struct Row {
        id: TurnId,
        status: String,
    }
    const OPEN: &str = "SELECT turns.id AS id, turns.status AS status FROM open_turns AS open \
         JOIN turns ON turns.position = open.position WHERE open.thread_id = $1 \
         AND (turns.status = 'running' OR turns.status = 'queued' AND (turns.due_at IS NULL OR turns.due_at <= $2))";
    let values = [thread.into(), clock::now().into()];
    let mut found = InFlight::default();
    for Row { id, status } in Row::find_by_statement(statement(tx, OPEN, values)).all(tx).await? {
        if status == TurnStatus::Running.as_str() {
            found.running = Some(id);
        } else {
            found.queued.push(id);
        }
    }
    Ok(found)
}
