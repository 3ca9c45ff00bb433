//! Calls of one tool: sent at most once, whatever happens to the connection.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ContentBlock, CustomResult,
    JsonObject, RequestMetaObject, ServerResult,
};
use serde_json::Value;
use shared::{
    DynThread, Fault, FaultKind, InputResponses, Response, Safety, Tool, ToolCall, ToolOutput, diff_tools,
};

use super::{
    ATTEMPTS, IDEMPOTENCY_KEY, Pool, Servers,
    connection::{Answer, Connection},
    convert, doubt, elicitation,
    failure::Failure,
    last_output::with_line,
    resources::read_request,
    sessions::InUse,
    single_flight::SingleFlight,
    tasks, tool_filter,
};
use crate::world::{Outcome, RequestContext};

/// Destination of a request, and the bounds of sending it.
#[derive(Clone, Copy)]
struct Destination<'a> {
    name: &'a str,
    pool: &'a Pool,
    slot: &'a SingleFlight<Arc<Connection>>,
    timeout: Duration,
    may_repeat: bool,
}

impl Servers {
    /// Calls a tool of a server.
    ///
    /// **Invariant:** a call that may have reached the server is never sent twice.
    pub(crate) async fn call(
        &self,
        name: &str,
        call: &ToolCall,
        thread: &dyn DynThread,
        ask: &RequestContext<'_>,
    ) -> Outcome {
        let pool = self.pool(name)?;
        // The operator names the tool of a read-back, whether or not models are offered it.
        if !ask.due.is_read_back && !self.is_offered(thread, ask.node, name, &call.name) {
            return Ok((tool_filter::forbidden(name, call), None));
        }
        let timeout = pool.server.timeout(&call.name);
        if let Some(task) = &ask.due.task {
            return self.poll_task(name, pool, task, call, ask).await;
        }
        if ask.due.safety != Safety::Read
            && thread.is_first_approved_write(name)
            && let Some(tools) = self.changed_tools(name, call, thread).await?
        {
            return Ok((Response::Tools { tools }, None));
        }
        let session = pool.sessions.get(name, ask.thread, &pool.server, timeout).await?;
        let slot = session.as_ref().map_or(&*pool.connection, InUse::connection);
        let supplied = ask.due.input_responses.as_ref();
        let request = match self.reads_resource(name, call).await? {
            true => read_request(call, ask),
            false => request(call, ask, supplied),
        };
        let _permits = pool.concurrency.acquire(&call.name, ask.due.safety).await;
        let may_repeat = ask.due.safety == Safety::Read;
        let to = Destination { name, pool, slot, timeout, may_repeat };
        let mut sent = self.send(&to, request).await;
        if let (Err(Failure::Refused(_)), Some(supplied)) = (&sent, supplied)
            && supplied.request_state.is_some()
        {
            sent = self.ask_anew(&to, call, ask, supplied).await;
        }
        let (Answer { mut result, last_output }, connection) = match sent {
            Ok(answered) => answered,
            Err(failure) => return outcome(name, &call.name, failure, ask.due.safety),
        };
        if ask.due.safety == Safety::Write
            && let Some(why) = doubt::of_result(&result)
        {
            return Err(in_doubt(name, &call.name, &with_line(&why, last_output.as_deref())));
        }
        if let (ServerResult::CallToolResult(failed), Some(line)) = (&mut result, last_output) {
            failed.content.push(ContentBlock::text(format!("[its last output: {line}]")));
        }
        if let ServerResult::CreateTaskResult(created) = &result {
            connection.task_began(&created.task.task_id);
        }
        Ok((response(&call.name, result, session.as_ref().map(|_| connection.id())), None))
    }

    /// Calls a tool whose server has refused the state of its question: the state ends with the process, or after some
    /// minutes, and a person may answer later. The call begins again without it. If the server asks the same, the recorded
    /// answer is given; otherwise the person is asked again.
    async fn ask_anew(
        &self,
        to: &Destination<'_>,
        call: &ToolCall,
        ask: &RequestContext<'_>,
        supplied: &InputResponses,
    ) -> Result<(Answer, Arc<Connection>), Failure> {
        let first = self.send(to, request(call, ask, None)).await?;
        let ServerResult::InputRequiredResult(required) = &first.0.result else { return Ok(first) };
        match elicitation::same_questions(required, supplied) {
            Some(supplied) => self.send(to, request(call, ask, Some(&supplied))).await,
            None => Ok(first),
        }
    }

    /// Sends a request, and once more if it is known that it was not sent. Returns the answer and the connection.
    async fn send(
        &self,
        to: &Destination<'_>,
        request: ClientRequest,
    ) -> Result<(Answer, Arc<Connection>), Failure> {
        let Destination { name, pool, slot, timeout, may_repeat } = *to;
        let mut last_failure = Failure::Unsent("it closed the connection".to_owned());
        for attempt in 1..=ATTEMPTS {
            let connection = pool.connected_at(slot, name).await.map_err(Failure::Fault)?;
            if let Err(failure) = self.prepare(name, pool, &connection, may_repeat).await {
                pool.drop_if_lost(slot, &connection, &failure).await;
                // Whatever happened to the preparation, no call was sent.
                if attempt == ATTEMPTS || !failure.is_of_connection() {
                    return Err(Failure::Fault(failure.of_query(name)));
                }
                continue;
            }
            match connection.answer_within(timeout, &pool.server, request.clone()).await {
                Ok(answer) => return Ok((answer, connection)),
                Err(failure) => {
                    pool.drop_if_lost(slot, &connection, &failure).await;
                    let is_last = attempt == ATTEMPTS || !failure.is_for_new_connection(may_repeat);
                    last_failure = failure;
                    if is_last {
                        break;
                    }
                }
            }
        }
        Err(last_failure)
    }

