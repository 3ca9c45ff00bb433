//! Differences of threads as lines of text, which one build writes and another one reads.

use serde::{Deserialize, Serialize};
use shared::{Divergence, Event, Field};
use store::{Error, Reader, Recorded, Store, ThreadId, ThreadScan};
use threads::StrategyRegistry;

use super::counts;

/// Maximum number of listed differences in words of one thread.
const WORDED: usize = 1_000;

/// A thread that a build replays otherwise than it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Id of the thread.
    pub thread: ThreadId,
    /// Differences in words, and the first one of another kind, in the order of the log. None after the latter.
    pub differences: Vec<Difference>,
    /// Reason why the rest of the log could not be replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_checked: Option<String>,
    /// Number of the first event that was not replayed, if one was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checked_to: Option<usize>,
}

/// A difference between a log and a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Number of the event.
    pub seq: usize,
    /// Node that decides or asks.
    pub node: String,
    /// Kind of the field.
    pub kind: Kind,
    /// Path of the field.
    pub field: String,
    /// Value in the recorded log.
    pub recorded: String,
    /// Value that the build gives.
    pub build: String,
}

/// Kind of a field that differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Part of a decision.
    Decision,
    /// Part of a request.
    Request,
    /// A prompt.
    Prompt,
    /// Descriptions of tools or of a reply.
    Offer,
}

impl Listed {
    /// Leaves out the log from this event on.
    fn stop(&mut self, seq: usize, why: String) {
        (self.checked_to, self.not_checked) = (Some(seq), Some(why));
    }

    /// Returns true if the thread has something to list.
    fn is_worth_a_line(&self) -> bool {
        self.not_checked.is_some() || !self.differences.is_empty()
    }
}

impl From<Divergence> for Difference {
    fn from(Divergence { seq, node, field, then, today }: Divergence) -> Self {
        let (kind, field) = match field {
            Field::Decision(path) => (Kind::Decision, path),
            Field::Request(path) => (Kind::Request, path),
            Field::Prompt(path) => (Kind::Prompt, path),
            Field::Offer(path) => (Kind::Offer, path),
        };
        Self { seq, node, kind, field, recorded: then, build: today }
    }
}

impl From<Difference> for Divergence {
    fn from(Difference { seq, node, kind, field, recorded, build }: Difference) -> Self {
        let field = match kind {
            Kind::Decision => Field::Decision(field),
            Kind::Request => Field::Request(field),
            Kind::Prompt => Field::Prompt(field),
            Kind::Offer => Field::Offer(field),
        };
        Self { seq, node, field, then: recorded, today: build }
    }
}

/// Replays a range of threads with today's code, and returns those that differ from their logs, oldest first.
///
/// # Errors
///
/// As [`Store::read_logs`].
pub async fn list(
    store: &Store,
    strategies: &StrategyRegistry,
    round: &ThreadScan,
) -> Result<Vec<Listed>, Error> {
    let strategies = strategies.clone();
    let make = move || Lister { strategies: strategies.clone(), log: None, listed: Vec::new() };
    let read = store.read_logs(round, make).await?;
    let mut all: Vec<Listed> = read.into_iter().flat_map(Lister::done).collect();
    all.sort_by_key(|listed| listed.thread);
    Ok(all)
}

/// Replays logs of a part of the range.
struct Lister {
    strategies: StrategyRegistry,
    /// The log that is being read, and its replay; `None` once all is listed.
    log: Option<(Listed, Option<shared::Replayer>)>,
    listed: Vec<Listed>,
}

impl Reader for Lister {
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        if self.log.as_ref().is_none_or(|(listed, _)| listed.thread != thread) {
            self.end();
            self.begin(thread, event.as_ref().ok().map(|recorded| &recorded.event));
        }
        let Some((listed, replayer)) = &mut self.log else { return };
        let Some(replay) = replayer else { return };
        let seq = replay.thread().seq();
        let seen = event.map_err(|error| error.to_string()).and_then(|recorded| {
            let seen = replay.see(&recorded.event);
            seen.map_err(|error| format!("event {}: {error}", recorded.seq))
        });
        match seen {
            Ok(divergence) => {
                let Some(divergence) = divergence.filter(counts) else { return };
                if !divergence.field.is_wording() {
                    *replayer = None;
                } else if WORDED <= listed.differences.len() {
                    listed.stop(seq, format!("more than {WORDED} differences in words"));
                    *replayer = None;
                    return;
                }
                listed.differences.push(divergence.into());
            }
            Err(why) => {
                listed.stop(seq, why);
                *replayer = None;
            }
        }
    }
}

impl Lister {
    fn begin(&mut self, thread: ThreadId, first: Option<&Event>) {
        let graph = match first {
            Some(Event::Opened(opened)) => self.strategies.find(&opened.strategy),
            Some(_) | None => None,
        };
        let mut listed = Listed { thread, ..Listed::default() };
        if graph.is_none() {
            listed.stop(0, "its strategy is unknown".to_owned());
        }
        self.log = Some((listed, graph.map(shared::Replayer::new)));
    }

    fn end(&mut self) {
        self.listed.extend(self.log.take().map(|(listed, _)| listed).filter(Listed::is_worth_a_line));
    }

    fn done(mut self) -> Vec<Listed> {
        self.end();
        self.listed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_log_that_cannot_be_replayed_is_listed_with_its_end() {
        let event = |strategy: &str| {
            let config = json!({"model": "openai/gpt-4o"});
            let opened = json!({"event": "opened", "strategy": strategy, "version": 1, "config": config});
            Ok(Recorded { seq: 0, at: 0, event: serde_json::from_value(opened).unwrap() })
        };
        let strategies = StrategyRegistry::new(strategies::all());
        let mut lister = Lister { strategies, log: None, listed: Vec::new() };
        let [known, unknown] = [1, 2].map(ThreadId::from_u128);
        lister.read(known, event("planner"));
        lister.read(known, Err(Error::UnknownThread(known)));
        lister.read(unknown, event("none"));
        let listed = lister.done();
        let ends: Vec<_> = listed.iter().map(|listed| (listed.thread, listed.checked_to)).collect();
        assert_eq!(ends, [(known, Some(1)), (unknown, Some(0))]);
        assert!(listed.iter().all(|listed| listed.not_checked.is_some()), "{listed:?}");
        let line = serde_json::to_string(&listed[0]).unwrap();
        assert_eq!(serde_json::from_str::<Listed>(&line).unwrap(), listed[0]);
    }
}
