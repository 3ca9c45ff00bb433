//! Tasks: calls that a server carries out on its own, by the extension `io.modelcontextprotocol/tasks`.
//!
//! Nothing is kept here. The log holds the id of the task, so any worker can ask for its result, and no connection has to stay
//! open meanwhile.

use std::time::Duration;

use rmcp::model::{
    CancelTaskParams, CancelTaskRequest, ClientRequest, DetailedTask, GetTaskParams, GetTaskRequest,
    InputRequests, InputRequiredResult, RequestId, ServerJsonRpcMessage, ServerResult, Task, TaskPayload,
    UpdateTaskParams, UpdateTaskRequest,
};
use serde_json::Value;
use shared::{BlockedBy, Fault, FaultKind, OpenTask, Response, Safety, ToolCall};
use uuid::Uuid;

use super::{
    Pool, Server, Servers,
    call_tool::{error, response},
    connection::Connection,
    elicitation,
    failure::Failure,
    sessions::InUse,
    wire::{Payload, Unreadable},
};
use crate::{
    text::truncate,
    world::{Outcome, RequestContext},
};

/// Maximum bytes of the id of a task.
const MAX_ID_BYTES: usize = 1_024;

/// Bounds of the delay between two polls, and the delay if the server names none.
const MIN_POLL: Duration = Duration::from_millis(500);
const MAX_POLL: Duration = Duration::from_secs(60);
const DEFAULT_POLL: Duration = Duration::from_secs(5);

/// Maximum characters of the message of a failed task.
const MAX_MESSAGE_CHARS: usize = 4_000;

/// Returns the response of a call that became a task.
pub(super) fn started(tool: &str, task: Task) -> Response {
    if MAX_ID_BYTES < task.task_id.len() {
        let why = format!("{tool} returned no result: the id of its task has more than {MAX_ID_BYTES} bytes");
        return error(why);
    }
    let poll_after_ms = poll_after_ms(&task);
    Response::Working { task: task.task_id, poll_after_ms }
}

fn poll_after_ms(task: &Task) -> u64 {
    let delay = task.poll_interval_ms.map_or(DEFAULT_POLL, Duration::from_millis);
    u64::try_from(delay.clamp(MIN_POLL, MAX_POLL).as_millis()).unwrap_or(u64::MAX)
}

impl Servers {
    /// Asks for the result of a task.
    pub(super) async fn poll_task(
        &self,
        name: &str,
        pool: &Pool,
        task: &str,
        call: &ToolCall,
        ask: &RequestContext<'_>,
    ) -> Outcome {
        let session = pool.sessions.get(name, ask.thread, &pool.server, pool.server.call_timeout).await;
        let session = session.map_err(wait)?;
        let slot = session.as_ref().map_or(&*pool.connection, InUse::connection);
        let connection = pool.connected_at(slot, name).await.map_err(wait)?;
        let poll = Poll { name, server: &pool.server, connection: &connection, task, tool: &call.name, ask };
        let session = session.as_ref().map(|_| connection.id());
        match poll.result(session).await {
            Ok(response) => {
                if !matches!(response, Response::Working { .. } | Response::InputRequired { .. }) {
                    connection.task_ended(task);
                }
                Ok((response, None))
            }
            Err(Failure::Refused(message) | Failure::Unclear(message)) => {
                connection.task_ended(task);
                Err(poll.forgotten(&message))
            }
            Err(failure) => {
                pool.drop_if_lost(slot, &connection, &failure).await;
                Err(wait(failure.of_query(name)))
            }
        }
    }

    /// Cancels a task, if its server can be reached.
    pub(crate) async fn cancel_task(&self, thread: Uuid, task: &OpenTask) {
        let Ok(pool) = self.pool(&task.server) else { return };
        let cancelling = async {
            let session =
                pool.sessions.get(&task.server, thread, &pool.server, pool.server.call_timeout).await?;
            let slot = session.as_ref().map_or(&*pool.connection, InUse::connection);
            let connection = pool.connected_at(slot, &task.server).await?;
            connection.task_ended(&task.task);
            let request = CancelTaskRequest::new(CancelTaskParams::new(task.task.as_str()));
            let request = ClientRequest::CancelTaskRequest(request);
            connection.request(&pool.server, request).await.map_err(|error| error.of_query(&task.server))
        };
        if let Err(fault) = cancelling.await {
            tracing::warn!(
                server = task.server,
                error = fault.error,
                "cannot cancel a task of an MCP server"
            );
        }
    }
}

