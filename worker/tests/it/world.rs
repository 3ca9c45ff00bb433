//! The world: real endpoints, real child processes, real files. Only the thread that asks is made up.

mod arguments;
mod child;
mod commands;
mod endpoint;
mod forms;
mod index;
mod mcp;
mod mcp_http;
mod models;
mod modern;
mod offers;
mod pins;
mod quirks;
mod recorded;
mod scripted;
mod sessions;
mod sight;
mod strictness;
mod wants;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use serde_json::Value;
use shared::{
    Corrupt, Due, Event, Fault, Message, Meter, Next, Policy, Remedy, Replay, Request, Response, Safety,
    Searching, Standing, Tally, Tool, Unheard,
};
use store::MemoryIndex;
use uuid::Uuid;
use worker::world::{Ask, Command, Commands, Deltas, Index, Live, Models, Provider, Server, Servers, World};

/// A thread as far as the world looks at it.
#[derive(Default)]
struct Stage {
    messages: Vec<Message>,
    toolboxes: BTreeMap<String, Vec<Tool>>,
    tools: Vec<Tool>,
    schema: Option<Value>,
}

const ONLY_LOOKS: &str = "the world only looks at a thread";

impl Replay for Stage {
    fn strategy(&self) -> &'static str {
        "strategy"
    }
    fn tenant(&self) -> &str {
        "acme"
    }
    fn apply(&mut self, _: &Event) -> Result<(), Corrupt> {
        unreachable!("{ONLY_LOOKS}")
    }
    fn next(&self) -> Result<Next, Corrupt> {
        unreachable!("{ONLY_LOOKS}")
    }
    fn receive(&self, _: usize, _: Result<(Response, Option<Meter>), Fault>, _: u64) -> Event {
        unreachable!("{ONLY_LOOKS}")
    }
    fn hear(&self, _: Uuid, _: &str, _: &str, _: Policy, _: Vec<Message>) -> Result<Event, Unheard> {
        unreachable!("{ONLY_LOOKS}")
    }
    fn standing(&self) -> Standing {
        Standing::Busy
    }
    fn turn_took(&self) -> &Tally {
        unreachable!("{ONLY_LOOKS}")
    }
    fn took(&self) -> &Tally {
        unreachable!("{ONLY_LOOKS}")
    }
    fn node(&self) -> Option<String> {
        Some("node".to_owned())
    }
    fn turn(&self) -> Option<Uuid> {
        None
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
    fn messages(&self) -> &[Message] {
        &self.messages
    }
    fn reply(&self) -> Option<&str> {
        None
    }
    fn toolbox(&self, server: &str) -> Option<&[Tool]> {
        self.toolboxes.get(server).map(Vec::as_slice)
    }
    fn at_stake(&self) -> Vec<usize> {
        Vec::new()
    }
    fn tools(&self) -> Vec<Tool> {
        self.tools.clone()
    }
    fn schema(&self) -> Option<Value> {
        self.schema.clone()
    }
}

impl Stage {
    fn hearing(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }
}

/// Somebody who writes down what they hear.
#[derive(Default)]
struct Pad(Mutex<Vec<String>>);

#[async_trait]
impl Deltas for Pad {
    async fn delta(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_owned());
    }
}

type Outcome = Result<(Response, Option<Meter>), Fault>;

