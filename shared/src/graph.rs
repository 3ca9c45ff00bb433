//! A strategy without its types, for the API, the workers and the auditor, and its diagram.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use schemars::schema_for;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{
    context::read_more_tool,
    event::{Event, Goto, InterruptKind},
    message::{Message, Role, Tool},
    node_config::{self, EngineConfig, NodeConfig},
    outcome::Outcome,
    progress::{
        Attempt, InvalidLog, MessageRejected, Next, OpenTask, Progress, RunStatus, UnendedWrite, name,
    },
    reply_options::{ReplyOption, ReplyOptions},
    request::{Fault, Request, Response},
    status::Policy,
    strategy::{Edge, ProposedCall, ServerScope, Strategy, own_tools},
    tool_names::{OfferedTool, offered_tools},
    toolboxes::Toolboxes,
    usage::{Usage, UsageTotal},
};

/// Map of a strategy: the entrances of a turn, and every node with its outgoing edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Nodes at which a turn may start.
    pub entrances: Vec<String>,
    /// Every node with its outgoing edges.
    pub edges: Vec<(String, Vec<Edge<String>>)>,
}

/// Edges that at least one log has taken.
pub type Walked = BTreeSet<(String, Edge<String>)>;

/// A node of a strategy: its name, and its request to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Name of the node.
    pub name: String,
    /// True if the node may ask a model.
    pub asks_model: bool,
    /// Template of the system prompt, if the node declares one.
    pub prompt: Option<&'static str>,
    /// Key of the strategy's configuration that names the model.
    pub model_key: &'static str,
}

/// A strategy with its types erased.
pub trait Graph: Send + Sync {
    /// Returns the strategy's name.
    fn name(&self) -> &'static str;
    /// Returns the strategy's version.
    fn version(&self) -> u32;
    /// Returns the strategy's purpose, in one line.
    fn about(&self) -> &'static str;
    /// Returns the texts of the prompts.
    fn prompts(&self) -> &'static [&'static str];
    /// Returns the default configuration.
    fn defaults(&self) -> Value;
    /// Returns the JSON Schema of the configuration.
    fn config_schema(&self) -> Value;
    /// Checks that a thread may open with this configuration.
    ///
    /// # Errors
    ///
    /// A description of the error.
    fn check_config(&self, config: &Value) -> Result<(), String>;
    /// Creates a thread with an empty log.
    fn begin(&self) -> Box<dyn DynThread>;
    /// Returns the MCP servers that the threads of this strategy may use.
    fn server_scope(&self) -> ServerScope;
    /// Returns the demands of clients on replies that the strategy meets.
    fn reply_options(&self) -> &'static [ReplyOption];
    /// Returns the entrances and edges.
    fn topology(&self) -> Topology;
    /// Returns the nodes, in the order of the graph.
    fn nodes(&self) -> Vec<NodeInfo>;
}

impl dyn Graph {
    /// Folds a log into a thread.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no thread of this strategy could have written it.
    pub fn fold<'a>(
        &self,
        log: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Box<dyn DynThread>, InvalidLog> {
        let mut thread = self.begin();
        log.into_iter().try_for_each(|event| thread.apply(event))?;
        Ok(thread)
    }
}

