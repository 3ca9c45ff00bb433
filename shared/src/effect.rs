//! Effects: typed requests of a node, and the types of their answers.

use std::{collections::BTreeMap, marker::PhantomData, ops::Range};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    client_tools::{ToolChoice, ToolUse},
    message::{Message, Prompt, Reply, ToolCall, ToolOutput},
    node_config::NodeConfig,
    reply_options::ReplyOptions,
    request::{Description, Hit, Request, Response, SearchOptions, Simulation, WebSearch},
    strategy::TurnSoFar,
    system_prompt::SystemPrompt,
};

/// A typed request to the outside world. Nodes declare effects, workers carry them out.
pub trait Effect {
    /// Type of the answer.
    type Answer;
    /// True if at least one of the requests may be to a model.
    const ASKS_MODEL: bool = false;
    /// Converts the effect to requests, one for each slot. `node` is the configuration of the asking node.
    fn requests(self, node: &NodeConfig) -> Vec<Request>;
    /// Reads the answer from the responses, one for each slot.
    ///
    /// An effect that accepts [`Response::Unavailable`] is optional: after the last failed attempt its request is
    /// abandoned and the node continues. Otherwise the node fails.
    fn answer(responses: &[Response]) -> Result<Self::Answer, UnexpectedResponse>;
    /// Returns the JSON Schema that the reply of a model must match.
    fn schema() -> Option<Value> {
        None
    }
}

/// Error of a response that does not fit its request.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum UnexpectedResponse {
    /// Response of another kind than the request.
    #[error("expected {expected}")]
    Kind {
        /// Kind of response that was expected.
        expected: &'static str,
    },
    /// Reply that does not match its JSON Schema.
    #[error("the reply does not fit its schema: {0}")]
    Schema(String),
}

/// No request. The node decides from the state alone.
impl Effect for () {
    type Answer = ();
    fn requests(self, _: &NodeConfig) -> Vec<Request> {
        Vec::new()
    }
    fn answer(_: &[Response]) -> Result<(), UnexpectedResponse> {
        Ok(())
    }
}

/// Several requests at once, one slot each, carried out concurrently.
impl<E: Effect> Effect for Vec<E> {
    type Answer = Vec<E::Answer>;
    const ASKS_MODEL: bool = E::ASKS_MODEL;
    fn requests(self, node: &NodeConfig) -> Vec<Request> {
        self.into_iter().flat_map(|effect| effect.requests(node)).collect()
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, UnexpectedResponse> {
        responses.chunks(1).map(E::answer).collect()
    }
    fn schema() -> Option<Value> {
        E::schema()
    }
}

/// Request for the next message of a model.
pub struct Chat {
    model: String,
    system: SystemPrompt,
    context: Range<usize>,
    tool_servers: Vec<String>,
    tools: Vec<String>,
    web_search: WebSearch,
    response_schema: Option<String>,
    tool_use: Option<Box<ToolUse>>,
}

impl Chat {
    /// Requests a message from `model`, with the system prompt `system` and the messages in `context`.
    pub fn new(model: &str, system: impl Into<SystemPrompt>, context: Range<usize>) -> Self {
        Self {
            model: model.to_owned(),
            system: system.into(),
            context,
            tool_servers: Vec::new(),
            tools: Vec::new(),
            web_search: WebSearch::Off,
            response_schema: None,
            tool_use: None,
        }
    }

    /// Asks for the reply in the form that the client of `turn` asks for, if it asks for one. For nodes that write the answer of
    /// a turn.
    ///
    /// A reply that does not fit is asked for again; the node receives the text of one JSON object. With tools, the model may
    /// call them first.
    pub fn as_client_asks(self, turn: &TurnSoFar) -> Self {
        Self { response_schema: turn.reply_options.response_format.name().map(str::to_owned), ..self }
    }

    /// Offers the tools of `server`: by their own names if it is the only server, otherwise as `server__tool`.
    pub fn server_tools(mut self, server: &str) -> Self {
        self.tool_servers.push(server.to_owned());
        self
    }

    /// Offers the node's own tool `name` (see [`Node::tools`](crate::Node::tools)).
    pub fn tool(mut self, name: &str) -> Self {
        self.tools.push(name.to_owned());
        self
    }

    /// Offers the tools of the client of `turn`. With `is_demanded`, the model uses tools as the client demands.
    ///
    /// A node that offers them ends the turn when one is called. The client sends the results with its next turn.
    pub fn client_tools(mut self, turn: &TurnSoFar, is_demanded: bool) -> Self {
        let ReplyOptions { tools, tool_choice, parallel_tool_calls, response_format: _ } =
            &*turn.reply_options;
        self.tools.extend(tools.iter().map(|tool| tool.function().name.clone()));
        let tool_choice = if is_demanded { tool_choice.clone() } else { ToolChoice::Auto };
        let tool_use = ToolUse { tool_choice, parallel_tool_calls: *parallel_tool_calls };
        let has_any = !self.tools.is_empty() || !self.tool_servers.is_empty();
        self.tool_use = (has_any && tool_use != ToolUse::default()).then(|| Box::new(tool_use));
        self
    }

