//! A strategy without its types: what the api, the workers and the auditor hold; and its map.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use schemars::schema_for;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    event::{Event, Goto},
    message::{Message, Role, Tool},
    meter::{Meter, Tally},
    progress::{Corrupt, Next, Policy, Progress, Standing, Unheard, name},
    request::{Fault, Response},
    strategy::{Edge, Strategy},
};

/// Where a turn starts, and every node with where control may go from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// The nodes at which a turn may start.
    pub entrances: Vec<String>,
    /// Every node, with where control may go from it.
    pub edges: Vec<(String, Vec<Edge<String>>)>,
}

/// Edges that some log has walked.
pub type Walked = BTreeSet<(String, Edge<String>)>;

/// A strategy, erased.
pub trait Graph: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Its version.
    fn version(&self) -> u32;
    /// What it is for, in one line.
    fn about(&self) -> &'static str;
    /// The texts of its prompts.
    fn prompts(&self) -> &'static [&'static str];
    /// Its configuration where nobody tunes it.
    fn defaults(&self) -> Value;
    /// The JSON Schema of its configuration.
    fn config_schema(&self) -> Value;
    /// Whether a thread may open with this configuration.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words.
    fn check_config(&self, config: &Value) -> Result<(), String>;
    /// A thread of which nothing is known yet.
    fn begin(&self) -> Box<dyn Replay>;
    /// Its shape.
    fn topology(&self) -> Topology;
}

impl dyn Graph {
    /// The thread that wrote this log.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if no thread could have.
    pub fn replay<'a>(&self, log: impl IntoIterator<Item = &'a Event>) -> Result<Box<dyn Replay>, Corrupt> {
        let mut thread = self.begin();
        log.into_iter().try_for_each(|event| thread.apply(event))?;
        Ok(thread)
    }
}

/// A thread, erased. Each method is [`Progress`]'s of the same name, or reads its thread.
pub trait Replay: Send + Sync {
    /// The name of its strategy.
    fn strategy(&self) -> &'static str;
    /// Whom it belongs to.
    fn tenant(&self) -> &str;
    /// Folds one more event in.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if it cannot happen here.
    fn apply(&mut self, event: &Event) -> Result<(), Corrupt>;
    /// What comes next.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if the log holds what no version of this strategy could have written.
    fn next(&self) -> Result<Next, Corrupt>;
    /// What to write of what came back at `slot`.
    fn receive(
        &self,
        slot: usize,
        outcome: Result<(Response, Option<Meter>), Fault>,
        backoff_ms: u64,
    ) -> Event;
    /// The event by which it hears `messages` now.
    ///
    /// # Errors
    ///
    /// [`Unheard`] if it cannot.
    fn hear(
        &self,
        turn: Uuid,
        by: &str,
        time: &str,
        policy: Policy,
        messages: Vec<Message>,
    ) -> Result<Event, Unheard>;
    /// Where it stands.
    fn standing(&self) -> Standing;
    /// The node that control is at.
    fn node(&self) -> Option<String>;
    /// The turn that is under way, or was last.
    fn turn(&self) -> Option<Uuid>;
    /// The number of the next event.
    fn seq(&self) -> usize;
    /// What the strategy remembers.
    ///
    /// # Errors
    ///
    /// If the state does not serialize.
    fn state(&self) -> Result<Value, serde_json::Error>;
    /// What it would remember, had it concluded these facts now.
    ///
    /// # Errors
    ///
    /// If a fact is none of the strategy's, or the state does not serialize.
    fn state_after(&self, facts: &[Value]) -> Result<Value, serde_json::Error>;
    /// The configuration in force: what the thread opened with, completed by the defaults.
    ///
    /// # Errors
    ///
    /// If the configuration does not serialize.
    fn config(&self) -> Result<Value, serde_json::Error>;
    /// The conversation so far.
    fn messages(&self) -> &[Message];
    /// What the turn has answered: the last words of the assistant since it was heard.
    fn reply(&self) -> Option<&str>;
    /// What the turn that is under way, or was last, took of the world.
    fn turn_took(&self) -> &Tally;
    /// What all turns took of the world.
    fn took(&self) -> &Tally;
    /// What an MCP server is known to do.
    fn toolbox(&self, server: &str) -> Option<&[Tool]>;
    /// The requests that may have changed the world, and of which nobody knows, or was asked, whether they did.
    fn at_stake(&self) -> Vec<usize>;
    /// The tools of the node that is asking.
    fn tools(&self) -> Vec<Tool>;
    /// The JSON Schema that the reply to the node that is asking must fit.
    fn schema(&self) -> Option<Value>;
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
        schema_for!(S::Config).to_value()
    }

    fn check_config(&self, config: &Value) -> Result<(), String> {
        if config.is_null() {
            return Ok(());
        }
        serde_json::from_value::<S::Config>(config.clone()).map_err(|err| err.to_string())?;
        in_range(config, &self.config_schema())
    }

    fn begin(&self) -> Box<dyn Replay> {
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
}