/// A thread with its types erased. Each method is [`Progress`]'s of the same name, or reads its thread.
pub trait DynThread: Send + Sync {
    /// Returns the name of the thread's strategy.
    fn strategy(&self) -> &'static str;
    /// Returns the tenant that owns the thread.
    fn tenant(&self) -> &str;
    /// Folds the next event into the thread.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if the event cannot occur at this point.
    fn apply(&mut self, event: &Event) -> Result<(), InvalidLog>;
    /// Returns the next step of the thread.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if no version of this strategy could have written the log.
    fn next(&self) -> Result<Next, InvalidLog>;
    /// Returns the event that records the outcome of the request at `slot`.
    fn receive(
        &self,
        slot: usize,
        outcome: Result<(Response, Option<Usage>), Fault>,
        backoff_ms: u64,
    ) -> Event;
    /// Returns the event that records `messages` now.
    ///
    /// # Errors
    ///
    /// [`MessageRejected`] if the thread cannot take them now.
    fn accept_message(
        &self,
        turn: Uuid,
        actor: &str,
        time: &str,
        policy: Policy,
        messages: Vec<Message>,
    ) -> Result<Event, MessageRejected>;
    /// Returns the thread's status.
    fn status(&self) -> RunStatus;
    /// Returns the calls that the open question asks a person to approve, with their payloads.
    fn proposed_calls(&self) -> Vec<ProposedCall>;
    /// Returns whether the node that waits continues if its requests get no answer.
    fn continues_unanswered(&self) -> bool;
    /// Returns the current node, if a turn is under way.
    fn node(&self) -> Option<String>;
    /// Returns the current turn, or the last one.
    fn turn(&self) -> Option<Uuid>;
    /// Returns the number of the next event.
    fn seq(&self) -> usize;
    /// Returns true if the next write of `server` is its first one after a person's approval.
    fn is_first_approved_write(&self, server: &str) -> bool;
    /// Returns the state of the strategy.
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if the state does not serialize.
    fn state(&self) -> Result<Value, serde_json::Error>;
    /// Returns the state after the given facts, without changing the thread.
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if a fact is not one of the strategy's, or the state does not serialize.
    fn state_after(&self, facts: &[Value]) -> Result<Value, serde_json::Error>;
    /// Returns the configuration in force: that of the thread's opening, completed by the defaults.
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if the configuration does not serialize.
    fn config(&self) -> Result<Value, serde_json::Error>;
    /// Returns the names of the MCP servers that the thread may use.
    fn servers(&self) -> Vec<&str>;
    /// Returns the conversation so far.
    fn messages(&self) -> &[Message];
    /// Returns the turn's reply: the assistant's last message since the turn started.
    fn reply(&self) -> Option<&str>;
    /// Returns the outcome of the turn so far, and of the last turn once it has ended.
    fn outcome(&self) -> &Outcome;
    /// Returns the usage of the current turn, or of the last one.
    fn turn_usage(&self) -> &UsageTotal;
    /// Returns the usage of all turns.
    fn usage(&self) -> &UsageTotal;
    /// Returns the names of all tools by which models steer the strategy, and of those of the client.
    fn own_tools(&self) -> BTreeSet<String>;
    /// Returns the known tools of an MCP server.
    fn server_tools(&self, server: &str) -> Option<&[Tool]>;
    /// See [`Progress::models_to_forget`].
    fn models_to_forget(&self, forgotten: &BTreeMap<String, String>) -> Vec<String>;
    /// Returns the slots of requests whose effect on the outside world is unknown and that no person was asked to
    /// resolve.
    fn unresolved_writes(&self) -> Vec<usize>;
    /// Returns the last attempt of the request at `slot`, if it may change the outside world.
    fn last_attempt(&self, slot: usize) -> Option<Attempt>;
    /// Returns the calls of cancelled turns of which no end is known.
    fn unended_writes(&self) -> Vec<UnendedWrite>;
    /// Returns true if the thread is idle, and its last turn was cancelled.
    fn is_cancelled(&self) -> bool;
    /// Returns true if the thread does nothing but read requests in doubt back.
    fn is_only_reading_back(&self) -> bool;
    /// Returns the tasks of servers whose results are not needed any more.
    fn abandoned_tasks(&self) -> &[OpenTask];
    /// Returns the messages of a request as its model receives them: a summary may stand for the first, and long tool
    /// results are shortened as the request says.
    fn messages_of(&self, request: &Request) -> Cow<'_, [Message]>;
    /// Returns the tools of the node whose requests are pending, and the engine's own.
    fn tools(&self) -> Vec<Tool>;
    /// Returns the JSON Schema that the reply to the pending node must fit, if its request names one.
    fn schema(&self) -> Option<Value>;
    /// Returns the demands of the client on the reply of the turn.
    fn reply_options(&self) -> &ReplyOptions;
    /// Returns the toolboxes of the client so far.
    fn toolboxes(&self) -> &Toolboxes;
    /// Returns true if that schema is the client's, and not the node's.
    fn has_client_schema(&self) -> bool;
    /// Returns the part of the pending node's incomplete reply that the person may already read. `None` if nothing may be
    /// read before the node decides.
    fn preview<'a>(&self, partial: &'a str) -> Option<Cow<'a, str>>;
    /// Returns a copy of the thread, which can be folded further by itself.
    fn boxed_clone(&self) -> Box<dyn DynThread>;
}

