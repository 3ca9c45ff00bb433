//! Queries of an MCP server: its prompts, and a description of everything it offers.

use std::collections::BTreeMap;

use futures::{FutureExt as _, future::BoxFuture};
use rmcp::model::{ClientRequest, GetPromptRequest, GetPromptRequestParams, JsonObject, ServerResult};
use shared::{Fault, Prompt, Response, Tool};

use super::{
    ATTEMPTS, Server, Servers, connection::Connection, convert, elicitation, failure::Failure,
    resources::Resource,
};
use crate::{
    description::description,
    world::{Outcome, RequestContext},
};

impl Servers {
    /// Lists a server's prompts in its own order.
    pub(crate) async fn prompts(&self, name: &str) -> Outcome {
        let queried = self.query(name, |connection, server| connection.prompts(server).boxed()).await;
        let prompts = queried.map_err(|failure| failure.of_prompt_query(name))?;
        Ok((Response::Prompts { prompts }, None))
    }

    /// Reads one of a server's prompts, filled with arguments.
    pub(crate) async fn prompt(
        &self,
        name: &str,
        prompt: &str,
        arguments: &BTreeMap<String, String>,
        ask: &RequestContext<'_>,
    ) -> Outcome {
        let arguments: JsonObject =
            arguments.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
        let mut params = GetPromptRequestParams::new(prompt).with_arguments(arguments);
        if let Some(supplies) = &ask.due.input_responses {
            let (answers, state) = elicitation::responses(supplies);
            (params.input_responses, params.request_state) = (Some(answers), state);
        }
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        let queried =
            self.query(name, |connection, server| connection.request(server, request.clone()).boxed()).await;
        let response = match queried {
            Ok(ServerResult::GetPromptResult(result)) => {
                Ok(Response::Prompt { messages: convert::messages(result) })
            }
            Ok(ServerResult::InputRequiredResult(required)) => {
                elicitation::input_required(prompt, required).map_err(Failure::Refused)
            }
            Ok(_) => Err(Failure::Refused(convert::not_a_result(prompt))),
            Err(failure) => Err(failure),
        };
        Ok((response.map_err(|failure| failure.of_prompt_query(name))?, None))
    }

    /// Describes everything a server offers in one text.
    pub(crate) async fn catalog(&self, name: &str) -> Outcome {
        let queried = self.query(name, |connection, server| read_catalog(connection, server).boxed()).await;
        let Catalog { mut tools, prompts, resources } = queried.map_err(|failure| failure.of_query(name))?;
        let pool = self.pool(name)?;
        if tools.as_ref().is_some_and(Vec::is_empty) {
            tools = Some(self.listed_tools(name).await.map_err(|failure| failure.of_query(name))?);
        }
        if let Some(tools) = &tools {
            self.check(name, pool, tools).await?;
        }
        let tools = tools.into_iter().flatten().map(|tool| (tool.name, tool.description)).collect();
        let prompts = prompts.into_iter().map(|prompt| (prompt.name, prompt.description)).collect();
        let resources = resources.into_iter().map(|resource| (resource.name, resource.description)).collect();
        let kinds = [("Tools", tools), ("Prompts", prompts), ("Resources", resources)];
        Ok((Response::Described(description(&pool.server.description, kinds)), None))
    }

    /// Sends a query without side effects, and once more on a new connection if the old one turns out to be closed.
    pub(super) async fn query<T>(
        &self,
        name: &str,
        ask: impl for<'a> Fn(&'a Connection, &'a Server) -> BoxFuture<'a, Result<T, Failure>> + Send + Sync,
    ) -> Result<T, Failure> {
        let pool = self.pool(name).map_err(Failure::Fault)?;
        let mut last_failure = Failure::Unsent("it closed the connection".to_owned());
        for _ in 0..ATTEMPTS {
            let connection = pool.connected(name).await.map_err(Failure::Fault)?;
            match ask(&connection, &pool.server).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    pool.drop_if_lost(&pool.connection, &connection, &failure).await;
                    last_failure = failure;
                }
            }
            if !last_failure.is_for_new_connection(true) {
                break;
            }
        }
        Err(last_failure)
    }
}

/// Everything a server offers.
struct Catalog {
    /// `None` if the server does not support tools.
    tools: Option<Vec<Tool>>,
    prompts: Vec<Prompt>,
    resources: Vec<Resource>,
}

async fn read_catalog(connection: &Connection, server: &Server) -> Result<Catalog, Failure> {
    let tools = match connection.tools(server).await {
        Ok(tools) => Some(tools),
        // A server with prompts only may not support tools.
        Err(Failure::Refused(_) | Failure::Unclear(_)) if !connection.offers_tools() => None,
        Err(failure) => return Err(failure),
    };
    let (prompts, resources) = (connection.prompts(server).await?, connection.resources(server).await?);
    Ok(Catalog { tools, prompts, resources })
}

impl Failure {
    /// Maps the failure of a prompt query: a rejected query would be rejected again.
    fn of_prompt_query(self, name: &str) -> Fault {
        let failure = self.without_status(name);
        if let Failure::Refused(message) | Failure::Unclear(message) = failure {
            return Fault::permanent(format!("MCP server {name} rejected the request: {message}"));
        }
        failure.of_query(name)
    }
}
