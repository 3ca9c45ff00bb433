//! A replay of recorded threads with a changed configuration, over their recorded answers alone.
//!
//! ## Why each log is replayed twice
//!
//! A difference counts only if the changed configuration causes it. So today's code also replays the log as it was recorded. Where
//! that differs from the log first, the thread is not decided. Built-in prompts that were reworded since, and tools that are described
//! differently, differ in both replays alike; they are counted and otherwise passed over. A configured prompt differs by its name.
//!
//! ## What the rest costs
//!
//! From the first difference on, the recorded answers may belong to other questions. What they cost is the quote for running the
//! rest of the threads again; another run may need more requests or fewer.

mod builds;
mod ending;
mod html;
mod judged;
mod junit;
mod last_reply;
mod limit;
mod listed;
mod record;
mod report;
mod sarif;

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::{Divergence, DivergenceCounts, Event, Field, Graph, InvalidLog, Replayer, overlay, with_config};
use store::{Error, Reader, Recorded, Store, ThreadId, ThreadScan};
use threads::StrategyRegistry;

pub use builds::{OtherBuild, compare_builds};
pub use ending::{Agreement, ClusterSummary, Comparison, Ending, Reason, RunReport, Summary};
pub use html::html;
pub use judged::{Judged, JudgedSummary, Ruling, Verdict};
pub use junit::{junit, replay_junit};
pub use last_reply::{LastReplies, LastReply, last_replies};
pub use limit::{Limit, interval};
pub use listed::{Difference, Kind, Listed, list};
pub use record::{Input, Start, ToolAnswer, ToolAnswers, inputs, people_wrote};
pub use report::{Cluster, Effect, Example, Report, Rest, Undecided};
pub use sarif::replay_sarif;

use crate::{
    cost::{Price, Spending},
    whatif::report::Found,
};

/// Changed keys of configurations, by strategy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Changes(BTreeMap<String, Value>);

impl Changes {
    /// Sets the key at `path` of a strategy's configuration. A later change of a key replaces an earlier one.
    pub fn set(&mut self, strategy: &str, path: &[&str], value: Value) {
        let nested =
            path.iter().rev().fold(value, |value, key| Map::from_iter([((*key).to_owned(), value)]).into());
        overlay(self.0.entry(strategy.to_owned()).or_default(), nested);
    }

    /// Returns true if nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names of the strategies whose configuration is changed.
    pub fn strategies(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Returns the event with the changes, if it sets the configuration.
    fn over(&self, strategy: &str, event: &Event) -> Option<Event> {
        with_config(event, self.0.get(strategy)?)
    }
}

/// Returns the price of a model's tokens, as [`Price`], for any thread.
pub type Prices = Arc<dyn Fn(&str, &shared::Usage) -> Option<u64> + Send + Sync>;

/// Replays a range of threads with a changed configuration. Threads of other strategies are counted, and not replayed.
///
/// # Errors
///
/// As [`Store::read_logs`].
pub async fn what_if(
    store: &Store,
    strategies: &StrategyRegistry,
    round: &ThreadScan,
    changes: &Changes,
    prices: &Prices,
) -> Result<Report, Error> {
    let with = Arc::new(With {
        strategies: strategies.clone(),
        changes: changes.clone(),
        prices: Arc::clone(prices),
    });
    let make = move || Lane { with: Arc::clone(&with), found: Found::default(), log: None };
    let read = store.read_logs(round, make).await?;
    Ok(read.into_iter().map(Lane::done).fold(Found::default(), Found::and).report())
}

/// Strategies, changes and prices for all threads.
struct With {
    strategies: StrategyRegistry,
    changes: Changes,
    prices: Prices,
}

/// Replays logs of a part of the range.
struct Lane {
    with: Arc<With>,
    found: Found,
    log: Option<Log>,
}

/// The log that is being read.
struct Log {
    thread: ThreadId,
    strategy: String,
    /// `None` if the strategy is not changed, or once the thread is known not to be decidable.
    course: Option<Course>,
}

/// One thread, as recorded and as changed.
struct Course {
    recorded: Replayer,
    /// `None` once the first difference is found.
    changed: Option<Replayer>,
    difference: Option<Divergence>,
    /// Differences in words that today's code has with the recorded configuration too.
    passed: DivergenceCounts,
    /// Usage since the difference.
    rest: Spending,
}

impl Reader for Lane {
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        if self.log.as_ref().is_none_or(|log| log.thread != thread) {
            self.end();
            self.begin(thread, event.as_ref().map(|recorded| &recorded.event));
        }
        self.found.events += 1;
        let Some(Log { strategy, course: Some(course), .. }) = &mut self.log else { return };
        let seen = match event {
            Ok(recorded) => course
                .see(&self.with, strategy, &recorded)
                .map_err(|why| format!("event {}: {why}", recorded.seq)),
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = seen {
            self.undecided(why);
        }
    }
}

impl Lane {
    fn begin(&mut self, thread: ThreadId, first: Result<&Event, &Error>) {
        let strategy = match first {
            Ok(Event::Opened(opened)) => opened.strategy.clone(),
            Ok(_) | Err(_) => String::new(),
        };
        if first.is_ok() && !self.with.changes.0.contains_key(&strategy) {
            self.found.others += 1;
            self.log = Some(Log { thread, strategy, course: None });
            return;
        }
        self.found.threads += 1;
        let graph = self.with.strategies.find(&strategy);
        let opened = first.ok().and_then(|first| self.with.changes.over(&strategy, first));
        self.log = Some(Log { thread, strategy, course: graph.map(Course::new) });
        let (Some(graph), Some(Event::Opened(opened))) = (graph, opened) else {
            let unknown = || "its strategy is unknown".to_owned();
            self.undecided(first.err().map_or_else(unknown, ToString::to_string));
            return;
        };
        if let Err(why) = graph.check_config(&opened.config) {
            self.undecided(format!("the changed configuration is invalid: {why}"));
        }
    }