impl Clone for Box<dyn DynThread> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}

impl dyn DynThread + '_ {
    /// Adds the demands of the client on the reply, if the event starts a turn. A toolbox that an earlier turn of the thread had
    /// is named by its number.
    pub fn asking_for(&self, mut event: Event, options: Option<Box<ReplyOptions>>) -> Event {
        if let Event::TurnStarted(started) = &mut event {
            started.toolbox = options.as_ref().and_then(|options| self.toolboxes().number_of(&options.tools));
            started.reply_options = options;
            if let (Some(_), Some(options)) = (started.toolbox, &mut started.reply_options) {
                options.tools = Vec::new();
            }
        }
        event
    }

    /// Returns the tools of these servers with the names under which a model is offered them.
    pub fn offered_tools<'a>(&'a self, servers: &[&'a str]) -> Vec<OfferedTool<'a>> {
        let servers: Vec<(&str, &[Tool])> =
            servers.iter().map(|server| (*server, self.server_tools(server).unwrap_or_default())).collect();
        offered_tools(&servers, &self.own_tools())
    }
}

impl<S: Strategy> Graph for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn version(&self) -> u32 {
        S::VERSION
    }

    fn about(&self) -> &'static str {
        S::ABOUT
    }

    fn prompts(&self) -> &'static [&'static str] {
        S::PROMPTS
    }

    fn defaults(&self) -> Value {
        serde_json::to_value(S::Config::default()).unwrap_or_default()
    }

    fn config_schema(&self) -> Value {
        let mut schema = schema_for!(S::Config).to_value();
        let asking = self.nodes().into_iter().filter(|node| node.asks_model);
        let nodes: Map<String, Value> = asking.map(|node| (node.name, NodeConfig::schema())).collect();
        if !nodes.is_empty() {
            schema["properties"]["nodes"] =
                json!({ "type": "object", "properties": nodes, "additionalProperties": false });
        }
        if let Some(default) = S::SERVERS.default_servers() {
            schema["properties"]["servers"] = json!({
                "description": format!("MCP servers that a thread may use. Default: {default}."),
                "type": "array",
                "items": { "type": "string" },
            });
        }
        schema
    }

    fn check_config(&self, config: &Value) -> Result<(), String> {
        if config.is_null() {
            return Ok(());
        }
        node_config::check(config, self.nodes())?;
        let (engine, own) = EngineConfig::split(config).map_err(|err| err.to_string())?;
        if S::SERVERS == ServerScope::AllTenants && engine.servers.is_some() {
            return Err("servers: a thread of this strategy needs every server".to_owned());
        }
        S::Config::deserialize(&*own).map_err(|err| err.to_string())?;
        in_range(&own, &schema_for!(S::Config).to_value())
    }

    fn server_scope(&self) -> ServerScope {
        S::SERVERS
    }

    fn reply_options(&self) -> &'static [ReplyOption] {
        S::REPLY_OPTIONS
    }

    fn begin(&self) -> Box<dyn DynThread> {
        Box::new(Progress::<S>::new())
    }

    fn topology(&self) -> Topology {
        let erase = |edge: &Edge<S::NodeName>| match edge {
            Edge::To(node) => Edge::To(name(node)),
            Edge::Ask(node) => Edge::Ask(name(node)),
            Edge::End => Edge::End,
        };
        Topology {
            entrances: S::ENTRANCES.iter().map(name).collect(),
            edges: S::EDGES.iter().map(|(from, to)| (name(from), to.iter().map(erase).collect())).collect(),
        }
    }

    fn nodes(&self) -> Vec<NodeInfo> {
        let info = |place: S::NodeName| {
            let node = S::node(place);
            let (prompt, model_key) = (node.prompt(), node.model_key());
            NodeInfo { name: name(&place), asks_model: node.asks_model(), prompt, model_key }
        };
        S::EDGES.iter().map(|(place, _)| info(*place)).collect()
    }
}

