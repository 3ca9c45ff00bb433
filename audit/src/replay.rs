//! Today's code at every point of many old logs: which threads it would live otherwise, sorted by where they part first.

mod junit;
mod sarif;

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use serde::Serialize;
use shared::{Divergence, Event, Field, Verifier};
use store::{Error, Reader, Recorded, Round, Store, Strategies, ThreadId};

pub use junit::junit;
pub use sarif::sarif;

/// How many of the threads that could not be checked are kept; all are counted.
const KEPT: usize = 100;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many threads were looked at.
    pub threads: u64,
    /// How many events.
    pub events: u64,
    /// How many of the threads would be lived otherwise.
    pub diverged: u64,
    /// Those, by where they part first: decisions before questions before prompts, and what is frequent before what is
    /// rare.
    pub clusters: Vec<Cluster>,
    /// How many threads could not be checked to their end.
    pub unchecked: u64,
    /// The first of those, at most a hundred.
    pub not_checked: Vec<NotChecked>,
    /// The threads by their strategy.
    pub strategies: BTreeMap<String, Share>,
}

/// The threads of one strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// How many there were.
    pub threads: u64,
    /// How many of them would go as they went.
    pub same: u64,
}

/// Threads that part from today's code in one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cluster {
    /// Their strategy.
    pub strategy: String,
    /// The node that decides otherwise.
    pub node: String,
    /// What of its decision differs: a path, with `*` for every number in it.
    pub field: String,
    /// How many threads.
    pub threads: u64,
    /// One of them: the oldest.
    pub example: Example,
}

/// One thread of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Which.
    pub thread: ThreadId,
    /// Where it parts first.
    #[serde(flatten)]
    pub divergence: Divergence,
}

/// A thread that could not be checked to its end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NotChecked {
    /// Which.
    pub thread: ThreadId,
    /// Why, in words.
    pub why: String,
}

/// Sets the logs of a round against today's code; reworded prompts only if they are asked for.
///
/// # Errors
///
/// As [`Store::read_logs`].
pub async fn replay(
    store: &Store,
    strategies: &Strategies,
    round: &Round,
    prompts: bool,
) -> Result<Report, Error> {
    let strategies = Arc::new(strategies.clone());
    let make =
        move || Replayer { strategies: Arc::clone(&strategies), prompts, found: Found::default(), log: None };
    let read = store.read_logs(round, make).await?;
    Ok(read.into_iter().map(Replayer::done).fold(Found::default(), Found::and).report())
}

/// Reads some of the logs.
struct Replayer {
    strategies: Arc<Strategies>,
    prompts: bool,
    found: Found,
    log: Option<Log>,
}

/// The log that is being read.
struct Log {
    thread: ThreadId,
    strategy: String,
    /// None once it cannot be checked any further.
    verifier: Option<Verifier>,
    /// Where it parts first; a reworded prompt counts only until something else is found.
    first: Option<Divergence>,
}

impl Reader for Replayer {
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        if self.log.as_ref().is_none_or(|it| it.thread != thread) {
            self.end();
            self.log = Some(self.begin(thread, event.as_ref().ok()));
        }
        self.found.events += 1;
        let Some(log) = &mut self.log else { return };
        let Some(verifier) = &mut log.verifier else { return };
        let seen = match event {
            Ok(it) => verifier.see(&it.event).map_err(|error| format!("event {}: {error}", it.seq)),
            Err(error) => Err(error.to_string()),
        };
        match seen {
            Ok(divergence) => {
                let counts = |it: &Divergence| !it.field.is_prompt() || self.prompts;
                if log.first.as_ref().is_none_or(|it| it.field.is_prompt())
                    && let Some(divergence) = divergence.filter(counts)
                    && (log.first.is_none() || !divergence.field.is_prompt())
                {
                    log.first = Some(divergence);
                }
            }
            Err(why) => {
                log.verifier = None;
                self.found.not_checked(thread, why);
            }
        }
    }
}

