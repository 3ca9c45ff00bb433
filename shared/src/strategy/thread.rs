//! Thread as the nodes of its strategy see it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use super::{Strategy, TurnSoFar};
use crate::{
    budget::Budget,
    message::{Message, Role, Tool, ToolCall},
    tool_names::{OfferedTool, offered_tools},
    usage::UsageTotal,
};

/// Maximum number of tool results in a partial answer (the last ones are kept), and the maximum length of each, in
/// characters.
const RESULTS_MAX: usize = 20;
const RESULT_MAX: usize = 500;

/// Everything that the log says about a thread, typed by its strategy. Nodes decide from this alone.
pub struct Thread<S: Strategy> {
    /// Configuration from the opening of the thread.
    pub config: S::Config,
    /// Available MCP servers, each with a description of its purpose.
    pub servers: BTreeMap<String, String>,
    /// Conversation so far.
    pub messages: Vec<Message>,
    /// Tools of each MCP server, as last listed.
    pub server_tools: BTreeMap<String, Vec<Tool>>,
    /// Turn that is under way.
    pub turn: TurnSoFar,
    /// Limits on the usage of the thread and of each of its turns.
    pub budget: Budget,
    /// Usage of all turns.
    pub usage: UsageTotal,
    /// State of the strategy.
    pub state: S::State,
}

/// A thread with an empty log.
impl<S: Strategy> Default for Thread<S> {
    fn default() -> Self {
        Self {
            config: S::Config::default(),
            servers: BTreeMap::new(),
            messages: Vec::new(),
            server_tools: BTreeMap::new(),
            turn: TurnSoFar::default(),
            budget: Budget::default(),
            usage: UsageTotal::default(),
            state: S::State::default(),
        }
    }
}

impl<S: Strategy> Clone for Thread<S> {
    fn clone(&self) -> Self {
        Self {
            config: self.config.clone(),
            servers: self.servers.clone(),
            messages: self.messages.clone(),
            server_tools: self.server_tools.clone(),
            turn: self.turn.clone(),
            budget: self.budget.clone(),
            usage: self.usage,
            state: self.state.clone(),
        }
    }
}

impl<S: Strategy> Thread<S> {
    /// Returns the range of the whole conversation, as the context of a model.
    pub fn all(&self) -> Range<usize> {
        0..self.messages.len()
    }

    /// Returns the tools of these servers with the names under which a model is offered them: their own, or
    /// `server__tool` if there are several servers. Names that would be equal, or equal to that of a tool of the
    /// strategy, get distinct names.
    pub fn offered_tools<'a>(&'a self, servers: &[&'a str]) -> Vec<OfferedTool<'a>> {
        let tools = |server: &'a str| self.server_tools.get(server).map_or(&[][..], Vec::as_slice);
        let servers: Vec<(&str, &[Tool])> = servers.iter().map(|server| (*server, tools(server))).collect();
        let of_client = self.turn.reply_options.tools.iter().map(|tool| tool.function().name.clone());
        offered_tools(&servers, &own_tools::<S>().into_iter().chain(of_client).collect())
    }

    /// Returns the tool of `server` that a model called `name`, if there is one.
    pub fn tool_called<'a>(&'a self, server: &'a str, name: &str) -> Option<&'a Tool> {
        let tools = self.server_tools.get(server)?;
        let exact = tools.iter().find(|tool| tool.name == name);
        // Naming all tools takes time, and few have another name.
        exact.or_else(|| {
            self.offered_tools(&[server]).into_iter().find(|tool| tool.name == name).map(|tool| tool.tool)
        })
    }

    /// Returns the tool results of this turn, one per line, for a partial answer.
    pub fn results(&self) -> String {
        let said = &self.messages[self.turn.from.min(self.messages.len())..];
        let calls = |id: &str| {
            said.iter().flat_map(|message| &message.tool_calls).find(|call: &&ToolCall| call.id == id)
        };
        let told = |message: &Message| {
            let call = calls(message.tool_call_id.as_deref()?)?;
            let words = message.content.split_whitespace().collect::<Vec<_>>().join(" ");
            let more = if words.chars().nth(RESULT_MAX).is_some() { " …" } else { "" };
            Some(format!("- {}: {}{more}", call.name, words.chars().take(RESULT_MAX).collect::<String>()))
        };
        let all: Vec<String> = said.iter().filter_map(told).collect();
        all[all.len().saturating_sub(RESULTS_MAX)..].join("\n")
    }

    /// Returns the range of a person's answer and of the question before it.
    pub fn question_and_answer(&self) -> Range<usize> {
        self.turn.from.saturating_sub(1)..self.messages.len()
    }

    /// Returns the last message of a person in this turn, or an empty text if there is none.
    ///
    /// ## Why messages before the turn do not count
    ///
    /// An answer may hold no words of a person. A reply to an earlier question does not answer this one.
    pub fn user_message(&self) -> &str {
        said_last(&self.messages[self.turn.from.min(self.messages.len())..])
    }

    /// Returns the last message of a person in any turn. It gives context and is never an answer.
    pub fn last_user_message(&self) -> &str {
        said_last(&self.messages)
    }
}

/// Returns the names of all tools by which models steer a strategy.
pub(crate) fn own_tools<S: Strategy>() -> BTreeSet<String> {
    S::EDGES.iter().flat_map(|(node, _)| S::node(*node).tools()).map(|tool| tool.name).collect()
}

fn said_last(messages: &[Message]) -> &str {
    messages.iter().rfind(|message| message.role == Role::User).map_or("", |message| &message.content)
}