/// Checks every number of a configuration against the minimum and maximum in its schema, also within sections.
fn in_range(config: &Value, schema: &Value) -> Result<(), String> {
    for (name, value) in config.as_object().into_iter().flatten() {
        let Some(field) = schema["properties"].get(name) else { continue };
        number_in_range(value, field, schema).map_err(|(key, why)| format!("{name}{key}: {why}"))?;
    }
    Ok(())
}

/// Returns the key below this value that is out of its range, and the reason. `root` has the definitions that schemas refer to.
fn number_in_range(value: &Value, schema: &Value, root: &Value) -> Result<(), (String, String)> {
    let target = schema["$ref"].as_str().and_then(|text| root.pointer(text.trim_start_matches('#')));
    let schema = target.unwrap_or(schema);
    for (name, value) in value.as_object().into_iter().flatten() {
        let Some(field) = schema["properties"].get(name) else { continue };
        number_in_range(value, field, root).map_err(|(key, why)| (format!(".{name}{key}"), why))?;
    }
    let Some(is) = value.as_f64() else { return Ok(()) };
    if let Some(least) = schema["minimum"].as_f64().filter(|bound| is < *bound) {
        return Err((String::new(), format!("it is {is}, and must be at least {least}")));
    }
    if let Some(most) = schema["maximum"].as_f64().filter(|bound| is > *bound) {
        return Err((String::new(), format!("it is {is}, and must be at most {most}")));
    }
    Ok(())
}

impl<S: Strategy> DynThread for Progress<S> {
    fn strategy(&self) -> &'static str {
        S::NAME
    }

    fn tenant(&self) -> &str {
        &self.tenant
    }

    fn apply(&mut self, event: &Event) -> Result<(), InvalidLog> {
        self.apply(event)
    }

    fn next(&self) -> Result<Next, InvalidLog> {
        self.next()
    }

    fn receive(
        &self,
        slot: usize,
        outcome: Result<(Response, Option<Usage>), Fault>,
        backoff_ms: u64,
    ) -> Event {
        self.receive(slot, outcome, backoff_ms)
    }

    fn accept_message(
        &self,
        turn: Uuid,
        actor: &str,
        time: &str,
        policy: Policy,
        messages: Vec<Message>,
    ) -> Result<Event, MessageRejected> {
        self.accept_message(turn, actor, time, policy, messages)
    }

    fn status(&self) -> RunStatus {
        self.status()
    }

    fn continues_unanswered(&self) -> bool {
        self.continues_unanswered()
    }

    fn proposed_calls(&self) -> Vec<ProposedCall> {
        match self.status() {
            RunStatus::Waiting(interrupt) if interrupt.kind == InterruptKind::Approval => {
                S::proposed_calls(&self.thread)
            }
            RunStatus::Waiting(_) | RunStatus::Idle | RunStatus::Busy | RunStatus::Failed { .. } => {
                Vec::new()
            }
        }
    }

    fn unended_writes(&self) -> Vec<UnendedWrite> {
        self.unended_writes()
    }

    fn is_cancelled(&self) -> bool {
        self.is_cancelled()
    }

    fn node(&self) -> Option<String> {
        self.node()
    }

    fn turn(&self) -> Option<Uuid> {
        self.turn()
    }

    fn seq(&self) -> usize {
        self.seq()
    }

    fn is_first_approved_write(&self, server: &str) -> bool {
        self.is_first_approved_write(server)
    }

    fn state(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(&self.thread.state)
    }

    fn state_after(&self, facts: &[Value]) -> Result<Value, serde_json::Error> {
        self.state_after(facts).and_then(|state| serde_json::to_value(&state))
    }

    fn config(&self) -> Result<Value, serde_json::Error> {
        self.engine.join(serde_json::to_value(&self.thread.config)?)
    }

    fn servers(&self) -> Vec<&str> {
        self.thread.servers.keys().map(String::as_str).collect()
    }

    fn messages(&self) -> &[Message] {
        &self.thread.messages
    }

    fn reply(&self) -> Option<&str> {
        let since = &self.thread.messages[self.thread.turn.from.min(self.thread.messages.len())..];
        let spoken = |message: &&Message| message.role == Role::Assistant && message.tool_calls.is_empty();
        since.iter().rfind(spoken).map(|message| message.content.as_str())
    }

    fn outcome(&self) -> &Outcome {
        &self.thread.turn.outcome
    }

    fn turn_usage(&self) -> &UsageTotal {
        &self.thread.turn.usage
    }

    fn usage(&self) -> &UsageTotal {
        &self.thread.usage
    }

    fn own_tools(&self) -> BTreeSet<String> {
        let of_client = self.thread.turn.reply_options.tools.iter();
        own_tools::<S>().into_iter().chain(of_client.map(|tool| tool.function().name.clone())).collect()
    }

    fn server_tools(&self, server: &str) -> Option<&[Tool]> {
        self.thread.server_tools.get(server).map(Vec::as_slice)
    }

    fn models_to_forget(&self, forgotten: &BTreeMap<String, String>) -> Vec<String> {
        Progress::models_to_forget(self, forgotten)
    }

    fn unresolved_writes(&self) -> Vec<usize> {
        self.unresolved_writes()
    }

    fn last_attempt(&self, slot: usize) -> Option<Attempt> {
        self.last_attempt(slot)
    }

    fn is_only_reading_back(&self) -> bool {
        self.is_only_reading_back()
    }

    fn abandoned_tasks(&self) -> &[OpenTask] {
        self.abandoned_tasks()
    }

    fn messages_of(&self, request: &Request) -> Cow<'_, [Message]> {
        self.messages_of(request)
    }

    fn tools(&self) -> Vec<Tool> {
        let mut tools = self.asking().map(|node| self.node_tools(node)).unwrap_or_default();
        if self.reads_more() {
            tools.push(read_more_tool());
        }
        tools
    }

    fn schema(&self) -> Option<Value> {
        self.asking().and_then(|node| self.schema_of(node))
    }

    fn reply_options(&self) -> &ReplyOptions {
        &self.thread.turn.reply_options
    }

    fn toolboxes(&self) -> &Toolboxes {
        Progress::toolboxes(self)
    }

    fn has_client_schema(&self) -> bool {
        self.asking().is_some_and(|node| node.schema().is_none())
    }

    fn preview<'a>(&self, partial: &'a str) -> Option<Cow<'a, str>> {
        self.preview(partial)
    }

    fn boxed_clone(&self) -> Box<dyn DynThread> {
        Box::new(self.clone())
    }
}

