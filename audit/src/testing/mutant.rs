//! Today's code with one wrong edge: a replay must name the node.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::Value;
use shared::{
    Attempt, DynThread, Event, Fault, Goto, Graph, InvalidLog, Message, MessageRejected, Next, NodeInfo,
    OpenTask, Policy, ProposedCall, ReplyOption, ReplyOptions, Request, Response, RunStatus, ServerScope,
    Tool, Toolboxes, Topology, UnendedWrite, Usage, UsageTotal,
};
use uuid::Uuid;

/// A strategy and a node. Whatever the node decides, the turn ends.
pub struct Mutant(pub &'static dyn Graph, pub &'static str);

struct Thread(Box<dyn DynThread>, &'static str);

impl Graph for Mutant {
    fn begin(&self) -> Box<dyn DynThread> {
        Box::new(Thread(self.0.begin(), self.1))
    }
    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn version(&self) -> u32 {
        self.0.version()
    }
    fn about(&self) -> &'static str {
        self.0.about()
    }
    fn defaults(&self) -> Value {
        self.0.defaults()
    }
    fn config_schema(&self) -> Value {
        self.0.config_schema()
    }
    fn check_config(&self, config: &Value) -> Result<(), String> {
        self.0.check_config(config)
    }
    fn prompts(&self) -> &'static [&'static str] {
        self.0.prompts()
    }
    fn topology(&self) -> Topology {
        self.0.topology()
    }
    fn server_scope(&self) -> ServerScope {
        self.0.server_scope()
    }
    fn reply_options(&self) -> &'static [ReplyOption] {
        self.0.reply_options()
    }
    fn nodes(&self) -> Vec<NodeInfo> {
        self.0.nodes()
    }
}

impl DynThread for Thread {
    fn next(&self) -> Result<Next, InvalidLog> {
        Ok(match self.0.next()? {
            Next::Append(Event::Decided(mut decided)) if decided.node == self.1 => {
                decided.to = Goto::End;
                Next::Append(decided.into())
            }
            next @ (Next::Append(_) | Next::Perform(_) | Next::Wait) => next,
        })
    }
    fn apply(&mut self, event: &Event) -> Result<(), InvalidLog> {
        self.0.apply(event)
    }
    fn strategy(&self) -> &'static str {
        self.0.strategy()
    }
    fn tenant(&self) -> &str {
        self.0.tenant()
    }
    fn receive(
        &self,
        slot: usize,
        outcome: Result<(Response, Option<Usage>), Fault>,
        backoff_ms: u64,
    ) -> Event {
        self.0.receive(slot, outcome, backoff_ms)
    }
    fn accept_message(
        &self,
        turn: Uuid,
        by: &str,
        time: &str,
        policy: Policy,
        messages: Vec<Message>,
    ) -> Result<Event, MessageRejected> {
        self.0.accept_message(turn, by, time, policy, messages)
    }
    fn status(&self) -> RunStatus {
        self.0.status()
    }
    fn proposed_calls(&self) -> Vec<ProposedCall> {
        self.0.proposed_calls()
    }
    fn continues_unanswered(&self) -> bool {
        self.0.continues_unanswered()
    }
    fn node(&self) -> Option<String> {
        self.0.node()
    }
    fn turn(&self) -> Option<Uuid> {
        self.0.turn()
    }
    fn seq(&self) -> usize {
        self.0.seq()
    }
    fn is_first_approved_write(&self, server: &str) -> bool {
        self.0.is_first_approved_write(server)
    }
    fn state(&self) -> Result<Value, serde_json::Error> {
        self.0.state()
    }
    fn state_after(&self, facts: &[Value]) -> Result<Value, serde_json::Error> {
        self.0.state_after(facts)
    }
    fn config(&self) -> Result<Value, serde_json::Error> {
        self.0.config()
    }
    fn servers(&self) -> Vec<&str> {
        self.0.servers()
    }
    fn messages(&self) -> &[Message] {
        self.0.messages()
    }
    fn reply(&self) -> Option<&str> {
        self.0.reply()
    }
    fn outcome(&self) -> &shared::Outcome {
        self.0.outcome()
    }
    fn turn_usage(&self) -> &UsageTotal {
        self.0.turn_usage()
    }
    fn usage(&self) -> &UsageTotal {
        self.0.usage()
    }
    fn own_tools(&self) -> std::collections::BTreeSet<String> {
        self.0.own_tools()
    }
    fn server_tools(&self, server: &str) -> Option<&[Tool]> {
        self.0.server_tools(server)
    }
    fn models_to_forget(&self, forgotten: &BTreeMap<String, String>) -> Vec<String> {
        self.0.models_to_forget(forgotten)
    }
    fn unresolved_writes(&self) -> Vec<usize> {
        self.0.unresolved_writes()
    }
    fn last_attempt(&self, slot: usize) -> Option<Attempt> {
        self.0.last_attempt(slot)
    }
    fn unended_writes(&self) -> Vec<UnendedWrite> {
        self.0.unended_writes()
    }
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
    fn is_only_reading_back(&self) -> bool {
        self.0.is_only_reading_back()
    }
    fn abandoned_tasks(&self) -> &[OpenTask] {
        self.0.abandoned_tasks()
    }
    fn tools(&self) -> Vec<Tool> {
        self.0.tools()
    }
    fn messages_of(&self, request: &Request) -> Cow<'_, [Message]> {
        self.0.messages_of(request)
    }
    fn schema(&self) -> Option<Value> {
        self.0.schema()
    }

    fn reply_options(&self) -> &ReplyOptions {
        self.0.reply_options()
    }

    fn toolboxes(&self) -> &Toolboxes {
        self.0.toolboxes()
    }

    fn has_client_schema(&self) -> bool {
        self.0.has_client_schema()
    }
    fn preview<'a>(&self, partial: &'a str) -> Option<Cow<'a, str>> {
        self.0.preview(partial)
    }
    fn boxed_clone(&self) -> Box<dyn DynThread> {
        Box::new(Self(self.0.clone(), self.1))
    }
}
