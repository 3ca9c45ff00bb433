//! Tests of the worker's requests against real endpoints, child processes and files. Only the thread that sends them is
//! made up.

mod arguments;
mod child;
mod commands;
mod confinement;
mod context_window;
mod endpoint;
mod floods;
mod forms;
mod index;
mod mcp;
mod mcp_floods;
mod mcp_http;
mod mcp_misbehaviour;
mod mcp_processes;
mod mcp_protocol;
mod mcp_restarts;
mod mcp_results;
mod model_floods;
mod models;
mod modern;
mod offers;
mod pins;
mod providers;
mod quirks;
mod recorded;
mod replies;
mod report;
mod requests;
mod scripted;
mod scripted_server;
mod sessions;
mod sight;
pub(crate) mod strictness;
mod tasks;
mod wants;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use serde_json::Value;
use shared::{
    Attempt, DynThread, Event, Fault, FaultKind, InvalidLog, Message, MessageRejected, Next, OpenTask,
    PendingRequest, Policy, ReplyOptions, Request, Response, RunStatus, Safety, Tool, Toolboxes,
    UnendedWrite, Usage, UsageTotal, WebSearch,
};
use store::MemoryIndex;
use uuid::Uuid;
use world::{
    Command, Commands, DeltaSink, Index, LiveWorld, Models, Provider, RequestContext, Server, Servers, World,
};

/// The state of a thread that requests depend on: messages, tools and servers.
#[derive(Default)]
struct Stage {
    messages: Vec<Message>,
    tool_servers: BTreeMap<String, Vec<Tool>>,
    tools: Vec<Tool>,
    schema: Option<Value>,
    reply_options: ReplyOptions,
    /// True if a person has just approved a write.
    is_approved: bool,
}

const ONLY_LOOKS: &str = "the world only looks at a thread";

impl DynThread for Stage {
    fn strategy(&self) -> &'static str {
        "strategy"
    }
    fn tenant(&self) -> &str {
        "acme"
    }
    fn apply(&mut self, _: &Event) -> Result<(), InvalidLog> {
        unreachable!("{ONLY_LOOKS}")
    }
    fn next(&self) -> Result<Next, InvalidLog> {
        unreachable!("{ONLY_LOOKS}")
    }
    fn receive(&self, _: usize, _: Result<(Response, Option<Usage>), Fault>, _: u64) -> Event {
        unreachable!("{ONLY_LOOKS}")
    }
    fn accept_message(
        &self,
        _: Uuid,
        _: &str,
        _: &str,
        _: Policy,
        _: Vec<Message>,
    ) -> Result<Event, MessageRejected> {
        unreachable!("{ONLY_LOOKS}")
    }
    fn status(&self) -> RunStatus {
        RunStatus::Busy
    }
    fn outcome(&self) -> &shared::Outcome {
        unreachable!("{ONLY_LOOKS}")
    }
    fn proposed_calls(&self) -> Vec<shared::ProposedCall> {
        Vec::new()
    }
    fn continues_unanswered(&self) -> bool {
        unreachable!("{ONLY_LOOKS}")
    }
    fn turn_usage(&self) -> &UsageTotal {
        unreachable!("{ONLY_LOOKS}")
    }
    fn usage(&self) -> &UsageTotal {
        unreachable!("{ONLY_LOOKS}")
    }
    fn node(&self) -> Option<String> {
        Some("node".to_owned())
    }
    fn turn(&self) -> Option<Uuid> {
        None
    }
    fn is_first_approved_write(&self, _: &str) -> bool {
        self.is_approved
    }
    fn seq(&self) -> usize {
        3
    }
    fn state(&self) -> Result<Value, serde_json::Error> {
        Ok(Value::Null)
    }
    fn state_after(&self, _: &[Value]) -> Result<Value, serde_json::Error> {
        unreachable!("no world asks for it")
    }
    fn config(&self) -> Result<Value, serde_json::Error> {
        Ok(Value::Null)
    }
    fn servers(&self) -> Vec<&str> {
        self.tool_servers.keys().map(String::as_str).collect()
    }
    fn messages(&self) -> &[Message] {
        &self.messages
    }
    fn reply(&self) -> Option<&str> {
        None
    }
    fn own_tools(&self) -> BTreeSet<String> {
        self.tools.iter().map(|tool| tool.name.clone()).collect()
    }
    fn server_tools(&self, server: &str) -> Option<&[Tool]> {
        self.tool_servers.get(server).map(Vec::as_slice)
    }
    fn models_to_forget(&self, _: &BTreeMap<String, String>) -> Vec<String> {
        Vec::new()
    }
    fn unresolved_writes(&self) -> Vec<usize> {
        Vec::new()
    }
    fn last_attempt(&self, _: usize) -> Option<Attempt> {
        None
    }
    fn unended_writes(&self) -> Vec<UnendedWrite> {
        Vec::new()
    }
    fn is_cancelled(&self) -> bool {
        false
    }
    fn is_only_reading_back(&self) -> bool {
        false
    }
    fn abandoned_tasks(&self) -> &[OpenTask] {
        &[]
    }
    fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }
    fn schema(&self) -> Option<Value> {
        self.schema.clone().or_else(|| self.reply_options.response_format.schema())
    }
    fn reply_options(&self) -> &ReplyOptions {
        &self.reply_options
    }
    fn toolboxes(&self) -> &Toolboxes {
        unreachable!("{ONLY_LOOKS}")
    }
    fn has_client_schema(&self) -> bool {
        self.schema.is_none()
    }
    fn preview<'a>(&self, _: &'a str) -> Option<Cow<'a, str>> {
        unreachable!("{ONLY_LOOKS}")
    }
    fn boxed_clone(&self) -> Box<dyn DynThread> {
        unreachable!("{ONLY_LOOKS}")
    }
    fn messages_of(&self, request: &Request) -> Cow<'_, [Message]> {
        let Request::Chat { context, .. } = request else { unreachable!("{ONLY_LOOKS}") };
        let end = context.end.min(self.messages.len());
        self.messages[context.start.min(end)..end].into()
    }
}

