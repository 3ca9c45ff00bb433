//! What a node may want of the world, and the type each wish comes back as.

use std::{collections::BTreeMap, marker::PhantomData, ops::Range};

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    message::{Message, Prompt, Reply, ToolCall, ToolOutput},
    request::{Description, Hit, Rehearsal, Request, Response, Searching},
};

/// A wish with a typed answer. Declared by a node, carried out by a worker.
pub trait Effect {
    /// What the world gives back.
    type Answer;
    /// The wish as data, one request a slot.
    fn requests(self) -> Vec<Request>;
    /// The answer, read from one response a slot.
    ///
    /// An effect that reads [`Response::Unavailable`] can do without an answer: when its request has faltered too
    /// often it is given up, and the node goes on. One that does not makes its node fail.
    fn answer(responses: &[Response]) -> Result<Self::Answer, Refused>;
    /// The JSON Schema that a model's words must fit.
    fn schema() -> Option<Value> {
        None
    }
}

/// The world answered, but not with what was asked for.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// The response is of another kind than the request.
    #[error("expected {expected}")]
    Kind {
        /// What was asked for.
        expected: &'static str,
    },
    /// The model's words do not fit the schema.
    #[error("the reply does not fit its schema: {0}")]
    Shape(String),
}

/// A wish for nothing: the node only thinks.
impl Effect for () {
    type Answer = ();
    fn requests(self) -> Vec<Request> {
        Vec::new()
    }
    fn answer(_: &[Response]) -> Result<(), Refused> {
        Ok(())
    }
}

/// Several wishes at once, one slot each; the worker carries them out side by side.
impl<E: Effect> Effect for Vec<E> {
    type Answer = Vec<E::Answer>;
    fn requests(self) -> Vec<Request> {
        self.into_iter().flat_map(E::requests).collect()
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, Refused> {
        responses.chunks(1).map(E::answer).collect()
    }
}

/// A model's next message, perhaps with tool calls.
pub struct Chat {
    model: String,
    system: String,
    hears: Range<usize>,
    toolboxes: Vec<String>,
    tools: Vec<String>,
    searching: Searching,
}

impl Chat {
    /// Asks `model`, told `system` and hearing the messages `hears`.
    pub fn new(model: &str, system: impl Into<String>, hears: Range<usize>) -> Self {
        Self {
            model: model.to_owned(),
            system: system.into(),
            hears,
            toolboxes: Vec::new(),
            tools: Vec::new(),
            searching: Searching::No,
        }
    }

    /// It may call the tools of `server`: by their own names if this is the only one, else as `server__tool`.
    pub fn toolbox(mut self, server: &str) -> Self {
        self.toolboxes.push(server.to_owned());
        self
    }

    /// It may call the node's own tool `name` (see [`Node::tools`](crate::Node::tools)).
    pub fn tool(mut self, name: &str) -> Self {
        self.tools.push(name.to_owned());
        self
    }

    /// It searches the web by itself.
    pub fn searching_the_web(self) -> Self {
        Self { searching: Searching::Web, ..self }
    }

