//! Runs today's code against recorded logs and groups the threads that would now go differently by their first
//! divergence.

mod junit;
mod sarif;

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use serde::Serialize;
use shared::{Divergence, DivergenceCounts, Event, Field};
use store::{Error, Finding, Reader, Recorded, Store, ThreadId, ThreadScan};
use threads::StrategyRegistry;

use crate::cohort::Stray;

pub use junit::junit;
pub use sarif::sarif;
pub(crate) use sarif::sarif_document;

/// Maximum number of listed threads that could not be checked; all are counted.
const KEPT: usize = 100;

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Number of threads read.
    pub threads: u64,
    /// Number of events read.
    pub events: u64,
    /// Number of threads that would now go differently.
    pub diverged: u64,
    /// Divergent threads, grouped by their first divergence: decisions before requests before prompts, then by
    /// frequency.
    pub clusters: Vec<Cluster>,
    /// Number of threads that differ in the words of prompts alone, if those do not count as differences.
    pub reworded: u64,
    /// Number of threads that differ in the descriptions or schemas of tools and replies alone, if those do not count.
    pub redescribed: u64,
    /// Number of threads that could not be checked completely.
    pub unchecked: u64,
    /// The first hundred of the threads that could not be checked.
    pub not_checked: Vec<NotChecked>,
    /// Number of threads whose hash chain is broken: their logs are not what was recorded.
    pub broken: u64,
    /// The first hundred of the threads with a broken hash chain.
    pub broken_chains: Vec<Broken>,
    /// Threads by strategy.
    pub strategies: BTreeMap<String, Share>,
}

/// Threads of one strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Number of threads.
    pub threads: u64,
    /// Number of threads without a divergence.
    pub same: u64,
}

/// Threads with the same first divergence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cluster {
    /// Strategy of the threads.
    pub strategy: String,
    /// Node that decides differently.
    pub node: String,
    /// Path of the differing value, with `*` in place of list indexes.
    pub field: String,
    /// Number of threads in the cluster.
    pub threads: u64,
    /// The oldest thread of the cluster.
    pub example: Example,
}

/// One thread of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Example {
    /// Id of the thread.
    pub thread: ThreadId,
    /// First divergence of the thread.
    #[serde(flatten)]
    pub divergence: Divergence,
}

/// A thread that could not be checked completely.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NotChecked {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Reason why it could not be checked.
    pub why: String,
}

/// A thread whose hash chain is broken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Broken {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Number of the first event that does not fit.
    pub seq: u64,
    /// Description of the break.
    pub what: String,
}

/// Replays the logs of a range of threads, and verifies their hash chains. Reworded prompts, and tools and replies that are described
/// differently, count only with `wording`.
///
/// # Errors
///
/// As [`Store::read_logs`].
pub async fn replay(
    store: &Store,
    strategies: &StrategyRegistry,
    round: &ThreadScan,
    wording: bool,
) -> Result<Report, Error> {
    Ok(found(store, strategies, round, wording).await?.report())
}

/// Replays these threads one after another, until `max_events` events have been read. Returns the report, and the number of
/// threads that were read.
///
/// # Errors
///
/// As [`Store::read_logs`].
pub async fn replay_some(
    store: &Store,
    strategies: &StrategyRegistry,
    threads: &[ThreadId],
    wording: bool,
    max_events: u64,
) -> Result<(Report, usize), Error> {
    let (mut all, mut read) = (Found::default(), 0);
    for thread in threads {
        if max_events <= all.events {
            break;
        }
        let round = ThreadScan::of(*thread, 1);
        all = all.and(found(store, strategies, &round, wording).await?);
        read += 1;
    }
    Ok((all.report(), read))
}

async fn found(
    store: &Store,
    strategies: &StrategyRegistry,
    round: &ThreadScan,
    wording: bool,
) -> Result<Found, Error> {
    let strategies = Arc::new(strategies.clone());
    let make =
        move || Replayer { strategies: Arc::clone(&strategies), wording, found: Found::default(), log: None };
    let read = store.read_logs(round, make).await?;
    Ok(read.into_iter().map(Replayer::done).fold(Found::default(), Found::and))
}

/// Replays logs of a part of the range.
struct Replayer {
    strategies: Arc<StrategyRegistry>,
    wording: bool,
    found: Found,
    log: Option<Log>,
}

/// The log that is being read.
struct Log {
    thread: ThreadId,
    strategy: String,
    /// `None` once the log cannot be checked further.
    replayer: Option<shared::Replayer>,
    /// The first divergence. One in words is replaced by a later one of another kind.
    first: Option<Divergence>,
    /// Differences in words that were passed over.
    passed: DivergenceCounts,
    /// True if the events are not those that were recorded.
    broken: bool,
}

impl Reader for Replayer {
    const CHECKS_CHAIN: bool = true;

