//! Threads as they might have been lived, as many as wanted: what whoever looks at many threads is tested and measured with.
//!
//! Each is lived by today's code. What the world says in it is drawn from what it said at the same node in recorded logs,
//! sometimes nothing, and sometimes somebody calls off. The same number is the same thread, on every machine.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use fastrand::Rng;
use shared::{
    Attempted, Cancelled, Corrupt, Event, Fault, Graph, Message, Meter, Next, Policy, Replay, Request,
    Response, Standing, reenact,
};
use uuid::Uuid;

/// How many turns a thread has at most, and how many events.
const TURNS: usize = 3;
const EVENTS: usize = 300;

/// One in so many answers does not come, and before one in so many somebody calls off.
const FALTERS: u32 = 20;
const CANCELS: u32 = 60;

/// When every message was said: the same on every machine.
const TIME: &str = "2026-01-01T00:00:00Z";

/// What recorded logs say of the world, by strategy.
pub struct Corpus {
    worlds: Vec<World>,
}

/// What the world was seen to say to one strategy.
struct World {
    graph: &'static dyn Graph,
    openings: Vec<Event>,
    messages: Vec<Vec<Message>>,
    answers: BTreeMap<Place, Vec<Answer>>,
}

/// Where something is asked: the node, and what kind of request it is.
type Place = (String, &'static str);

type Answer = (Response, Option<Meter>);

/// Why there is no corpus.
#[derive(Debug, thiserror::Error)]
pub enum Unmade {
    /// A recorded log cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Where it is.
        path: PathBuf,
        /// What is the matter.
        error: io::Error,
    },
    /// A recorded log is none of its strategy.
    #[error("{path} is no log of its strategy: {error}")]
    Foreign {
        /// Where it is.
        path: PathBuf,
        /// What is the matter.
        error: Corrupt,
    },
}

impl Corpus {
    /// From the recorded logs of these strategies: the files `NAME/*.jsonl` under `folder`.
    ///
    /// # Errors
    ///
    /// [`Unmade`], if one of them cannot be read, or there is none.
    pub fn of(graphs: impl IntoIterator<Item = &'static dyn Graph>, folder: &Path) -> Result<Self, Unmade> {
        let worlds =
            graphs.into_iter().map(|it| World::of(it, &folder.join(it.name()))).collect::<Result<_, _>>()?;
        Ok(Self { worlds })
    }

    /// The log of thread `number`, all strategies in turn.
    ///
    /// # Errors
    ///
    /// [`Corrupt`] if today's code could not go on.
    pub fn log(&self, number: u64) -> Result<Vec<Event>, Corrupt> {
        let nth = usize::try_from(number % self.worlds.len() as u64).unwrap_or_default();
        Life::new(&self.worlds[nth], Rng::with_seed(number)).live()
    }
}

impl World {
    fn of(graph: &'static dyn Graph, folder: &Path) -> Result<Self, Unmade> {
        let unread = |path: &Path, error| Unmade::Read { path: path.to_owned(), error };
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut paths: Vec<_> =
            entries.map_err(|it| unread(folder, it))?.iter().map(fs::DirEntry::path).collect();
        paths.retain(|it| it.extension().is_some_and(|it| it == "jsonl"));
        paths.sort();
        let mut world = Self { graph, openings: vec![], messages: vec![], answers: BTreeMap::new() };
        for path in paths {
            let text = fs::read_to_string(&path).map_err(|it| unread(&path, it))?;
            let script: Result<Vec<Event>, _> = text.lines().map(serde_json::from_str).collect();
            let script = script.map_err(|it| unread(&path, it.into()))?;
            world.hear(&script).map_err(|error| Unmade::Foreign { path, error })?;
        }
        if world.openings.is_empty() {
            return Err(unread(folder, io::Error::new(io::ErrorKind::NotFound, "no recorded log is there")));
        }
        Ok(world)
    }

