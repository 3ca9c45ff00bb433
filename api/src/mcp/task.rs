//! Turns as tasks. The id of a task is the id of its turn, so it outlives every process.

use api_types::{InboxItem, Page, Turn};
use rmcp::model::{DetailedTask, InputRequests, Task, TaskPayload, TaskStatus, object};
use serde_json::json;
use shared::TurnStatus;
use uuid::Uuid;

use super::{messages::turn_result, question, request::is};
use crate::server::{
    problem::Kind,
    rest::{Refusal, Rest, refusal},
};

/// Interval at which clients should ask again, in milliseconds.
const POLL_INTERVAL: u64 = 1000;

/// Number of turns of a thread that are read at once.
const PAGE: usize = 100;

/// A task: the turn that began it, and the one that goes on with it.
pub(super) struct TaskTurns {
    first: Turn,
    /// The turn itself, or the one that answered its question.
    pub(super) current: Turn,
}

impl TaskTurns {
    /// Reads a task.
    ///
    /// # Errors
    ///
    /// [`Kind::UnknownTurn`] if there is none with this id for the principal.
    pub(super) async fn read(rest: &Rest, id: &str) -> Result<Self, Refusal> {
        let id: Uuid = id
            .parse()
            .map_err(|_| refusal(&Kind::UnknownTurn.because(format!("there is no task {id:?}"))))?;
        let first: Turn = rest.get(&format!("/v1/turns/{id}")).await?;
        let current = current(rest, first.clone()).await?;
        Ok(Self { first, current })
    }

    /// Returns the open question; none if the task does not ask, or the answer has just come.
    pub(super) async fn question(&self, rest: &Rest) -> Result<Option<InboxItem>, Refusal> {
        open_question(rest, &self.current).await
    }

    /// Returns the task with its result, or with the requests of its question to a client that can ask its user.
    pub(super) async fn detailed(&self, rest: &Rest, can_ask: bool) -> Result<DetailedTask, Refusal> {
        let payload = match self.current.status {
            TurnStatus::Queued | TurnStatus::Running => TaskPayload::Working,
            TurnStatus::Cancelled => TaskPayload::Cancelled,
            TurnStatus::Completed | TurnStatus::Failed => {
                TaskPayload::Completed { result: object(json!(turn_result(&self.current))) }
            }
            TurnStatus::Interrupted => match self.question(rest).await? {
                Some(item) if can_ask => {
                    TaskPayload::InputRequired { input_requests: question::requests(&item) }
                }
                Some(_) => TaskPayload::InputRequired { input_requests: InputRequests::new() },
                None => TaskPayload::Working,
            },
        };
        Ok(DetailedTask::new(task(&self.first, &self.current), payload))
    }
}

/// Returns the open question of a turn; none if it does not ask, or the answer has just come.
pub(super) async fn open_question(rest: &Rest, turn: &Turn) -> Result<Option<InboxItem>, Refusal> {
    if turn.status != TurnStatus::Interrupted {
        return Ok(None);
    }
    match rest.get::<InboxItem>(&format!("/v1/inbox/{}", turn.thread_id)).await {
        Ok(item) => Ok(Some(item).filter(|item| item.turn_id == Some(turn.id))),
        Err(problem) if is(&problem, Kind::NothingAsked) => Ok(None),
        Err(problem) => Err(problem),
    }
}

/// Returns the turn that goes on where this one asked: the first later one that does not ask again, or else the last one.
async fn current(rest: &Rest, turn: Turn) -> Result<Turn, Refusal> {
    let mut last = turn;
    while last.status == TurnStatus::Interrupted {
        let (thread, after) = (last.thread_id, last.id);
        let path = format!("/v1/turns?thread_id={thread}&after={after}&order=oldest&limit={PAGE}");
        let later: Page<Turn> = rest.get(&path).await?;
        let asks = |turn: &Turn| turn.status == TurnStatus::Interrupted;
        let next = later.data.iter().find(|turn| !asks(turn)).or_else(|| later.data.last());
        match next {
            Some(next) => last = next.clone(),
            None => break,
        }
    }
    Ok(last)
}

/// Converts a turn, and the one that goes on with it, to a task. It is kept as long as its thread.
pub(super) fn task(first: &Turn, current: &Turn) -> Task {
    let status = match current.status {
        TurnStatus::Queued | TurnStatus::Running => TaskStatus::Working,
        TurnStatus::Interrupted => TaskStatus::InputRequired,
        TurnStatus::Completed | TurnStatus::Failed => TaskStatus::Completed,
        TurnStatus::Cancelled => TaskStatus::Cancelled,
    };
    let task = Task::new(first.id.to_string(), status, &first.created_at, &current.updated_at);
    let task = task.with_poll_interval_ms(POLL_INTERVAL);
    match &current.interrupt {
        Some(interrupt) => task.with_status_message(&interrupt.question),
        None => task,
    }
}