impl Replayer {
    /// Begins with the log that begins with this event.
    fn begin(&mut self, thread: ThreadId, first: Option<&Recorded>) -> Log {
        let strategy = match first.map(|it| &it.event) {
            Some(Event::Opened(opened)) => opened.strategy.clone(),
            Some(_) | None => String::new(),
        };
        let graph = self.strategies.find(&strategy);
        if graph.is_none() {
            let known = self.strategies.names().join(", ");
            self.found.not_checked(
                thread,
                match strategy.as_str() {
                    "" => "its first event does not say under which strategy it opened".to_owned(),
                    other => format!("no strategy is called {other:?} here; known: {known}"),
                },
            );
        }
        self.found.strategies.entry(strategy.clone()).or_default().threads += 1;
        Log { thread, strategy, verifier: graph.map(Verifier::new), first: None }
    }

    fn end(&mut self) {
        match self.log.take() {
            Some(Log { thread, strategy, first: Some(divergence), .. }) => {
                self.found.diverged(strategy, Example { thread, divergence });
            }
            Some(Log { strategy, verifier: Some(_), .. }) => {
                self.found.strategies.entry(strategy).or_default().same += 1;
            }
            Some(Log { .. }) | None => {}
        }
    }

    fn done(mut self) -> Found {
        self.end();
        self.found
    }
}

/// What differs, in the order in which it matters, and where.
type Place = (Field, String, String);

/// What was found so far.
#[derive(Default)]
struct Found {
    events: u64,
    strategies: BTreeMap<String, Share>,
    places: BTreeMap<Place, (u64, Example)>,
    unchecked: u64,
    not_checked: Vec<NotChecked>,
}

impl Found {
    fn not_checked(&mut self, thread: ThreadId, why: String) {
        self.unchecked += 1;
        if self.not_checked.len() < KEPT {
            self.not_checked.push(NotChecked { thread, why });
        }
    }

    fn diverged(&mut self, strategy: String, example: Example) {
        let place = (anywhere(&example.divergence.field), strategy, example.divergence.node.clone());
        self.add(place, 1, example);
    }

    fn add(&mut self, place: Place, threads: u64, example: Example) {
        let (count, oldest) = self.places.entry(place).or_insert_with(|| (0, example.clone()));
        *count += threads;
        if example.thread < oldest.thread {
            *oldest = example;
        }
    }

    fn and(mut self, other: Self) -> Self {
        self.events += other.events;
        self.unchecked += other.unchecked;
        self.not_checked.extend(other.not_checked);
        self.not_checked.sort();
        self.not_checked.truncate(KEPT);
        for (strategy, share) in other.strategies {
            let all = self.strategies.entry(strategy).or_default();
            *all = Share { threads: all.threads + share.threads, same: all.same + share.same };
        }
        for (place, (threads, example)) in other.places {
            self.add(place, threads, example);
        }
        self
    }

    fn report(self) -> Report {
        let mut places: Vec<_> = self.places.into_iter().collect();
        places.sort_by_key(|((field, ..), (threads, _))| (rank(field), Reverse(*threads)));
        let clusters: Vec<Cluster> = places
            .into_iter()
            .map(|((field, strategy, node), (threads, example))| Cluster {
                strategy,
                node,
                field: field.to_string(),
                threads,
                example,
            })
            .collect();
        Report {
            threads: self.strategies.values().map(|it| it.threads).sum(),
            events: self.events,
            diverged: clusters.iter().map(|it| it.threads).sum(),
            clusters,
            unchecked: self.unchecked,
            not_checked: self.not_checked,
            strategies: self.strategies,
        }
    }
}

fn rank(field: &Field) -> u8 {
    match field {
        Field::Decision(_) => 0,
        Field::Request(_) => 1,
        Field::Prompt(_) => 2,
    }
}

/// The same field, whichever of a list it is in.
fn anywhere(field: &Field) -> Field {
    let star = |part: &str| match part.parse::<usize>() {
        Ok(_) => "*".to_owned(),
        Err(_) => part.to_owned(),
    };
    let path = field.path().split('.').map(star).collect::<Vec<_>>().join(".");
    match field {
        Field::Decision(_) => Field::Decision(path),
        Field::Request(_) => Field::Request(path),
        Field::Prompt(_) => Field::Prompt(path),
    }
}

impl Cluster {
    /// The place in one word: `planner/assess/to`.
    pub fn place(&self) -> String {
        format!("{}/{}/{}", self.strategy, self.node, self.field)
    }

    /// What its example would do otherwise, in words.
    pub fn words(&self) -> String {
        let Example { thread, divergence: Divergence { seq, node, field, then, today } } = &self.example;
        format!(
            "thread {thread}, event {seq}: {node} had {field} {then}, and today's code would have {today}"
        )
    }
}