    fn broken(&mut self, finding: Finding) {
        if let Some(log) = self.log.as_mut().filter(|log| log.thread == finding.thread) {
            log.broken = true;
        }
        self.found.broken(Broken { thread: finding.thread, seq: finding.seq, what: finding.what });
    }

    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        if self.log.as_ref().is_none_or(|log| log.thread != thread) {
            self.end();
            self.log = Some(self.begin(thread, &event));
        }
        self.found.events += 1;
        let Some(log) = &mut self.log else { return };
        let Some(replayer) = &mut log.replayer else { return };
        let seen = match event {
            Ok(recorded) => {
                replayer.see(&recorded.event).map_err(|error| format!("event {}: {error}", recorded.seq))
            }
            Err(error) => Err(error.to_string()),
        };
        match seen {
            Ok(divergence) => {
                let counts = |divergence: &Divergence| !divergence.field.is_wording() || self.wording;
                if let Some(passed) = divergence.as_ref().filter(|divergence| !counts(divergence)) {
                    log.passed.add(&passed.field);
                }
                if log.first.as_ref().is_none_or(|divergence| divergence.field.is_wording())
                    && let Some(divergence) = divergence.filter(counts)
                    && (log.first.is_none() || !divergence.field.is_wording())
                {
                    log.first = Some(divergence);
                }
            }
            Err(why) => {
                log.replayer = None;
                self.found.not_checked(thread, why);
            }
        }
    }
}

impl Replayer {
    /// Starts the log that begins with this event.
    fn begin(&mut self, thread: ThreadId, first: &Result<Recorded, Error>) -> Log {
        let opened = match first.as_ref().map(|recorded| &recorded.event) {
            Ok(Event::Opened(opened)) => Ok(opened.strategy.clone()),
            Ok(_) => Err("its first event does not say under which strategy it opened".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let strategy = opened.clone().unwrap_or_default();
        let graph = self.strategies.find(&strategy);
        if graph.is_none() {
            let known = self.strategies.names().join(", ");
            let unknown = |name| format!("unknown strategy {name:?}; known: {known}");
            self.found.not_checked(thread, opened.map_or_else(|why| why, unknown));
        }
        self.found.strategies.entry(strategy.clone()).or_default().threads += 1;
        let replayer = graph.map(shared::Replayer::new);
        Log { thread, strategy, replayer, first: None, passed: DivergenceCounts::default(), broken: false }
    }

    fn end(&mut self) {
        match self.log.take() {
            Some(Log { thread, strategy, first: Some(divergence), .. }) => {
                self.found.diverged(strategy, Example { thread, divergence });
            }
            Some(Log { broken: true, .. }) => {}
            Some(Log { strategy, replayer: Some(_), passed, .. }) => {
                self.found.reworded += u64::from(0 < passed.reworded);
                self.found.redescribed += u64::from(0 < passed.redescribed);
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

/// Kind of the divergence in order of severity, and its place.
type Place = (Field, String, String);

/// Divergences found so far.
#[derive(Default)]
struct Found {
    events: u64,
    strategies: BTreeMap<String, Share>,
    places: BTreeMap<Place, (u64, Example)>,
    reworded: u64,
    redescribed: u64,
    unchecked: u64,
    not_checked: Vec<NotChecked>,
    broken: u64,
    broken_chains: Vec<Broken>,
}

impl Found {
    fn broken(&mut self, broken: Broken) {
        self.broken += 1;
        if self.broken_chains.len() < KEPT {
            self.broken_chains.push(broken);
        }
    }

    fn not_checked(&mut self, thread: ThreadId, why: String) {
        self.unchecked += 1;
        if self.not_checked.len() < KEPT {
            self.not_checked.push(NotChecked { thread, why });
        }
    }

    fn diverged(&mut self, strategy: String, example: Example) {
        let place = (example.divergence.field.anywhere(), strategy, example.divergence.node.clone());
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
        self.reworded += other.reworded;
        self.redescribed += other.redescribed;
        self.unchecked += other.unchecked;
        self.not_checked.extend(other.not_checked);
        self.not_checked.sort();
        self.not_checked.truncate(KEPT);
        self.broken += other.broken;
        self.broken_chains.extend(other.broken_chains);
        self.broken_chains.sort();
        self.broken_chains.truncate(KEPT);
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
            threads: self.strategies.values().map(|strategy| strategy.threads).sum(),
            events: self.events,
            diverged: clusters.iter().map(|cluster| cluster.threads).sum(),
            clusters,
            reworded: self.reworded,
            redescribed: self.redescribed,
            unchecked: self.unchecked,
            not_checked: self.not_checked,
            broken: self.broken,
            broken_chains: self.broken_chains,
            strategies: self.strategies,
        }
    }
}

fn rank(field: &Field) -> u8 {
    match field {
        Field::Decision(_) => 0,
        Field::Request(_) => 1,
        Field::Prompt(_) => 2,
        Field::Offer(_) => 3,
    }
}

impl Report {
    /// Adds threads of a cohort whose logs are gone or differ.
    pub fn add_strays(&mut self, strays: Vec<Stray>) {
        let all = strays.len() as u64;
        self.threads += all;
        self.broken += all;
        let broken = |Stray { thread, events, what }| Broken { thread, seq: events, what };
        self.broken_chains.extend(strays.into_iter().map(broken));
        self.broken_chains.truncate(KEPT);
    }
}

impl Cluster {
    /// The place as one word: `planner/assess/to`.
    pub fn place(&self) -> String {
        format!("{}/{}/{}", self.strategy, self.node, self.field)
    }

    /// Describes the divergence of the example.
    pub fn words(&self) -> String {
        let Example { thread, divergence: Divergence { seq, node, field, then, today } } = &self.example;
        format!("thread {thread}, event {seq}: {node} recorded {field} {then}, today's code gives {today}")
    }
}