impl Edge<String> {
    /// Returns the edge that a decision took.
    pub fn taken(to: &Goto) -> Self {
        match to {
            Goto::Node(node) => Edge::To(node.clone()),
            Goto::Interrupt(interrupt) => Edge::Ask(interrupt.resume.clone()),
            Goto::End => Edge::End,
        }
    }
}

/// Draws the map of a strategy as a Mermaid flowchart. With `walked`, edges outside that set are dashed.
///
/// Nodes whose names share the part before a dot are drawn together in a box.
pub fn map(topology: &Topology, walked: Option<&Walked>) -> String {
    let mut out = String::from("flowchart TD\n");
    let id = |node: &str| node.replace('.', "_");
    let mut parts = BTreeMap::<&str, String>::new();
    for (node, _) in &topology.edges {
        if let Some((part, _)) = node.split_once('.') {
            *parts.entry(part).or_default() += &format!("        {}[{node}]\n", id(node));
        }
    }
    for (part, nodes) in parts {
        let _ = writeln!(out, "    subgraph {part}\n{nodes}    end");
    }
    for entrance in &topology.entrances {
        let _ = writeln!(out, "    start([turn started]) --> {}", id(entrance));
    }
    for (from, edges) in &topology.edges {
        for edge in edges {
            let known = walked.is_none_or(|edges| edges.contains(&(from.clone(), edge.clone())));
            let line = if known { "-->" } else { "-.->" };
            let _ = match edge {
                Edge::To(to) => writeln!(out, "    {} {line} {}", id(from), id(to)),
                Edge::Ask(to) => writeln!(out, "    {} {line}|asks a person| {}", id(from), id(to)),
                Edge::End => writeln!(out, "    {} {line} finish([end])", id(from)),
            };
        }
    }
    out
}
