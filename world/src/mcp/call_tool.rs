//! Calls of one tool: sent at most once, whatever happens to the connection.

use futures::FutureExt as _;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, JsonObject, RequestMetaObject,
    ServerResult,
};
use shared::{DynThread, Fault, FaultKind, Response, Safety, Tool, ToolCall, ToolOutput};

use super::{
    ATTEMPTS, IDEMPOTENCY_KEY, Pool, Servers, connection::Connection, convert, elicitation, failure::Failure,
    resources::read_request, sessions::InUse, tasks, tool_filter,
};
use crate::world::{Outcome, RequestContext};

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
        if !self.is_offered(thread, ask.node, name, &call.name) {
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
        let slot = session.as_ref().map_or(&pool.connection, InUse::connection);
        let request = match self.reads_resource(name, call).await? {
            true => read_request(call, ask),
            false => request(call, ask),
        };
        let _permits = pool.concurrency.acquire(&call.name).await;
        let may_repeat = ask.due.safety == Safety::Read;
        let mut last_failure = Failure::Unsent("it closed the connection".to_owned());
        for attempt in 1..=ATTEMPTS {
            let connection = pool.connected_at(slot, name).await?;
            if let Err(failure) = self.prepare(name, pool, &connection, may_repeat).await {
                pool.drop_if_lost(slot, &connection, &failure).await;
                // Whatever happened to the preparation, no call was sent.
                if attempt == ATTEMPTS || !failure.is_of_connection() {
                    return Err(failure.of_query(name));
                }
                continue;
            }
            match connection.request_within(timeout, &pool.server, request.clone()).await {
                Ok(result) => {
                    let session = session.as_ref().map(|_| connection.id());
                    return Ok((response(&call.name, result, session), None));
                }
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
        outcome(name, &call.name, last_failure, may_repeat)
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
        let find = |tools: &[Tool]| tools.iter().find(|tool| tool.name == call.name).cloned();
        Ok((find(known) != find(&tools)).then_some(tools))
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
        self.admit(name, pool, connection).await
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
    error(convert::not_a_result(tool))
}

/// Decides what a failed call means.
fn outcome(name: &str, tool: &str, failure: Failure, may_repeat: bool) -> Outcome {
    let failure = failure.without_status(name);
    match failure {
        Failure::Refused(message) => Ok((error(message), None)),
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
        Failure::Silent(time) => {
            Err(Fault::in_doubt(format!("MCP server {name} did not answer {tool} within {time:?}")))
        }
        Failure::Unsent(_) | Failure::Status { .. } | Failure::Fault(_) => Err(failure.of_query(name)),
    }
}

/// Arguments that are not an object were already rejected by the schema check.
fn request(call: &ToolCall, ask: &RequestContext<'_>) -> ClientRequest {
    let arguments = call.arguments.as_object().cloned().unwrap_or_default();
    let mut params = CallToolRequestParams::new(call.name.clone()).with_arguments(arguments);
    let meta = JsonObject::from_iter([(IDEMPOTENCY_KEY.to_owned(), ask.key.into())]);
    params.meta = Some(RequestMetaObject::from(meta));
    if let Some(supplies) = &ask.due.input_responses {
        let (answers, state) = elicitation::responses(supplies);
        (params.input_responses, params.request_state) = (Some(answers), state);
    }
    ClientRequest::CallToolRequest(CallToolRequest::new(params))
}

pub(super) fn error(message: String) -> Response {
    Response::Output(ToolOutput::Error(message))
}
