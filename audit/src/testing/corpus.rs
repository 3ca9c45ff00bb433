//! Generates any number of plausible threads, to test and measure code that reads many of them.
//!
//! Today's code runs each thread. Answers are drawn from recorded answers at the same node; some are missing, and
//! some turns are cancelled. The same number gives the same thread on every machine.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use fastrand::Rng;
use shared::{
    Attempted, Cancelled, DynThread, Event, Fault, Graph, InvalidLog, Message, Next, Policy, Request,
    Response, RunStatus, Usage, rerun,
};
use uuid::Uuid;

/// Maximum turns and events of a thread.
const TURNS: usize = 3;
const EVENTS: usize = 300;

/// One answer in this many fails, and one request in this many is cancelled.
const FAILURES: u32 = 20;
const CANCELS: u32 = 60;

/// Time of every message, the same on every machine.
const TIME: &str = "2026-01-01T00:00:00Z";

/// Recorded openings, messages and answers by strategy.
pub struct Corpus {
    worlds: Vec<World>,
}

/// Recorded data of one strategy.
struct World {
    graph: &'static dyn Graph,
    openings: Vec<Event>,
    messages: Vec<Vec<Message>>,
    answers: BTreeMap<Place, Vec<RecordedAnswer>>,
}

/// Place of a request: the node and the kind of request.
type Place = (String, &'static str);

type RecordedAnswer = (Response, Option<Usage>);

/// Reasons why a corpus cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// A recorded log cannot be read.
    #[error("cannot read {path}: {error}")]
    Read {
        /// Path of the log.
        path: PathBuf,
        /// The underlying error.
        error: io::Error,
    },
    /// A recorded log is not valid for its strategy.
    #[error("{path} is not a valid log of its strategy: {error}")]
    Foreign {
        /// Path of the log.
        path: PathBuf,
        /// The underlying error.
        error: InvalidLog,
    },
}

impl Corpus {
    /// Builds a corpus from the recorded logs of these strategies, the files `NAME/*.jsonl` under `folder`.
    ///
    /// # Errors
    ///
    /// [`CorpusError`] if a log cannot be read, or a strategy has none.
    pub fn of(
        graphs: impl IntoIterator<Item = &'static dyn Graph>,
        folder: &Path,
    ) -> Result<Self, CorpusError> {
        let worlds =
            graphs.into_iter().map(|it| World::of(it, &folder.join(it.name()))).collect::<Result<_, _>>()?;
        Ok(Self { worlds })
    }

    /// Returns the log of thread `number`. Strategies alternate.
    ///
    /// # Errors
    ///
    /// [`InvalidLog`] if today's code cannot continue.
    pub fn log(&self, number: u64) -> Result<Vec<Event>, InvalidLog> {
        let nth = usize::try_from(number % self.worlds.len() as u64).unwrap_or_default();
        ThreadGenerator::new(&self.worlds[nth], Rng::with_seed(number)).generate()
    }
}

impl World {
    fn of(graph: &'static dyn Graph, folder: &Path) -> Result<Self, CorpusError> {
        let unread = |path: &Path, error| CorpusError::Read { path: path.to_owned(), error };
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let mut paths: Vec<_> =
            entries.map_err(|error| unread(folder, error))?.iter().map(fs::DirEntry::path).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
        paths.sort();
        let mut world = Self { graph, openings: vec![], messages: vec![], answers: BTreeMap::new() };
        for path in paths {
            let text = fs::read_to_string(&path).map_err(|error| unread(&path, error))?;
            let script: Result<Vec<Event>, _> = text.lines().map(serde_json::from_str).collect();
            let script = script.map_err(|error| unread(&path, error.into()))?;
            world.collect(&script).map_err(|error| CorpusError::Foreign { path, error })?;
        }
        if world.openings.is_empty() {
            return Err(unread(folder, io::Error::new(io::ErrorKind::NotFound, "no recorded log is there")));
        }
        Ok(world)
    }