    /// Takes note of all that a recorded world says.
    fn hear(&mut self, script: &[Event]) -> Result<(), Corrupt> {
        let mut thread = self.graph.begin();
        for event in reenact(self.graph, script)?.log {
            if let Event::Opened(_) = &event {
                self.openings.push(event.clone());
            } else if let Event::Heard(it) = &event {
                self.messages.push(it.messages.clone());
            } else if let Event::Answered(it) = &event
                && let Next::Perform(due) = thread.next()?
                && let Some(due) = due.iter().find(|due| due.slot == it.slot)
            {
                let place = (thread.node().unwrap_or_default(), kind(&due.request));
                self.answers.entry(place).or_default().push(it.clone().outcome());
            }
            thread.apply(&event)?;
        }
        Ok(())
    }
}

/// One thread under way.
struct Life<'a> {
    world: &'a World,
    rng: Rng,
    thread: Box<dyn Replay>,
    log: Vec<Event>,
}

impl<'a> Life<'a> {
    fn new(world: &'a World, rng: Rng) -> Self {
        Self { world, rng, thread: world.graph.begin(), log: Vec::new() }
    }

    fn live(mut self) -> Result<Vec<Event>, Corrupt> {
        let opening = self.rng.usize(..self.world.openings.len());
        self.happen(self.world.openings[opening].clone())?;
        let mut turns = self.rng.usize(1..=TURNS);
        while self.log.len() < EVENTS {
            match self.thread.next()? {
                Next::Append(event) => self.happen(event)?,
                Next::Perform(_) if self.rng.u32(..CANCELS) == 0 => {
                    self.happen(Cancelled { by: "corpus".to_owned() }.into())?;
                }
                Next::Perform(due) => {
                    for due in due.iter().filter(|it| it.is_write()) {
                        self.happen(Attempted { slot: due.slot, worker: "corpus".to_owned() }.into())?;
                    }
                    for due in due {
                        let outcome = self.outcome(&due.request);
                        let event = self.thread.receive(due.slot, outcome, 0);
                        self.happen(event)?;
                    }
                }
                Next::Rest if turns == 0 || matches!(self.thread.standing(), Standing::Failed { .. }) => {
                    break;
                }
                Next::Rest => {
                    turns -= 1;
                    let Some(event) = self.hear() else { break };
                    self.happen(event)?;
                }
            }
        }
        Ok(self.log)
    }

    fn happen(&mut self, event: Event) -> Result<(), Corrupt> {
        self.thread.apply(&event)?;
        self.log.push(event);
        Ok(())
    }

    /// What a person says now; `None` if nothing of what persons were seen to say can be heard.
    fn hear(&mut self) -> Option<Event> {
        let messages = self.rng.choice(&self.world.messages)?.clone();
        let turn = Uuid::from_u128(self.rng.u128(..));
        self.thread.hear(turn, "corpus", TIME, Policy::Auto, messages).ok()
    }

    fn outcome(&mut self, request: &Request) -> Result<Answer, Fault> {
        if self.rng.u32(..FALTERS) == 0 {
            return Err(Fault::again("the line was cut"));
        }
        let place = (self.thread.node().unwrap_or_default(), kind(request));
        let answers = self.world.answers.get(&place).map(Vec::as_slice).unwrap_or_default();
        self.rng.choice(answers).cloned().ok_or_else(|| Fault::again("nobody was there"))
    }
}

/// What is asked, whatever the words.
fn kind(request: &Request) -> &'static str {
    match request {
        Request::Chat { .. } => "chat",
        Request::ListTools { .. } => "list_tools",
        Request::CallTool { .. } => "call_tool",
        Request::ListPrompts { .. } => "list_prompts",
        Request::GetPrompt { .. } => "get_prompt",
        Request::Describe { .. } => "describe",
        Request::Search { .. } => "search",
        Request::Index { .. } => "index",
        Request::Rehearse(_) => "rehearse",
    }
}