    /// Lets the model's provider search the web.
    pub fn searching_the_web(self) -> Self {
        Self { web_search: WebSearch::On, ..self }
    }

    fn request(self, node: &NodeConfig) -> Vec<Request> {
        let Chat { model, system, context, tool_servers, tools, web_search, response_schema, tool_use } =
            self;
        let (model, system, prompt) = node.apply(model, system);
        let parameters = node.parameters();
        vec![Request::Chat {
            model,
            system,
            context,
            summarised: false,
            tool_result_tokens: None,
            attachments_max: None,
            tool_servers,
            tools,
            response_schema,
            web_search,
            prompt,
            offered: None,
            parameters,
            tool_use,
        }]
    }
}

impl Effect for Chat {
    type Answer = Reply;
    const ASKS_MODEL: bool = true;
    fn requests(self, node: &NodeConfig) -> Vec<Request> {
        self.request(node)
    }
    fn answer(responses: &[Response]) -> Result<Reply, UnexpectedResponse> {
        match responses {
            [Response::Reply(reply)] => Ok(reply.clone()),
            _ => Err(UnexpectedResponse::Kind { expected: "a reply" }),
        }
    }
}

/// Request for a reply of a model as a `T`.
pub struct Extract<T> {
    chat: Chat,
    shape: PhantomData<fn() -> T>,
}

impl<T> Extract<T> {
    /// Requests a `T` from `model`, with the system prompt `system` and the messages in `context`.
    pub fn new(model: &str, system: impl Into<SystemPrompt>, context: Range<usize>) -> Self {
        Self { chat: Chat::new(model, system, context), shape: PhantomData }
    }
}

impl<T: JsonSchema + DeserializeOwned> Effect for Extract<T> {
    type Answer = T;
    const ASKS_MODEL: bool = true;
    fn requests(self, node: &NodeConfig) -> Vec<Request> {
        Chat { response_schema: Some(T::schema_name().into_owned()), ..self.chat }.request(node)
    }
    fn answer(responses: &[Response]) -> Result<T, UnexpectedResponse> {
        let reply = Chat::answer(responses)?;
        serde_json::from_str(&reply.content).map_err(|err| {
            let came = responses.first().map(Response::to_string).unwrap_or_default();
            UnexpectedResponse::Schema(format!("{err}; what came: {came}"))
        })
    }
    fn schema() -> Option<Value> {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        });
        Some(settings.into_generator().into_root_schema_for::<T>().to_value())
    }
}

/// Request that is made only if it is needed. The answer is `None` if none was made, and if the model is unavailable.
impl<T: JsonSchema + DeserializeOwned> Effect for Option<Extract<T>> {
    type Answer = Option<T>;
    const ASKS_MODEL: bool = true;
    fn requests(self, node: &NodeConfig) -> Vec<Request> {
        self.map_or(Vec::new(), |effect| effect.requests(node))
    }
    fn answer(responses: &[Response]) -> Result<Option<T>, UnexpectedResponse> {
        match responses {
            [] | [Response::Unavailable { .. }] => Ok(None),
            _ => Extract::answer(responses).map(Some),
        }
    }
    fn schema() -> Option<Value> {
        Extract::<T>::schema()
    }
}

/// Request for the tools of an MCP server. The thread keeps them; the answer is an error if the server is unavailable.
pub struct ListTools {
    /// Name of the server.
    pub server: String,
}

