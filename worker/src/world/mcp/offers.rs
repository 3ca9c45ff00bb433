//! What an MCP server offers besides calls: its prompts, and all of it in one text.

use std::collections::BTreeMap;

use futures::{FutureExt as _, future::BoxFuture};
use rmcp::model::{ClientRequest, GetPromptRequest, GetPromptRequestParams, JsonObject, ServerResult};
use shared::{Fault, Prompt, Response, Tool};

use super::{ATTEMPTS, Server, Servers, connection::Connection, failure::Failure, said, wants};
use crate::world::{Ask, Outcome, description::description};

impl Servers {
    /// What prompts a server offers, in its own order.
    pub(in crate::world) async fn prompts(&self, name: &str) -> Outcome {
        let asked = self.question(name, |connection, server| connection.prompts(server).boxed()).await;
        let prompts = asked.map_err(|failure| failure.of_a_prompt(name))?;
        Ok((Response::Prompts { prompts }, None))
    }

    /// One of a server's prompts, filled in.
    pub(in crate::world) async fn prompt(
        &self,
        name: &str,
        prompt: &str,
        arguments: &BTreeMap<String, String>,
        ask: &Ask<'_>,
    ) -> Outcome {
        let arguments: JsonObject =
            arguments.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
        let mut params = GetPromptRequestParams::new(prompt).with_arguments(arguments);
        if let Some(supplies) = &ask.due.supplies {
            let (answers, state) = wants::told(supplies);
            (params.input_responses, params.request_state) = (Some(answers), state);
        }
        let request = ClientRequest::GetPromptRequest(GetPromptRequest::new(params));
        let asked =
            self.question(name, |connection, server| connection.ask(server, request.clone()).boxed()).await;
        let response = match asked {
            Ok(ServerResult::GetPromptResult(it)) => Ok(Response::Prompt { messages: said::messages(it) }),
            Ok(ServerResult::InputRequiredResult(it)) => wants::wants(prompt, it).map_err(Failure::Refused),
            Ok(other) => Err(Failure::Refused(said::no_result(prompt, &other))),
            Err(failure) => Err(failure),
        };
        Ok((response.map_err(|failure| failure.of_a_prompt(name))?, None))
    }

    /// All that a server offers, in one text.
    pub(in crate::world) async fn offer(&self, name: &str) -> Outcome {
        let asked = self.question(name, |connection, server| offered(connection, server).boxed()).await;
        let Offered { tools, prompts, resources } = asked.map_err(|failure| failure.of_a_question(name))?;
        let pool = self.pool(name)?;
        if let Some(tools) = &tools {
            self.check(name, pool, tools).await?;
        }
        let tools = tools.into_iter().flatten().map(|it| (it.name, it.description)).collect();
        let prompts = prompts.into_iter().map(|it| (it.name, it.description)).collect();
        let kinds = [("Tools", tools), ("Prompts", prompts), ("Resources", resources)];
        Ok((Response::Described(description(&pool.server.description, kinds)), None))
    }

    /// Asks something that changes nothing, once more on a new connection where the old one turns out to be closed.
    pub(super) async fn question<T>(
        &self,
        name: &str,
        ask: impl for<'a> Fn(&'a Connection, &'a Server) -> BoxFuture<'a, Result<T, Failure>> + Send + Sync,
    ) -> Result<T, Failure> {
        let pool = self.pool(name).map_err(Failure::Fault)?;
        let mut why = Failure::Unsent("it closed the connection".to_owned());
        for _ in 0..ATTEMPTS {
            let connection = pool.connected(name).await.map_err(Failure::Fault)?;
            match ask(&connection, &pool.server).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    pool.drop_if_lost(&pool.connection, &connection, &failure).await;
                    why = failure;
                }
            }
            if !matches!(why, Failure::Unsent(_)) {
                break;
            }
        }
        Err(why)
    }
}

/// What a server offers.
struct Offered {
    /// None, if it does not know what tools are.
    tools: Option<Vec<Tool>>,
    prompts: Vec<Prompt>,
    resources: Vec<(String, String)>,
}

async fn offered(connection: &Connection, server: &Server) -> Result<Offered, Failure> {
    let tools = match connection.tools(server).await {
        Ok(tools) => Some(tools),
        // A server of prompts alone need not know what tools are.
        Err(Failure::Refused(_)) if !connection.offers_tools() => None,
        Err(failure) => return Err(failure),
    };
    let (prompts, resources) = (connection.prompts(server).await?, connection.resources(server).await?);
    Ok(Offered { tools, prompts, resources })
}

impl Failure {
    /// What it means for a request for prompts: what a server refuses, it would refuse again.
    fn of_a_prompt(self, name: &str) -> Fault {
        match self {
            Failure::Refused(words) => Fault::operator(format!("MCP server {name} refuses: {words}")),
            other @ (Failure::Unsent(_) | Failure::Fault(_) | Failure::Lost { .. } | Failure::Silent(_)) => {
                other.of_a_question(name)
            }
        }
    }
}
