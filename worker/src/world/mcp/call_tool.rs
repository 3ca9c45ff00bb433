//! Calls of one tool: sent at most once, whatever happens to the connection.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, JsonObject, RequestMetaObject, ServerResult,
};
use shared::{DynThread, Fault, FaultKind, Response, ToolCall, ToolOutput};

use super::{
    ATTEMPTS, IDEMPOTENCY_KEY, Servers, convert, elicitation,
    failure::{self, Failure},
    resources::read_request,
    sessions::InUse,
    tool_filter,
};
use crate::world::{Outcome, RequestContext};

impl Servers {
    /// Calls a tool of a server.
    ///
    /// **Invariant:** a call that may have reached the server is never sent twice.
    pub(in crate::world) async fn call(
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
        let session = pool.sessions.get(name, ask.thread, &pool.server, timeout).await?;
        let slot = session.as_ref().map_or(&pool.connection, InUse::connection);
        let request = match self.reads_resource(name, call).await? {
            true => read_request(call, ask),
            false => request(call, ask),
        };
        let _permits = pool.concurrency.acquire(&call.name).await;
        let mut cause = ("it closed the connection".to_owned(), None);
        for _ in 0..ATTEMPTS {
            let connection = pool.connected_at(slot, name).await?;
            if let Err(failure) = self.admit(name, pool, &connection).await {
                pool.drop_if_lost(slot, &connection, &failure).await;
                match failure {
                    // Only the list of tools was requested: whatever happened to it, no call was sent.
                    Failure::Unsent(reason) => cause = (reason, None),
                    Failure::Lost { why: reason, retry_after_ms } => cause = (reason, retry_after_ms),
                    Failure::Refused(_) | Failure::Fault(_) | Failure::Silent(_) => {
                        return Err(failure.of_query(name));
                    }
                }
                continue;
            }
            let failure = match connection.request_within(timeout, &pool.server, request.clone()).await {
                Ok(ServerResult::CallToolResult(it)) => {
                    let session = session.as_ref().map(|_| connection.id());
                    return Ok((convert::output(it, session), None));
                }
                Ok(ServerResult::ReadResourceResult(it)) => {
                    let session = session.as_ref().map(|_| connection.id());
                    return Ok((convert::resource(it, session), None));
                }
                Ok(ServerResult::InputRequiredResult(it)) => {
                    return Ok(elicitation::input_required(&call.name, it)
                        .map_or_else(error, |response| (response, None)));
                }
                Ok(other) => return Ok(error(convert::not_a_result(&call.name, &other))),
                Err(failure) => failure,
            };
            pool.drop_if_lost(slot, &connection, &failure).await;
            match failure {
                Failure::Unsent(reason) => cause = (reason, None),
                Failure::Refused(message) => return Ok(error(message)),
                Failure::Fault(fault) => return Err(fault),
                Failure::Lost { why, retry_after_ms } => {
                    let error =
                        format!("the connection to MCP server {name} was lost during {}: {why}", call.name);
                    return Err(Fault::new(error, FaultKind::InDoubt { retry_after_ms }));
                }
                Failure::Silent(time) => {
                    return Err(Fault::in_doubt(format!(
                        "MCP server {name} did not answer {} within {time:?}",
                        call.name
                    )));
                }
            }
        }
        Err(failure::unreachable(name, &cause.0, cause.1))
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

fn error(message: String) -> (Response, Option<shared::Usage>) {
    (Response::Output(ToolOutput::Error(message)), None)
}