impl Effect for ListTools {
    type Answer = Result<(), String>;
    fn requests(self, _: &NodeConfig) -> Vec<Request> {
        vec![Request::ListTools { server: self.server }]
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, UnexpectedResponse> {
        match responses {
            [Response::Tools { .. } | Response::ToolsUnchanged] => Ok(Ok(())),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(UnexpectedResponse::Kind { expected: "a list of tools" }),
        }
    }
}

/// Refusal of a call whose tool was changed by its server after a person approved the call.
pub const TOOL_CHANGED: &str = "as its server has changed this tool since the call was approved";

/// Call of a tool of an MCP server.
pub struct CallTool {
    /// Name of the server.
    pub server: String,
    /// Tool and arguments.
    pub call: ToolCall,
}

impl Effect for CallTool {
    type Answer = ToolOutput;
    fn requests(self, _: &NodeConfig) -> Vec<Request> {
        vec![Request::CallTool { server: self.server, call: self.call }]
    }
    fn answer(responses: &[Response]) -> Result<ToolOutput, UnexpectedResponse> {
        match responses {
            [Response::Output(output)] => Ok(output.clone()),
            // The server was asked for its list instead, and the tool is not the one that was shown.
            [Response::Tools { .. }] => Ok(ToolOutput::Refused(TOOL_CHANGED.to_owned())),
            [Response::Unavailable { reason }] => Ok(ToolOutput::Error(reason.clone())),
            _ => Err(UnexpectedResponse::Kind { expected: "a tool's output" }),
        }
    }
}

/// Request for the prompts of an MCP server. The answer is an error if the server is unavailable.
pub struct ListPrompts {
    /// Name of the server.
    pub server: String,
}

impl Effect for ListPrompts {
    type Answer = Result<Vec<Prompt>, String>;
    fn requests(self, _: &NodeConfig) -> Vec<Request> {
        vec![Request::ListPrompts { server: self.server }]
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, UnexpectedResponse> {
        match responses {
            [Response::Prompts { prompts }] => Ok(Ok(prompts.clone())),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(UnexpectedResponse::Kind { expected: "a list of prompts" }),
        }
    }
}

/// Request for a filled-in prompt of an MCP server. The answer is an error if the server is unavailable.
pub struct GetPrompt {
    /// Name of the server.
    pub server: String,
    /// Name of the prompt.
    pub name: String,
    /// Arguments by name.
    pub arguments: BTreeMap<String, String>,
}

impl Effect for GetPrompt {
    type Answer = Result<Vec<Message>, String>;
    fn requests(self, _: &NodeConfig) -> Vec<Request> {
        let GetPrompt { server, name, arguments } = self;
        vec![Request::GetPrompt { server, name, arguments }]
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, UnexpectedResponse> {
        match responses {
            [Response::Prompt { messages }] => Ok(Ok(messages.clone())),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(UnexpectedResponse::Kind { expected: "a prompt" }),
        }
    }
}

/// Request for a searchable description of an MCP server.
pub struct Describe {
    /// Name of the server.
    pub server: String,
}

impl Effect for Describe {
    type Answer = Result<Description, String>;
    fn requests(self, _: &NodeConfig) -> Vec<Request> {
        vec![Request::Describe { server: self.server }]
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, UnexpectedResponse> {
        match responses {
            [Response::Described(description)] => Ok(Ok(description.clone())),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(UnexpectedResponse::Kind { expected: "a description" }),
        }
    }
}

/// Search for the servers that match a text.
pub struct Search {
    /// Text to search for.
    pub query: String,
    /// Maximum number of results.
    pub limit: usize,
    /// Metric, filter and minimum score.
    pub options: SearchOptions,
}

impl Effect for Search {
    type Answer = Result<Vec<Hit>, String>;
    fn requests(self, _: &NodeConfig) -> Vec<Request> {
        vec![Request::Search { query: self.query, limit: self.limit, options: self.options }]
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, UnexpectedResponse> {
        match responses {
            [Response::SearchResults { hits, .. }] => Ok(Ok(hits.clone())),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(UnexpectedResponse::Kind { expected: "search results" }),
        }
    }
}

/// Update of the search index.
pub struct Index {
    /// Description of each server. `None` leaves an entry unchanged; servers not listed are removed.
    pub servers: BTreeMap<String, Option<Description>>,
    /// Hashes of the descriptions that the index should hold of servers with `None`.
    pub held: BTreeMap<String, String>,
}

/// Result of an index update.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Servers that were added or changed.
    pub written: Vec<String>,
    /// Servers that were left unchanged.
    pub unchanged: Vec<String>,
    /// Servers that were removed.
    pub removed: Vec<String>,
}

impl Effect for Index {
    type Answer = Indexed;
    fn requests(self, _: &NodeConfig) -> Vec<Request> {
        vec![Request::Index { servers: self.servers, held: self.held }]
    }
    fn answer(responses: &[Response]) -> Result<Indexed, UnexpectedResponse> {
        match responses {
            [Response::Indexed { written, unchanged, removed }] => Ok(Indexed {
                written: written.clone(),
                unchanged: unchanged.clone(),
                removed: removed.clone(),
            }),
            _ => Err(UnexpectedResponse::Kind { expected: "the result of an index update" }),
        }
    }
}

/// Simulated work, without a model or a tool.
pub struct Simulate(pub Simulation);

impl Effect for Simulate {
    type Answer = String;
    fn requests(self, _: &NodeConfig) -> Vec<Request> {
        vec![Request::Simulate(self.0)]
    }
    fn answer(responses: &[Response]) -> Result<String, UnexpectedResponse> {
        match responses {
            [Response::Echo { text }] => Ok(text.clone()),
            _ => Err(UnexpectedResponse::Kind { expected: "an echo" }),
        }
    }
}
