//! Route that shows what models were sent.

use std::collections::BTreeMap;

use api_types::{Message, Problem, PromptName, SentPrompt, SentPrompts, SentTool};
use axum::{Json, extract::State};
use shared::{Asked, DynThread, Event, Graph, Next, Request, is_template_hash, template_hash};
use store::ThreadId;
use uuid::Uuid;

use super::routes::AtParams;
use crate::{
    logs::{
        folded::{Folded, invalid_log},
        folded_log::{graph_of, up_to},
        lookup::find_thread,
    },
    server::{
        extract::{Path, Query},
        principal::Principal,
        problem::{ApiError, Kind},
        state::{AppState, SharedState},
    },
};

/// Events that are read at once, from the last one backwards.
const READ_AT_ONCE: u64 = 200;

/// Origin of a prompt that is part of the strategy.
const BUILT_IN: &str = "built-in";

/// Show what a model was sent
///
/// Returns the last requests to models up to an event: system prompt, messages, tools and the schema of the reply, as their models
/// received them, and the name of the prompt.
#[utoipa::path(
    get, path = "/v1/threads/{id}/prompt", tag = "threads", operation_id = "get_thread_prompt",
    params(("id" = Uuid, Path, description = "Id of the thread."), AtParams),
    responses(
        (status = 200, description = "The requests.", body = SentPrompts),
        (status = 404, description = "The thread does not exist.", body = Problem, content_type = "application/problem+json"),
        (status = 422, description = "The event does not exist yet, or no model was asked up to it.", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn prompt(
    State(app): SharedState,
    principal: Principal,
    Path(id): Path<Uuid>,
    Query(AtParams { at }): Query<AtParams>,
) -> Result<Json<SentPrompts>, ApiError> {
    find_thread(&app, &principal, id).await?;
    let at = up_to(&app, id, at).await?;
    let Some((seq, asked)) = last_asked(&app, id, at).await? else {
        let what = format!("no model was asked up to event {at}");
        return Err(Kind::Invalid.because(what).hint("leave out `at`, or name a later event"));
    };
    let folded = Folded::load(&app, id, Some(seq)).await?;
    let errors = previous_errors(&app, id, seq, at).await?;
    let graph = graph_of(&app, id).await?;
    let of = Node { graph, thread: &*folded.thread, name: &asked.node };
    let requests = asked.requests.iter().enumerate();
    let requests = requests.filter_map(|(slot, request)| of.sent(slot, request, errors.get(&slot))).collect();
    Ok(Json(SentPrompts { seq, node: asked.node.clone(), requests }))
}

/// Returns the last requests to models up to an event, with the number of the event that records them.
async fn last_asked(app: &AppState, id: ThreadId, at: u64) -> Result<Option<(u64, Asked)>, ApiError> {
    let mut end = at.saturating_add(1);
    while 0 < end {
        let from = end.saturating_sub(READ_AT_ONCE);
        let rows = app.backends.store.events(id, from.checked_sub(1), end - from).await?;
        for row in rows.into_iter().rev() {
            if let Event::Asked(asked) = row.event
                && asked.requests.iter().any(|request| matches!(request, Request::Chat { .. }))
            {
                return Ok(Some((row.seq, asked)));
            }
        }
        end = from;
    }
    Ok(None)
}

/// Returns the errors that the models are to correct after event `at`, by slot.
async fn previous_errors(
    app: &AppState,
    id: ThreadId,
    asked: u64,
    at: u64,
) -> Result<BTreeMap<usize, String>, ApiError> {
    if asked == at {
        return Ok(BTreeMap::new());
    }
    let folded = Folded::load(app, id, Some(at)).await?;
    let Next::Perform(due) = folded.thread.next().map_err(|error| invalid_log(&error))? else {
        return Ok(BTreeMap::new());
    };
    let of_these = due.into_iter().filter(|due| due.asked_seq as u64 == asked);
    Ok(of_these.filter_map(|due| Some((due.slot, due.previous_error?))).collect())
}

/// The node that asked, and the thread as it was then.
struct Node<'a> {
    graph: &'static dyn Graph,
    thread: &'a dyn DynThread,
    name: &'a str,
}

impl Node<'_> {
    fn sent(&self, slot: usize, request: &Request, error: Option<&String>) -> Option<SentPrompt> {
        let Request::Chat {
            model,
            system,
            context,
            summarised,
            tool_servers,
            tools,
            response_schema,
            prompt,
            parameters,
            tool_use,
            ..
        } = request
        else {
            return None;
        };
        let messages = self.thread.messages_of(request);
        let json = |value: serde_json::Result<serde_json::Value>| value.ok().filter(|value| !value.is_null());
        Some(SentPrompt {
            slot,
            model: model.clone(),
            prompt: self.prompt_name(prompt.as_ref()),
            system: system.clone(),
            first_message: context.start,
            earlier: if *summarised { messages.len().saturating_sub(context.len()) } else { 0 },
            messages: messages.iter().map(Message::from).collect(),
            tools: self.tools(tools, tool_servers),
            schema: response_schema.as_ref().and_then(|_| self.thread.schema()),
            schema_name: response_schema.clone(),
            parameters: json(serde_json::to_value(parameters)),
            tool_use: json(serde_json::to_value(tool_use)),
            previous_error: error.cloned(),
        })
    }

    fn prompt_name(&self, recorded: Option<&String>) -> PromptName {
        let template = || self.graph.nodes().into_iter().find(|node| node.name == self.name)?.prompt;
        let (origin, hash) = match (recorded, template()) {
            (Some(name), _) if is_template_hash(name) => (BUILT_IN, Some(name.clone())),
            (Some(name), _) => ("configured", Some(name.clone())),
            (None, Some(text)) => (BUILT_IN, Some(template_hash(text))),
            (None, None) => ("made by the node", None),
        };
        PromptName { origin: origin.to_owned(), hash }
    }

    fn tools(&self, own: &[String], servers: &[String]) -> Vec<SentTool> {
        let known = self.thread.tools();
        let own = own.iter().filter_map(|name| known.iter().find(|tool| tool.name == *name));
        let own = own.map(|tool| SentTool {
            name: tool.name.clone(),
            server: None,
            description: tool.description.clone(),
            parameters: tool.parameters.clone(),
        });
        let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
        let offered = self.thread.offered_tools(&servers);
        let offered = offered.into_iter().map(|offered| SentTool {
            name: offered.name,
            server: Some(offered.server.to_owned()),
            description: offered.tool.description.clone(),
            parameters: offered.tool.parameters.clone(),
        });
        own.chain(offered).collect()
    }
}
