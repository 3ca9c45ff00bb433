//! Thread without the types of its strategy.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value;
use uuid::Uuid;

use crate::{
    event::Event,
    message::{Message, Tool},
    outcome::Outcome,
    progress::{Attempt, InvalidLog, MessageRejected, Next, OpenTask, RunStatus, UnendedWrite},
    reply_options::ReplyOptions,
    request::{Fault, Request, Response},
    status::Policy,
    strategy::ProposedCall,
    tool_names::{OfferedTool, offered_tools},
    toolboxes::Toolboxes,
    usage::{Usage, UsageTotal},
};

/// A thread with its types erased. Each method is [`Progress`](crate::Progress)'s of the same name, or reads its thread.
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
    /// See [`Progress::models_to_forget`](crate::Progress::models_to_forget).
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