/// Everything that this file builds needs TLS to be settled first, even where it is not used.
fn live(providers: impl IntoIterator<Item = (&'static str, Provider)>, servers: Servers) -> Live {
    let models = models(providers);
    Live::new(models, servers, commands([]), Index::lexical(Arc::new(MemoryIndex::default())))
}

fn models(providers: impl IntoIterator<Item = (&'static str, Provider)>) -> Arc<Models> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Arc::new(Models::new(providers.into_iter().map(|(name, it)| (name.to_owned(), it)).collect()).unwrap())
}

fn commands(commands: impl IntoIterator<Item = (&'static str, Command)>) -> Commands {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Commands::new(commands.into_iter().map(|(name, it)| (name.to_owned(), it)).collect()).unwrap()
}

fn servers(servers: impl IntoIterator<Item = (&'static str, Server)>) -> Servers {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Servers::new(servers.into_iter().map(|(name, it)| (name.to_owned(), it)).collect())
}

fn nobody() -> Servers {
    servers([])
}

fn due(request: Request) -> Due {
    Due {
        slot: 0,
        asked: 2,
        request,
        safety: Safety::Read,
        falters: 0,
        tries: 0,
        complaint: None,
        supplies: None,
    }
}

async fn perform(world: &dyn World, thread: &dyn Replay, due: &Due) -> (Outcome, Vec<String>) {
    let pad = Pad::default();
    let ask = Ask { thread: Uuid::nil(), due, key: "thread:2:0", node: "node", deltas: &pad };
    let outcome = untimed(world.perform(thread, &ask).await);
    (outcome, pad.0.into_inner().unwrap())
}

/// The outcome as it is on any machine: every request is timed, and here no test depends on how long one took.
fn untimed(outcome: Outcome) -> Outcome {
    let untimed = |meter: Option<Meter>| {
        let meter = Meter { ms: 0, ..meter.expect("whatever came of it, it is metered") };
        (meter != Meter::default()).then_some(meter)
    };
    match outcome {
        Ok((response, meter)) => Ok((response, untimed(meter))),
        Err(fault) => {
            let meter = untimed(fault.meter.map(|it| *it)).map(Box::new);
            Err(Fault { meter, ..fault })
        }
    }
}

fn chat(model: &str, hears: std::ops::Range<usize>) -> Request {
    Request::Chat {
        model: model.to_owned(),
        system: "Be brief.".to_owned(),
        hears,
        toolboxes: Vec::new(),
        tools: Vec::new(),
        shape: None,
        searching: Searching::No,
    }
}

fn tool(name: &str) -> Tool {
    Tool {
        name: name.to_owned(),
        description: format!("what {name} does"),
        parameters: Value::Null,
        safety: Safety::Read,
    }
}

fn fault(outcome: Outcome) -> Fault {
    outcome.expect_err("a fault was expected")
}

fn again(fault: &Fault) -> Option<u64> {
    match fault.remedy {
        Remedy::Again { after_ms } => after_ms,
        Remedy::Operator | Remedy::Doubt { .. } => panic!("this should be asked again: {fault:?}"),
    }
}

/// Whether a pause is so long as was said, or up to a quarter longer.
fn named(pause: Option<u64>, said: u64) -> bool {
    pause.is_some_and(|it| (said..=said + said / 4).contains(&it))
}

mod rehearsal {
    use shared::{Rehearsal, Remedy, Request, Response};

    use uuid::Uuid;
    use worker::world::{Ask, NoDeltas, World as _};

    use super::{Stage, due, fault, live, nobody, perform};

    #[tokio::test]
    async fn it_waits_and_streams() {
        let rehearsal = Rehearsal { wait_ms: 60, says: "one two  three".to_owned(), ..Rehearsal::default() };
        let began = std::time::Instant::now();
        let (outcome, heard) =
            perform(&live([], nobody()), &Stage::default(), &due(Request::Rehearse(rehearsal))).await;
        assert!(60 <= began.elapsed().as_millis());
        assert_eq!(heard, ["one ", "two ", " ", "three"]);
        assert_eq!(outcome, Ok((Response::Echo { says: "one two  three".to_owned() }, None)));
    }

    #[tokio::test]
    async fn whatever_is_asked_is_timed_whatever_comes_of_it() {
        let world = live([], nobody());
        for fails in [None, Some("mend me".to_owned())] {
            let due = due(Request::Rehearse(Rehearsal { wait_ms: 60, fails, ..Rehearsal::default() }));
            let ask = Ask { thread: Uuid::nil(), due: &due, key: "", node: "node", deltas: &NoDeltas };
            let meter = match world.perform(&Stage::default(), &ask).await {
                Ok((_, meter)) => meter.unwrap(),
                Err(fault) => *fault.meter.unwrap(),
            };
            assert!(60 <= meter.ms);
        }
    }

    #[tokio::test]
    async fn it_fails_once_and_falters_as_often_as_it_should() {
        let world = live([], nobody());
        let stage = Stage::default();
        let mut due = due(Request::Rehearse(Rehearsal {
            falters: 2,
            fails: Some("mend me".to_owned()),
            ..Rehearsal::default()
        }));
        let first = fault(perform(&world, &stage, &due).await.0);
        assert_eq!((first.error.as_str(), first.remedy), ("mend me", Remedy::Operator));
        due.falters = 1;
        assert_eq!(fault(perform(&world, &stage, &due).await.0).error, "rehearsed falter 2 of 2");
        due.falters = 2;
        assert!(perform(&world, &stage, &due).await.0.is_ok());
    }
}
