//! What is put to the world and what it gives back, as data: the log keeps both.

use std::{collections::BTreeMap, fmt, ops::Range};

use serde::{Deserialize, Serialize};

use crate::{
    content::Kept,
    form::Form,
    message::{Message, Prompt, Reply, Tool, ToolCall, ToolOutput},
    meter::{Meter, is_zero},
};

/// A question to the world, as data. The worker carries it out; the log keeps it.
///
/// ## Why it points and does not copy
///
/// The conversation, a server's tools, a node's own tools and the shape of an answer are all named, never
/// repeated: a log grows with what is said and not with how often it is heard.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Ask a model for its next message.
    Chat {
        /// Which model, as `provider/model`.
        model: String,
        /// What it is told first.
        system: String,
        /// How much of the conversation it hears.
        hears: Range<usize>,
        /// The servers whose tools it may call: by their own names if there is one server, else as `server__tool`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        toolboxes: Vec<String>,
        /// The node's own tools that it may call.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tools: Vec<String>,
        /// The type its words must take; the schema is the node's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shape: Option<String>,
        /// Whether it shall search the web by itself.
        #[serde(default, skip_serializing_if = "Searching::is_no")]
        searching: Searching,
    },
    /// Ask an MCP server what it can do.
    ListTools {
        /// Which server.
        server: String,
    },
    /// Ask an MCP server to do it.
    CallTool {
        /// Which server.
        server: String,
        /// What.
        call: ToolCall,
    },
    /// Ask an MCP server what prompts it offers.
    ListPrompts {
        /// Which server.
        server: String,
    },
    /// Ask an MCP server for one of its prompts, filled in.
    GetPrompt {
        /// Which server.
        server: String,
        /// Which prompt.
        name: String,
        /// What fills it.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        arguments: BTreeMap<String, String>,
    },
    /// Ask an MCP server for all that it offers, in one text that can be searched.
    Describe {
        /// Which server.
        server: String,
    },
    /// Ask the index which servers fit a text.
    Search {
        /// The text.
        query: String,
        /// How many at most.
        limit: usize,
    },
    /// Bring the index up to date: what is not named in `servers` is removed.
    Index {
        /// What each server offers; nothing, where it is unchanged and stays as it is.
        servers: BTreeMap<String, Option<Description>>,
    },
    /// Exercise the engine: no model, no server.
    Rehearse(Rehearsal),
}

/// Whether a model shall search the web by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Searching {
    /// It shall not.
    #[default]
    No,
    /// It shall, if its provider can have it do so.
    Web,
}

impl Searching {
    fn is_no(&self) -> bool {
        *self == Self::No
    }
}

/// What a server offers, as it is searched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The operator's line, and the names and descriptions of tools, prompts and resources.
    pub text: String,
    /// Names the text by its content.
    pub hash: String,
}

/// A server that fits a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hit {
    /// The server.
    pub server: String,
    /// How well it fits: the higher the better; comparable within one answer only.
    pub score: f64,
    /// What it offers.
    pub text: String,
}

/// What the world should do where a model or a tool would be: wait, falter, stream, echo.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rehearsal {
    /// How long it takes, in milliseconds.
    #[serde(skip_serializing_if = "is_zero")]
    pub wait_ms: u64,
    /// How often it falters before it works.
    #[serde(skip_serializing_if = "is_zero")]
    pub falters: u64,
    /// The error that only an operator's retry gets past.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fails: Option<String>,
    /// What it says, streamed word by word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub says: String,
}

/// The world's answer, as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "response", rename_all = "snake_case")]
pub enum Response {
    /// A model's message.
    Reply(Reply),
    /// An MCP server's tools.
    Tools {
        /// All of them, by name.
        tools: Vec<Tool>,
    },
    /// The server's tools are those that the log already holds.
    SameTools,
    /// A tool's output, or its error: either is something to learn from.
    Output(ToolOutput),
    /// A tool's output, and what came besides. It never enters the log as such: see
    /// [`Answered::kept`](crate::Answered::kept).
    Whole {
        /// The output.
        output: ToolOutput,
        /// What came besides.
        kept: Box<Kept>,
    },
    /// More is wanted of a person first. It never enters the log as an answer: see [`Wanted`](crate::Wanted).
    Wants {
        /// What is wanted, by the names that the server gave.
        forms: BTreeMap<String, Form>,
        /// What the server wants to be told again, letter by letter.
        state: Option<String>,
    },
    /// An MCP server's prompts.
    Prompts {
        /// All of them, in the server's order.
        prompts: Vec<Prompt>,
    },
    /// A prompt, filled in.
    Prompt {
        /// What it says.
        messages: Vec<Message>,
    },
    /// What a server offers.
    Described(Description),
    /// The servers that fit, the best first.
    Found {
        /// Which.
        hits: Vec<Hit>,
        /// How they were ranked: `lexical`, or `MODEL and words`.
        by: String,
    },
    /// What the index made of it.
    Indexed {
        /// Servers that are new or changed.
        written: Vec<String>,
        /// Servers that were as they are.
        unchanged: Vec<String>,
        /// Servers that are gone.
        removed: Vec<String>,
    },
    /// What a rehearsal said.
    Echo {
        /// The words.
        says: String,
    },
    /// There is none, and the node can do without.
    Unavailable {
        /// Why not.
        reason: String,
    },
}

/// Why the world did not answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// What went wrong, in words that an operator can act on.
    pub error: String,
    /// What may be done about it.
    pub remedy: Remedy,
    /// What it took all the same; in a box, as there is seldom much of it and every result would be larger by it.
    pub meter: Option<Box<Meter>>,
}