    fn shaped(self, shape: Option<String>) -> Vec<Request> {
        let Chat { model, system, hears, toolboxes, tools, searching } = self;
        vec![Request::Chat { model, system, hears, toolboxes, tools, shape, searching }]
    }
}

impl Effect for Chat {
    type Answer = Reply;
    fn requests(self) -> Vec<Request> {
        self.shaped(None)
    }
    fn answer(responses: &[Response]) -> Result<Reply, Refused> {
        match responses {
            [Response::Reply(reply)] => Ok(reply.clone()),
            _ => Err(Refused::Kind { expected: "a reply" }),
        }
    }
}

/// A model's answer in the shape of `T`.
pub struct Extract<T> {
    chat: Chat,
    shape: PhantomData<fn() -> T>,
}

impl<T> Extract<T> {
    /// Asks `model`, told `system` and hearing the messages `hears`, for a `T`.
    pub fn new(model: &str, system: impl Into<String>, hears: Range<usize>) -> Self {
        Self { chat: Chat::new(model, system, hears), shape: PhantomData }
    }
}

impl<T: JsonSchema + DeserializeOwned> Effect for Extract<T> {
    type Answer = T;
    fn requests(self) -> Vec<Request> {
        self.chat.shaped(Some(T::schema_name().into_owned()))
    }
    fn answer(responses: &[Response]) -> Result<T, Refused> {
        let reply = Chat::answer(responses)?;
        serde_json::from_str(&reply.content).map_err(|err| Refused::Shape(err.to_string()))
    }
    fn schema() -> Option<Value> {
        let settings = SchemaSettings::draft2020_12().with(|it| {
            it.inline_subschemas = true;
            it.meta_schema = None;
        });
        Some(settings.into_generator().into_root_schema_for::<T>().to_value())
    }
}

/// What an MCP server can do: the thread's toolbox holds it once the answer is in, or it is said why not.
pub struct ListTools {
    /// Which server.
    pub server: String,
}

impl Effect for ListTools {
    type Answer = Result<(), String>;
    fn requests(self) -> Vec<Request> {
        vec![Request::ListTools { server: self.server }]
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, Refused> {
        match responses {
            [Response::Tools { .. } | Response::SameTools] => Ok(Ok(())),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(Refused::Kind { expected: "a list of tools" }),
        }
    }
}

/// Something done by an MCP server.
pub struct CallTool {
    /// Which server.
    pub server: String,
    /// Which tool, with what.
    pub call: ToolCall,
}

impl Effect for CallTool {
    type Answer = ToolOutput;
    fn requests(self) -> Vec<Request> {
        vec![Request::CallTool { server: self.server, call: self.call }]
    }
    fn answer(responses: &[Response]) -> Result<ToolOutput, Refused> {
        match responses {
            [Response::Output(output)] => Ok(output.clone()),
            [Response::Unavailable { reason }] => Ok(ToolOutput::Error(reason.clone())),
            _ => Err(Refused::Kind { expected: "a tool's output" }),
        }
    }
}

/// What prompts an MCP server offers, or why that cannot be known.
pub struct ListPrompts {
    /// Which server.
    pub server: String,
}

impl Effect for ListPrompts {
    type Answer = Result<Vec<Prompt>, String>;
    fn requests(self) -> Vec<Request> {
        vec![Request::ListPrompts { server: self.server }]
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, Refused> {
        match responses {
            [Response::Prompts { prompts }] => Ok(Ok(prompts.clone())),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(Refused::Kind { expected: "a list of prompts" }),
        }
    }
}

/// One of an MCP server's prompts, filled in, or why it cannot be had.
pub struct GetPrompt {
    /// Which server.
    pub server: String,
    /// Which prompt.
    pub name: String,
    /// What fills it.
    pub arguments: BTreeMap<String, String>,
}

impl Effect for GetPrompt {
    type Answer = Result<Vec<Message>, String>;
    fn requests(self) -> Vec<Request> {
        let GetPrompt { server, name, arguments } = self;
        vec![Request::GetPrompt { server, name, arguments }]
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, Refused> {
        match responses {
            [Response::Prompt { messages }] => Ok(Ok(messages.clone())),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(Refused::Kind { expected: "a prompt" }),
        }
    }
}

/// All that an MCP server offers, or why that cannot be known.
pub struct Describe {
    /// Which server.
    pub server: String,
}

impl Effect for Describe {
    type Answer = Result<Description, String>;
    fn requests(self) -> Vec<Request> {
        vec![Request::Describe { server: self.server }]
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, Refused> {
        match responses {
            [Response::Described(it)] => Ok(Ok(it.clone())),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(Refused::Kind { expected: "a description" }),
        }
    }
}

/// The servers that fit a text.
pub struct Search {
    /// The text.
    pub query: String,
    /// How many at most.
    pub limit: usize,
}

impl Effect for Search {
    type Answer = Result<Vec<Hit>, String>;
    fn requests(self) -> Vec<Request> {
        vec![Request::Search { query: self.query, limit: self.limit }]
    }
    fn answer(responses: &[Response]) -> Result<Self::Answer, Refused> {
        match responses {
            [Response::Found { hits, .. }] => Ok(Ok(hits.clone())),
            [Response::Unavailable { reason }] => Ok(Err(reason.clone())),
            _ => Err(Refused::Kind { expected: "servers that fit" }),
        }
    }
}

/// The index brought up to date.
pub struct Index {
    /// What each server offers; nothing, where it stays as it is. What is not named is removed.
    pub servers: BTreeMap<String, Option<Description>>,
}

/// What the index made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed {
    /// Servers that are new or changed.
    pub written: Vec<String>,
    /// Servers that were as they are.
    pub unchanged: Vec<String>,
    /// Servers that are gone.
    pub removed: Vec<String>,
}

impl Effect for Index {
    type Answer = Indexed;
    fn requests(self) -> Vec<Request> {
        vec![Request::Index { servers: self.servers }]
    }
    fn answer(responses: &[Response]) -> Result<Indexed, Refused> {
        match responses {
            [Response::Indexed { written, unchanged, removed }] => Ok(Indexed {
                written: written.clone(),
                unchanged: unchanged.clone(),
                removed: removed.clone(),
            }),
            _ => Err(Refused::Kind { expected: "what became of the index" }),
        }
    }
}

/// An exercise of the engine.
pub struct Rehearse(pub Rehearsal);

impl Effect for Rehearse {
    type Answer = String;
    fn requests(self) -> Vec<Request> {
        vec![Request::Rehearse(self.0)]
    }
    fn answer(responses: &[Response]) -> Result<String, Refused> {
        match responses {
            [Response::Echo { says }] => Ok(says.clone()),
            _ => Err(Refused::Kind { expected: "an echo" }),
        }
    }
}