    /// Collects the data of a recorded log.
    fn collect(&mut self, script: &[Event]) -> Result<(), InvalidLog> {
        let mut thread = self.graph.begin();
        for event in rerun(self.graph, script)?.log {
            if let Event::Opened(_) = &event {
                self.openings.push(event.clone());
            } else if let Event::TurnStarted(started) = &event {
                self.messages.push(started.messages.clone());
            } else if let Event::Answered(answered) = &event
                && let Next::Perform(due) = thread.next()?
                && let Some(due) = due.iter().find(|due| due.slot == answered.slot)
            {
                let place = (thread.node().unwrap_or_default(), kind(&due.request));
                self.answers.entry(place).or_default().push(answered.clone().outcome());
            }
            thread.apply(&event)?;
        }
        Ok(())
    }
}

/// A thread that is being generated.
struct ThreadGenerator<'a> {
    world: &'a World,
    rng: Rng,
    thread: Box<dyn DynThread>,
    log: Vec<Event>,
}

impl<'a> ThreadGenerator<'a> {
    fn new(world: &'a World, rng: Rng) -> Self {
        Self { world, rng, thread: world.graph.begin(), log: Vec::new() }
    }

    fn generate(mut self) -> Result<Vec<Event>, InvalidLog> {
        let opening = self.rng.usize(..self.world.openings.len());
        self.append(self.world.openings[opening].clone())?;
        let mut turns = self.rng.usize(1..=TURNS);
        while self.log.len() < EVENTS {
            match self.thread.next()? {
                Next::Append(event) => self.append(event)?,
                Next::Perform(_) if self.rng.u32(..CANCELS) == 0 => {
                    self.append(
                        Cancelled { actor: "corpus".to_owned(), caller: None, rolled_back: false }.into(),
                    )?;
                }
                Next::Perform(due) => {
                    for due in due.iter().filter(|call| call.is_write()) {
                        self.append(Attempted { slot: due.slot, worker: "corpus".to_owned() }.into())?;
                    }
                    for due in due {
                        let outcome = self.outcome(&due.request);
                        let event = self.thread.receive(due.slot, outcome, 0);
                        self.append(event)?;
                    }
                }
                Next::Wait if turns == 0 || matches!(self.thread.status(), RunStatus::Failed { .. }) => {
                    break;
                }
                Next::Wait => {
                    turns -= 1;
                    let Some(event) = self.next_message() else { break };
                    self.append(event)?;
                }
            }
        }
        Ok(self.log)
    }

    fn append(&mut self, event: Event) -> Result<(), InvalidLog> {
        self.thread.apply(&event)?;
        self.log.push(event);
        Ok(())
    }

    /// Draws the next message of a person; `None` if the thread accepts none of the recorded messages.
    fn next_message(&mut self) -> Option<Event> {
        let messages = self.rng.choice(&self.world.messages)?.clone();
        let turn = Uuid::from_u128(self.rng.u128(..));
        self.thread.accept_message(turn, "corpus", TIME, Policy::Auto, messages).ok()
    }

    fn outcome(&mut self, request: &Request) -> Result<RecordedAnswer, Fault> {
        if self.rng.u32(..FAILURES) == 0 {
            return Err(Fault::transient("the line was cut"));
        }
        let place = (self.thread.node().unwrap_or_default(), kind(request));
        let answers = self.world.answers.get(&place).map(Vec::as_slice).unwrap_or_default();
        self.rng.choice(answers).cloned().ok_or_else(|| Fault::transient("no recorded answer"))
    }
}

/// Kind of a request, without its content.
fn kind(request: &Request) -> &'static str {
    match request {
        Request::Chat { .. } => "chat",
        Request::ListTools { .. } => "list_tools",
        Request::CallTool { .. } => "call_tool",
        Request::ReadMore { .. } => "read_more",
        Request::ListPrompts { .. } => "list_prompts",
        Request::GetPrompt { .. } => "get_prompt",
        Request::Describe { .. } => "describe",
        Request::Search { .. } => "search",
        Request::Index { .. } => "index",
        Request::Simulate(_) => "rehearse",
    }
}