    /// Reads the server's list again, and returns it if the called tool is not the one that the thread knows.
    ///
    /// ## Why before the first write after an approval
    ///
    /// A person approved a call as the tool was described to them, perhaps days ago. A server may change a tool without
    /// announcing it. A tool that was changed back is the one that was approved.
    async fn changed_tools(
        &self,
        name: &str,
        call: &ToolCall,
        thread: &dyn DynThread,
    ) -> Result<Option<Vec<Tool>>, Fault> {
        let Some(known) = thread.server_tools(name) else { return Ok(None) };
        let queried = self.query(name, |connection, server| connection.tools_now(server).boxed()).await;
        let tools = queried.map_err(|failure| failure.of_query(name))?;
        let tools =
            self.visible_tools(&self.pool(name)?.server, thread, self.with_read_tool(name, tools).await?);
        let find = |tools: &[Tool]| -> Vec<Tool> {
            tools.iter().filter(|tool| tool.name == call.name).cloned().collect()
        };
        Ok((!diff_tools(&find(known), &find(&tools)).is_empty()).then_some(tools))
    }

    /// Makes sure that a call over this connection may be sent.
    async fn prepare(
        &self,
        name: &str,
        pool: &Pool,
        connection: &Connection,
        may_repeat: bool,
    ) -> Result<(), Failure> {
        if !may_repeat && let Some(failure) = connection.lost_session(&pool.server).await {
            return Err(failure);
        }
        self.admit(name, pool, connection, may_repeat).await
    }
}

/// Converts the result of a call.
pub(super) fn response(tool: &str, result: ServerResult, session: Option<String>) -> Response {
    if let ServerResult::CallToolResult(result) = result {
        return convert::output(result, session);
    }
    if let ServerResult::ReadResourceResult(result) = result {
        return convert::resource(result, session);
    }
    if let ServerResult::InputRequiredResult(required) = result {
        return elicitation::input_required(tool, required).unwrap_or_else(error);
    }
    if let ServerResult::CreateTaskResult(created) = result {
        return tasks::started(tool, created.task);
    }
    // A result without content, as rmcp reads it.
    if matches!(result, ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_)) {
        return convert::output(CallToolResult::success(Vec::new()), session);
    }
    // A result of the tool's own, without the protocol's form.
    if let ServerResult::CustomResult(CustomResult(value @ Value::Object(_))) = result {
        let shown = CallToolResult::success(vec![ContentBlock::text(value.to_string())]);
        return convert::output(shown, session);
    }
    error(convert::not_a_result(tool))
}

/// Decides what a failed call means.
fn outcome(name: &str, tool: &str, failure: Failure, safety: Safety) -> Outcome {
    let may_repeat = safety == Safety::Read;
    let failure = failure.without_status(name);
    match failure {
        Failure::Unclear(message) if safety == Safety::Write => Err(in_doubt(name, tool, &message)),
        Failure::Refused(message) | Failure::Unclear(message) => Ok((error(message), None)),
        Failure::Unreadable(reply) if reply.has_result || may_repeat => {
            let made = if reply.has_result { "; the call was carried out" } else { "" };
            Ok((error(format!("{name} answered {tool}, but its answer {}{made}", reply.why)), None))
        }
        Failure::Unreadable(reply) => Err(Fault::in_doubt(format!(
            "MCP server {name} answered {tool}, but its answer {}; the call may have been carried out",
            reply.why
        ))),
        Failure::Lost { why, retry_after_ms } => {
            let error = format!("the connection to MCP server {name} was lost during {tool}: {why}");
            Err(Fault::new(error, FaultKind::InDoubt { retry_after_ms }))
        }
        Failure::Silent { time, last_output } => {
            let error = format!("MCP server {name} did not answer {tool} within {time:?}");
            Err(Fault::in_doubt(with_line(&error, last_output.as_deref())))
        }
        Failure::Unsent(_) | Failure::Status { .. } | Failure::Fault(_) => Err(failure.of_query(name)),
    }
}

/// The fault of a write whose answer is an error that does not say whether it was made.
fn in_doubt(name: &str, tool: &str, why: &str) -> Fault {
    Fault::in_doubt(format!(
        "MCP server {name} answered {tool} with an error that does not say whether it was made: {why}"
    ))
}

/// Arguments that are not an object were already rejected by the schema check.
fn request(call: &ToolCall, ask: &RequestContext<'_>, supplied: Option<&InputResponses>) -> ClientRequest {
    let arguments = call.arguments.as_object().cloned().unwrap_or_default();
    let mut params = CallToolRequestParams::new(call.name.clone()).with_arguments(arguments);
    let meta = JsonObject::from_iter([(IDEMPOTENCY_KEY.to_owned(), ask.key.into())]);
    params.meta = Some(RequestMetaObject::from(meta));
    if let Some(supplied) = supplied {
        let (answers, state) = elicitation::responses(supplied);
        (params.input_responses, params.request_state) = (Some(answers), state);
    }
    ClientRequest::CallToolRequest(CallToolRequest::new(params))
}

pub(super) fn error(message: String) -> Response {
    Response::Output(ToolOutput::Error(message))
}
