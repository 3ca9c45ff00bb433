//! A call of one tool: sent at most once, whatever becomes of the connection.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, JsonObject, RequestMetaObject, ServerResult,
};
use shared::{Fault, Remedy, Replay, Response, ToolCall, ToolOutput};

use super::{
    ATTEMPTS, IDEMPOTENCY_KEY, Servers,
    failure::{self, Failure},
    said,
    sessions::InUse,
    sight, wants,
};
use crate::world::{Ask, Outcome};

impl Servers {
    /// Has a server do something.
    ///
    /// **Invariant:** a call that may have reached the server is never sent twice.
    pub(in crate::world) async fn call(
        &self,
        name: &str,
        call: &ToolCall,
        thread: &dyn Replay,
        ask: &Ask<'_>,
    ) -> Outcome {
        let pool = self.pool(name)?;
        if !self.offers(thread, ask.node, name, &call.name) {
            return Ok((sight::forbidden(name, call), None));
        }
        let timeout = pool.server.timeout(&call.name);
        let session = pool.sessions.of(name, ask.thread, &pool.server, timeout).await?;
        let at = session.as_ref().map_or(&pool.connection, InUse::connection);
        let request = request(call, ask);
        let _places = pool.places.take(&call.name).await;
        let mut why = ("it closed the connection".to_owned(), None);
        for _ in 0..ATTEMPTS {
            let connection = pool.connected_at(at, name).await?;
            if let Err(failure) = self.admit(name, pool, &connection).await {
                pool.drop_if_lost(at, &connection, &failure).await;
                match failure {
                    // Only the list was asked for: whatever became of that, no call was sent.
                    Failure::Unsent(reason) => why = (reason, None),
                    Failure::Lost { why: reason, after_ms } => why = (reason, after_ms),
                    Failure::Refused(_) | Failure::Fault(_) | Failure::Silent(_) => {
                        return Err(failure.of_a_question(name));
                    }
                }
                continue;
            }
            let failure = match connection.ask_within(timeout, &pool.server, request.clone()).await {
                Ok(ServerResult::CallToolResult(it)) => {
                    let session = session.as_ref().map(|_| connection.id());
                    return Ok((said::output(it, session), None));
                }
                Ok(ServerResult::InputRequiredResult(it)) => {
                    return Ok(wants::wants(&call.name, it).map_or_else(error, |wants| (wants, None)));
                }
                Ok(other) => return Ok(error(said::no_result(&call.name, &other))),
                Err(failure) => failure,
            };
            pool.drop_if_lost(at, &connection, &failure).await;
            match failure {
                Failure::Unsent(reason) => why = (reason, None),
                Failure::Refused(words) => return Ok(error(words)),
                Failure::Fault(fault) => return Err(fault),
                Failure::Lost { why, after_ms } => {
                    let error = format!("MCP server {name} was lost during {}: {why}", call.name);
                    return Err(Fault::new(error, Remedy::Doubt { after_ms }));
                }
                Failure::Silent(time) => {
                    return Err(Fault::doubt(format!(
                        "MCP server {name} gave no answer to {} in {time:?}",
                        call.name
                    )));
                }
            }
        }
        Err(failure::unreachable(name, &why.0, why.1))
    }
}

/// Arguments that are no object never come here: they do not fit.
fn request(call: &ToolCall, ask: &Ask<'_>) -> ClientRequest {
    let arguments = call.arguments.as_object().cloned().unwrap_or_default();
    let mut params = CallToolRequestParams::new(call.name.clone()).with_arguments(arguments);
    let meta = JsonObject::from_iter([(IDEMPOTENCY_KEY.to_owned(), ask.key.into())]);
    params.meta = Some(RequestMetaObject::from(meta));
    if let Some(supplies) = &ask.due.supplies {
        let (answers, state) = wants::told(supplies);
        (params.input_responses, params.request_state) = (Some(answers), state);
    }
    ClientRequest::CallToolRequest(CallToolRequest::new(params))
}

fn error(words: String) -> (Response, Option<shared::Meter>) {
    (Response::Output(ToolOutput::Error(words)), None)
}
