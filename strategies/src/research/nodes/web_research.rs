//! Searches all queries concurrently. A query that fails does not affect the others.

use serde_json::{Map, Value, json};
use shared::{
    CallTool, Chat, Citation, Effect, Message, Node, NodeConfig, Request, Response, Thread, ToolCall,
    ToolOutput, Transition, UnexpectedResponse,
};

use crate::{
    prompt::fill,
    research::{
        Ending, Fact, NodeName, Research, WebSearch, offer::no_search, question, sources::Shelf,
        state::Searched,
    },
};

/// Template of the system prompt.
const PROMPT: &str = include_str!("../prompts/search.md");

pub(in crate::research) struct WebResearch;

/// Name of the tool whose results carry the findings to a model.
const WEB_RESEARCH: &str = "web_research";

/// One search request.
pub(in crate::research) enum Look {
    /// Search by an MCP tool.
    Tool(CallTool),
    /// Search by a model with its own web search.
    Model(Chat),
}

/// Output of one search.
#[derive(Clone)]
pub(in crate::research) struct Finding {
    /// Text or JSON of the output.
    output: String,
    /// Pages that the provider cites. Empty if a tool searched.
    citations: Vec<Citation>,
}

/// Findings, or the reason for their absence.
type Found = Result<Finding, String>;

impl Effect for Look {
    type Answer = Found;
    const ASKS_MODEL: bool = true;

    fn requests(self, node: &NodeConfig) -> Vec<Request> {
        match self {
            Look::Tool(call) => call.requests(node),
            Look::Model(chat) => chat.requests(node),
        }
    }

    fn answer(responses: &[Response]) -> Result<Self::Answer, UnexpectedResponse> {
        let found = |output: &str, citations: &[Citation]| {
            Ok(Ok(Finding { output: output.to_owned(), citations: citations.to_vec() }))
        };
        match responses {
            [Response::Output(ToolOutput::Ok(text))] => found(text, &[]),
            [Response::Output(ToolOutput::Error(why) | ToolOutput::Refused(why))] => Ok(Err(why.clone())),
            [Response::Reply(reply)] => found(&reply.content, &reply.citations),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(UnexpectedResponse::Kind { expected: "a search result" }),
        }
    }
}

impl Node<Research> for WebResearch {
    type Effect = Vec<Look>;

    fn ask(&self, thread: &Thread<Research>) -> Self::Effect {
        if no_search(thread).is_some() {
            return Vec::new();
        }
        let one = |(n, query): (usize, &String)| match &thread.config.search {
            Some(search) => Look::Tool(by_tool(thread, search, n, query)),
            None => Look::Model(by_model(thread, query)),
        };
        thread.state.queries.iter().enumerate().map(one).collect()
    }

    /// **Invariant:** findings keep the order of the queries, whichever arrives first, so the tokens are deterministic.
    fn learn(&self, thread: &Thread<Research>, found: Vec<Found>) -> Transition<Research> {
        let state = &thread.state;
        let missing = no_search(thread).unwrap_or_else(|| "it was not searched".to_owned());
        let found = found.into_iter().map(Some).chain(std::iter::repeat(None));
        let mut shelf = Shelf::new(&state.sources);
        let (mut calls, mut results, mut searches) = (Vec::new(), Vec::new(), Vec::new());
        for (n, (query, found)) in state.queries.iter().zip(found).enumerate() {
            let call = ToolCall {
                id: id(thread, n),
                name: WEB_RESEARCH.to_owned(),
                arguments: json!({ "query": query }),
            };
            let (told, problem) = match found.unwrap_or_else(|| Err(missing.clone())) {
                Ok(Finding { output, citations }) if citations.is_empty() => {
                    (shelf.note(&output, thread.config.results), None)
                }
                Ok(Finding { output, citations }) => (shelf.note_cited(&output, &citations), None),
                Err(why) => (format!("error: {why}"), Some(why)),
            };
            let told = if told.is_empty() { "nothing was found".to_owned() } else { told };
            results.push(Message::tool(&call, told));
            searches.push(Searched { query: query.clone(), problem });
            calls.push(call);
        }
        let ended = over(thread, &searches);
        let sources = shelf.into_sources().split_off(state.sources.len());
        let searched = Fact::Searched { searches, sources };
        let next = match ended {
            None => Transition::to(NodeName::Reflect).learn(searched),
            Some(Over { ending, cause, why }) => {
                let next =
                    Transition::to(NodeName::FinalizeAnswer).learn(searched).learn(Fact::Ended(ending));
                cause.into_iter().fold(next.because(why), Transition::partial)
            }
        };
        let asked = Message { tool_calls: calls, ..Message::assistant("") };
        results.into_iter().fold(next.say(asked), Transition::say)
    }

    fn prompt(&self) -> Option<&'static str> {
        Some(PROMPT)
    }

    fn model_key(&self) -> &'static str {
        "search_model"
    }
}

/// End of the research without a reflection.
struct Over {
    ending: Ending,
    /// Cause of a partial outcome.
    cause: Option<&'static str>,
    why: String,
}

/// Returns the end without a reflection, if there are no findings or no model call or loop is left.
fn over(thread: &Thread<Research>, searches: &[Searched]) -> Option<Over> {
    let partial = |cause, why: String| {
        Some(Over { ending: Ending::Partial { reason: why.clone() }, cause: Some(cause), why })
    };
    if searches.iter().all(|search| search.problem.is_some()) {
        let first = searches.iter().find_map(|search| search.problem.as_deref()).unwrap_or("there was none");
        return partial("every search failed", format!("every search failed: {first}"));
    }
    if let Some(limit) = question::spent(thread) {
        return partial("model_calls", limit);
    }
    let loops = thread.config.loops();
    let why = format!("the limit of {loops} loops is reached");
    (loops <= thread.state.loops).then_some(Over { ending: Ending::Done, cause: None, why })
}

fn by_tool(thread: &Thread<Research>, search: &WebSearch, n: usize, query: &str) -> CallTool {
    let mut arguments = Map::new();
    arguments.insert(search.argument.clone(), query.into());
    if let Some(limit) = &search.limit_argument {
        arguments.insert(limit.clone(), thread.config.results.into());
    }
    let call = ToolCall { id: id(thread, n), name: search.tool.clone(), arguments: Value::Object(arguments) };
    CallTool { server: search.server.clone(), call }
}

/// The request includes the question, because endpoints require a user message.
fn by_model(thread: &Thread<Research>, query: &str) -> Chat {
    let blanks = [("query", query), ("time", &thread.turn.time)];
    let system = fill(PROMPT, &blanks);
    Chat::new(&thread.config.search_model, system, thread.state.question.clone()).searching_the_web()
}

/// Returns an id for the search that is unique in the thread.
fn id(thread: &Thread<Research>, n: usize) -> String {
    format!("{WEB_RESEARCH}-{}-{n}", thread.messages.len())
}
