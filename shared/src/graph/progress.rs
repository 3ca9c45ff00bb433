//! Folded log of a typed strategy, as a thread without types.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value;
use uuid::Uuid;

use super::DynThread;
use crate::{
    context::read_more_tool,
    event::{Event, InterruptKind},
    message::{Message, Role, Tool},
    outcome::Outcome,
    progress::{Attempt, InvalidLog, MessageRejected, Next, OpenTask, Progress, RunStatus, UnendedWrite},
    reply_options::ReplyOptions,
    request::{Fault, Request, Response},
    status::Policy,
    strategy::{ProposedCall, Strategy, own_tools},
    toolboxes::Toolboxes,
    usage::{Usage, UsageTotal},
};

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