/// Whether every number of a configuration is as large as its schema wants it.
fn in_range(config: &Value, schema: &Value) -> Result<(), String> {
    for (name, value) in config.as_object().into_iter().flatten() {
        let (Some(is), Some(field)) = (value.as_f64(), schema["properties"].get(name)) else { continue };
        if let Some(least) = field["minimum"].as_f64().filter(|it| is < *it) {
            return Err(format!("{name}: it is {is}, and must be at least {least}"));
        }
        if let Some(most) = field["maximum"].as_f64().filter(|it| is > *it) {
            return Err(format!("{name}: it is {is}, and must be at most {most}"));
        }
    }
    Ok(())
}

impl<S: Strategy> Replay for Progress<S> {
    fn strategy(&self) -> &'static str {
        S::NAME
    }

    fn tenant(&self) -> &str {
        &self.tenant
    }

    fn apply(&mut self, event: &Event) -> Result<(), Corrupt> {
        self.apply(event)
    }

    fn next(&self) -> Result<Next, Corrupt> {
        self.next()
    }

    fn receive(
        &self,
        slot: usize,
        outcome: Result<(Response, Option<Meter>), Fault>,
        backoff_ms: u64,
    ) -> Event {
        self.receive(slot, outcome, backoff_ms)
    }

    fn hear(
        &self,
        turn: Uuid,
        by: &str,
        time: &str,
        policy: Policy,
        messages: Vec<Message>,
    ) -> Result<Event, Unheard> {
        self.hear(turn, by, time, policy, messages)
    }

    fn standing(&self) -> Standing {
        self.standing()
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

    fn state(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(&self.thread.state)
    }

    fn state_after(&self, facts: &[Value]) -> Result<Value, serde_json::Error> {
        self.state_after(facts).and_then(|it| serde_json::to_value(&it))
    }

    fn config(&self) -> Result<Value, serde_json::Error> {
        serde_json::to_value(&self.thread.config)
    }

    fn messages(&self) -> &[Message] {
        &self.thread.messages
    }

    fn reply(&self) -> Option<&str> {
        let since = &self.thread.messages[self.thread.turn.from.min(self.thread.messages.len())..];
        let spoken = |it: &&Message| it.role == Role::Assistant && it.tool_calls.is_empty();
        since.iter().rfind(spoken).map(|it| it.content.as_str())
    }

    fn turn_took(&self) -> &Tally {
        &self.thread.turn.took
    }

    fn took(&self) -> &Tally {
        &self.thread.took
    }

    fn toolbox(&self, server: &str) -> Option<&[Tool]> {
        self.thread.toolboxes.get(server).map(Vec::as_slice)
    }

    fn at_stake(&self) -> Vec<usize> {
        self.at_stake()
    }

    fn tools(&self) -> Vec<Tool> {
        self.asking().map(|it| it.tools()).unwrap_or_default()
    }

    fn schema(&self) -> Option<Value> {
        self.asking().and_then(|it| it.schema())
    }
}

impl Edge<String> {
    /// The edge that a decision took.
    pub fn taken(to: &Goto) -> Self {
        match to {
            Goto::Node(node) => Edge::To(node.clone()),
            Goto::Interrupt(it) => Edge::Ask(it.resume.clone()),
            Goto::End => Edge::End,
        }
    }
}

/// The map of a strategy in Mermaid; with `walked`, the edges that are not among them are dashed.
///
/// Nodes with a dot in their name form a part of their own, drawn as a box.
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
        let _ = writeln!(out, "    heard([heard]) --> {}", id(entrance));
    }
    for (from, edges) in &topology.edges {
        for edge in edges {
            let known = walked.is_none_or(|it| it.contains(&(from.clone(), edge.clone())));
            let line = if known { "-->" } else { "-.->" };
            let _ = match edge {
                Edge::To(to) => writeln!(out, "    {} {line} {}", id(from), id(to)),
                Edge::Ask(to) => writeln!(out, "    {} {line}|asks a person| {}", id(from), id(to)),
                Edge::End => writeln!(out, "    {} {line} rest([end])", id(from)),
            };
        }
    }
    out
}