/// What may be done about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Ask again, after this many milliseconds if the world said so.
    Again {
        /// What the world asked for (`Retry-After`).
        after_ms: Option<u64>,
    },
    /// Asking again will not help; an operator must act.
    Operator,
    /// It was sent and its answer was lost: it may have happened.
    Doubt {
        /// When it may be asked again where that does no harm, if the world said so.
        after_ms: Option<u64>,
    },
}

impl Fault {
    /// A fault, and what may be done about it.
    pub fn new(error: impl Into<String>, remedy: Remedy) -> Self {
        Self { error: error.into(), remedy, meter: None }
    }

    /// Asking again may help.
    pub fn again(error: impl Into<String>) -> Self {
        Self::new(error, Remedy::Again { after_ms: None })
    }

    /// Asking again will not help.
    pub fn operator(error: impl Into<String>) -> Self {
        Self::new(error, Remedy::Operator)
    }

    /// It may have happened.
    pub fn doubt(error: impl Into<String>) -> Self {
        Self::new(error, Remedy::Doubt { after_ms: None })
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Chat { model, system: _, hears, toolboxes, tools, shape, searching } => {
                write!(f, "chat {model} hears {}..{}", hears.start, hears.end)?;
                toolboxes.iter().try_for_each(|it| write!(f, " with {it}.*"))?;
                tools.iter().try_for_each(|it| write!(f, " with {it}"))?;
                shape.iter().try_for_each(|it| write!(f, " as {it}"))?;
                match searching {
                    Searching::No => Ok(()),
                    Searching::Web => write!(f, " searching the web"),
                }
            }
            Request::ListTools { server } => write!(f, "list tools of {server}"),
            Request::CallTool { server, call } => {
                write!(f, "call {server}.{}({})", call.name, call.arguments)
            }
            Request::ListPrompts { server } => write!(f, "list prompts of {server}"),
            Request::GetPrompt { server, name, arguments } => {
                let filled: Vec<String> =
                    arguments.iter().map(|(name, it)| format!("{name}: {it:?}")).collect();
                write!(f, "get prompt {server}.{name}({})", filled.join(", "))
            }
            Request::Describe { server } => write!(f, "describe {server}"),
            Request::Search { query, limit } => write!(f, "search for {} servers: {}", limit, quoted(query)),
            Request::Index { servers } => {
                let changed = servers.values().filter(|it| it.is_some()).count();
                write!(f, "index {} servers, {changed} of them new or changed", servers.len())
            }
            Request::Rehearse(Rehearsal { wait_ms, falters, fails, says }) => {
                write!(f, "rehearse")?;
                (*wait_ms > 0).then(|| write!(f, " wait {wait_ms} ms")).transpose()?;
                (*falters > 0).then(|| write!(f, " falter {falters}")).transpose()?;
                fails.iter().try_for_each(|it| write!(f, " fail {it:?}"))?;
                (!says.is_empty()).then(|| write!(f, " say {says:?}")).transpose().map(drop)
            }
        }
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Response::Reply(Reply { content, tool_calls, citations }) => {
                let words = (!content.is_empty() || tool_calls.is_empty()).then(|| quoted(content));
                let calls = tool_calls.iter().map(|it| format!("{}({})", it.name, it.arguments));
                write!(f, "{}", words.into_iter().chain(calls).collect::<Vec<_>>().join(" + "))?;
                citations.iter().try_for_each(|it| write!(f, " citing {} <{}>", quoted(&it.title), it.url))
            }
            Response::Tools { tools } => {
                write!(f, "{}", tools.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", "))
            }
            Response::SameTools => write!(f, "the same tools"),
            Response::Output(ToolOutput::Ok(text)) => write!(f, "ok {}", quoted(text)),
            Response::Output(ToolOutput::Error(text)) => write!(f, "error {}", quoted(text)),
            Response::Output(ToolOutput::Refused(text)) => write!(f, "refused {}", quoted(text)),
            Response::Whole { output, .. } => write!(f, "{}", Response::Output(output.clone())),
            Response::Wants { forms, .. } => {
                write!(f, "wants {}", forms.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
            }
            Response::Prompts { prompts } if prompts.is_empty() => write!(f, "no prompts"),
            Response::Prompts { prompts } => {
                write!(f, "{}", prompts.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", "))
            }
            Response::Prompt { messages } => {
                write!(f, "{}", messages.iter().map(|it| quoted(&it.content)).collect::<Vec<_>>().join(" "))
            }
            Response::Described(it) => write!(f, "{} {}", it.hash, quoted(&it.text)),
            Response::Found { hits, by } => {
                let told: Vec<String> =
                    hits.iter().map(|it| format!("{} {:.2}", it.server, it.score)).collect();
                write!(f, "{} ({by})", if told.is_empty() { "nothing".to_owned() } else { told.join(", ") })
            }
            Response::Indexed { written, unchanged, removed } => {
                let told =
                    |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                write!(
                    f,
                    "written: {}; unchanged: {}; removed: {}",
                    told(written),
                    told(unchanged),
                    told(removed)
                )
            }
            Response::Echo { says } => write!(f, "echo {}", quoted(says)),
            Response::Unavailable { reason } => write!(f, "unavailable: {reason}"),
        }
    }
}

/// The longest text that a transcript shows whole, in characters.
const SHOWN_MAX: usize = 2_000;

/// Words on one line of a transcript.
pub(crate) fn quoted(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let more = text.chars().count().saturating_sub(SHOWN_MAX);
    let tail = if more == 0 { String::new() } else { format!(" … and {more} characters more") };
    format!("“{}”{tail}", shown.replace('\n', " ⏎ "))
}