    fn undecided(&mut self, why: String) {
        if let Some(log) = &mut self.log {
            log.course = None;
            self.found.undecided(log.thread, why);
        }
    }

    fn end(&mut self) {
        let Some(Log { thread, strategy, course: Some(course) }) = self.log.take() else { return };
        self.found.reworded += u64::from(0 < course.passed.reworded);
        self.found.redescribed += u64::from(0 < course.passed.redescribed);
        match course.difference {
            Some(divergence) => self.found.changed(thread, strategy, divergence, &course.rest),
            None => self.found.same += 1,
        }
    }

    fn done(mut self) -> Found {
        self.end();
        self.found
    }
}

impl Course {
    fn new(graph: &dyn Graph) -> Self {
        let (recorded, changed) = (Replayer::new(graph), Some(Replayer::new(graph)));
        Self {
            recorded,
            changed,
            difference: None,
            passed: DivergenceCounts::default(),
            rest: Spending::default(),
        }
    }

    /// Reads the next event. Returns the reason if the thread cannot be decided.
    fn see(&mut self, with: &With, strategy: &str, recorded: &Recorded) -> Result<(), String> {
        let event = &recorded.event;
        let price: Price<'_> = &*with.prices;
        if let Some(changed) = &mut self.changed {
            let invalid = |error: InvalidLog| error.to_string();
            let unchanged = self.recorded.see(event).map_err(invalid)?.filter(counts);
            let is_worded_anew = unchanged.is_some();
            match unchanged {
                Some(divergence) if divergence.field.is_wording() => self.passed.add(&divergence.field),
                Some(Divergence { node, field, .. }) => {
                    return Err(format!(
                        "today's code differs here with the recorded configuration too, at {node}/{field}"
                    ));
                }
                None => {}
            }
            let over = with.changes.over(strategy, event);
            let difference = changed.see(over.as_ref().unwrap_or(event)).map_err(invalid)?.filter(counts);
            self.difference = difference.filter(|it| !(is_worded_anew && it.field.is_wording()));
            if self.difference.is_some() {
                self.changed = None;
                self.rest.forget();
            }
        }
        self.rest.apply(event, recorded.at, price);
        Ok(())
    }
}

/// Returns false for a decision that differs in the words of its reason alone. They name the setting that was changed.
fn counts(divergence: &Divergence) -> bool {
    !matches!(&divergence.field, Field::Decision(path) if path == "reason")
}