impl Stage {
    fn hearing(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }
}

/// A progress listener that records every message it receives.
#[derive(Default)]
struct Pad(Mutex<Vec<String>>);

#[async_trait]
impl DeltaSink for Pad {
    async fn delta(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

type Outcome = Result<(Response, Option<Usage>), Fault>;

/// Builds a [`LiveWorld`] and installs the TLS provider first: building one fails without it, even if TLS is not used.
fn live(providers: impl IntoIterator<Item = (&'static str, Provider)>, servers: Servers) -> LiveWorld {
    let models = models(providers);
    LiveWorld::new(models, servers, commands([]), Index::lexical(Arc::new(MemoryIndex::default())))
}

/// Builds a world with these models and without servers.
fn live_of(models: Models) -> LiveWorld {
    live_with(models, nobody())
}

fn live_with(models: Models, servers: Servers) -> LiveWorld {
    LiveWorld::new(Arc::new(models), servers, commands([]), Index::lexical(Arc::new(MemoryIndex::default())))
}

fn models(providers: impl IntoIterator<Item = (&'static str, Provider)>) -> Arc<Models> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Arc::new(
        Models::new(providers.into_iter().map(|(name, provider)| (name.to_owned(), provider)).collect())
            .unwrap(),
    )
}

fn commands(commands: impl IntoIterator<Item = (&'static str, Command)>) -> Commands {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Commands::new(commands.into_iter().map(|(name, command)| (name.to_owned(), command)).collect()).unwrap()
}

fn servers(servers: impl IntoIterator<Item = (&'static str, Server)>) -> Servers {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Servers::new(servers.into_iter().map(|(name, server)| (name.to_owned(), server)).collect())
}

fn nobody() -> Servers {
    servers([])
}

fn due(request: Request) -> PendingRequest {
    PendingRequest {
        slot: 0,
        asked_seq: 2,
        request,
        safety: Safety::Read,
        failures: 0,
        attempts: 0,
        previous_error: None,
        task: None,
        input_responses: None,
        is_read_back: false,
    }
}

async fn perform(world: &dyn World, thread: &dyn DynThread, due: &PendingRequest) -> (Outcome, Vec<String>) {
    let pad = Pad::default();
    let ask = RequestContext { thread: Uuid::nil(), due, key: "thread:2:0", node: "node", deltas: &pad };
    let outcome = untimed(world.perform(thread, &ask).await);
    (outcome, pad.0.into_inner().unwrap())
}

/// Removes measured durations from an outcome, so that it is the same on every machine.
fn untimed(outcome: Outcome) -> Outcome {
    let untimed = |meter: Option<Usage>| {
        let meter = Usage { duration_ms: 0, ..meter.expect("whatever came of it, it is metered") };
        (meter != Usage::default()).then_some(meter)
    };
    match outcome {
        Ok((response, meter)) => Ok((response, untimed(meter))),
        Err(fault) => {
            let meter = untimed(fault.usage.map(|usage| *usage)).map(Box::new);
            Err(Fault { usage: meter, ..fault })
        }
    }
}

fn chat(model: &str, range: std::ops::Range<usize>) -> Request {
    Request::Chat {
        model: model.to_owned(),
        system: "Be brief.".to_owned(),
        context: range,
        summarised: false,
        tool_result_tokens: None,
        attachments_max: None,
        tool_servers: Vec::new(),
        tools: Vec::new(),
        response_schema: None,
        web_search: WebSearch::Off,
        prompt: None,
        offered: None,
        parameters: None,
        tool_use: None,
    }
}

fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: format!("what {name} does"),
        parameters: Value::Null,
        safety: Safety::Read,
        max_repeats: None,
        read_back: None,
    }
}

fn fault(outcome: Outcome) -> Fault {
    outcome.expect_err("a fault was expected")
}

fn again(fault: &Fault) -> Option<u64> {
    match fault.kind {
        FaultKind::Transient { retry_after_ms }
        | FaultKind::Unavailable { retry_after_ms, sent: false, .. } => retry_after_ms,
        FaultKind::Permanent
        | FaultKind::ContextExceeded { .. }
        | FaultKind::Oversized(_)
        | FaultKind::InDoubt { .. }
        | FaultKind::Unavailable { sent: true, .. } => {
            panic!("this should be asked again: {fault:?}")
        }
    }
}

/// Returns true if `pause` is `delay` milliseconds, or up to a quarter longer.
fn named(pause: Option<u64>, delay: u64) -> bool {
    pause.is_some_and(|pause| (delay..=delay + delay / 4).contains(&pause))
}

mod rehearsal {
    use shared::{FaultKind, Request, Response, Simulation};

    use uuid::Uuid;
    use world::{DiscardDeltas, RequestContext, World as _};

    use super::{Stage, due, fault, live, nobody, perform};

    #[tokio::test]
    async fn it_waits_and_streams() {
        let rehearsal =
            Simulation { wait_ms: 60, text: "one two  three".to_owned(), ..Simulation::default() };
        let began = std::time::Instant::now();
        let (outcome, streamed) =
            perform(&live([], nobody()), &Stage::default(), &due(Request::Simulate(rehearsal))).await;
        assert!(60 <= began.elapsed().as_millis());
        assert_eq!(streamed, ["one ", "two ", " ", "three"]);
        assert_eq!(outcome, Ok((Response::Echo { text: "one two  three".to_owned() }, None)));
    }

    #[tokio::test]
    async fn whatever_is_asked_is_timed_whatever_comes_of_it() {
        let world = live([], nobody());
        for fails in [None, Some("mend me".to_owned())] {
            let due =
                due(Request::Simulate(Simulation { wait_ms: 60, error: fails, ..Simulation::default() }));
            let ask = RequestContext {
                thread: Uuid::nil(),
                due: &due,
                key: "",
                node: "node",
                deltas: &DiscardDeltas,
            };
            let meter = match world.perform(&Stage::default(), &ask).await {
                Ok((_, meter)) => meter.unwrap(),
                Err(fault) => *fault.usage.unwrap(),
            };
            assert!(60 <= meter.duration_ms);
        }
    }

    #[tokio::test]
    async fn it_fails_once_and_as_often_as_it_should() {
        let world = live([], nobody());
        let stage = Stage::default();
        let mut due = due(Request::Simulate(Simulation {
            failures: 2,
            error: Some("mend me".to_owned()),
            ..Simulation::default()
        }));
        let first = fault(perform(&world, &stage, &due).await.0);
        assert_eq!((first.error.as_str(), first.kind), ("mend me", FaultKind::Permanent));
        due.failures = 1;
        assert_eq!(fault(perform(&world, &stage, &due).await.0).error, "simulated failure 2 of 2");
        due.failures = 2;
        assert!(perform(&world, &stage, &due).await.0.is_ok());
    }
}