/// Makes a fault wait without counting as an attempt: the task goes on, whatever happens to the question for its result.
fn wait(fault: Fault) -> Fault {
    let kind = match fault.kind {
        FaultKind::Transient { retry_after_ms }
        | FaultKind::InDoubt { retry_after_ms }
        | FaultKind::Unavailable { retry_after_ms, .. } => {
            FaultKind::Unavailable { retry_after_ms, sent: false, by: BlockedBy::Provider }
        }
        kind @ (FaultKind::Permanent | FaultKind::ContextExceeded { .. } | FaultKind::Oversized(_)) => kind,
    };
    Fault { kind, ..fault }
}

/// A question for the result of a task.
struct Poll<'a> {
    name: &'a str,
    server: &'a Server,
    connection: &'a Connection,
    task: &'a str,
    tool: &'a str,
    ask: &'a RequestContext<'a>,
}

impl Poll<'_> {
    async fn result(&self, session: Option<String>) -> Result<Response, Failure> {
        let Some(DetailedTask { task, payload, .. }) = self.get().await? else {
            return Err(Failure::Refused("its answer is not a task".to_owned()));
        };
        let working =
            || Response::Working { task: self.task.to_owned(), poll_after_ms: poll_after_ms(&task) };
        Ok(match payload {
            TaskPayload::Completed { result } => self.completed(result.into(), session),
            TaskPayload::Failed { error: failed } => {
                let message = failed.get("message").and_then(Value::as_str).unwrap_or("without a message");
                error(truncate(message, MAX_MESSAGE_CHARS))
            }
            TaskPayload::Cancelled => error(format!(
                "the server cancelled the task of {}; it is unknown which part of it was carried out",
                self.tool
            )),
            TaskPayload::InputRequired { input_requests } => match self.responses(&input_requests) {
                Some(request) => {
                    self.connection.request(self.server, request).await?;
                    working()
                }
                None => self.input_required(input_requests),
            },
            TaskPayload::Working | _ => working(),
        })
    }

    async fn get(&self) -> Result<Option<DetailedTask>, Failure> {
        let request = ClientRequest::GetTaskRequest(GetTaskRequest::new(GetTaskParams::new(self.task)));
        let result = self.connection.request(self.server, request).await?;
        Ok(if let ServerResult::GetTaskResult(result) = result { Some(result.task) } else { None })
    }

    /// Reads the result of the call, as if it had been its response.
    fn completed(&self, result: Value, session: Option<String>) -> Response {
        let read = Payload::Result(result, Vec::new()).into_message(RequestId::Number(0), self.name);
        match read {
            ServerJsonRpcMessage::Response(answer) => response(self.tool, answer.result, session),
            ServerJsonRpcMessage::Error(answer) => {
                let why = Unreadable::of(&answer.error)
                    .map_or_else(|| answer.error.message.to_string(), |reply| reply.why);
                error(format!("{} carried {} out, but its result {why}", self.name, self.tool))
            }
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => {
                error(super::convert::not_a_result(self.tool))
            }
        }
    }

    /// Returns the request that passes a person's inputs on, if they are those that the task requires. The keys of a task are
    /// unique, so inputs that were passed on already are never passed on again.
    fn responses(&self, required: &InputRequests) -> Option<ClientRequest> {
        let (mut responses, _) = elicitation::responses(self.ask.due.input_responses.as_ref()?);
        responses.retain(|key, _| required.contains_key(key));
        let is_whole = !required.is_empty() && responses.len() == required.len();
        let params = || UpdateTaskParams::new(self.task, responses.clone());
        is_whole.then(|| ClientRequest::UpdateTaskRequest(UpdateTaskRequest::new(params())))
    }

    fn input_required(&self, required: InputRequests) -> Response {
        let result = InputRequiredResult::from_input_requests(required);
        elicitation::input_required(self.tool, result).unwrap_or_else(error)
    }

    /// The fault of a task that its server does not know. A call that must not be repeated is in doubt.
    fn forgotten(&self, message: &str) -> Fault {
        let Self { name, tool, .. } = self;
        let error = format!("MCP server {name} does not know the task of {tool} any more: {message}");
        match self.ask.due.safety {
            Safety::Read => Fault::transient(error),
            Safety::Idempotent | Safety::Write => Fault::in_doubt(error),
        }
    }
}
