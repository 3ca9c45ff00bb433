//! A replay of recorded threads by another build, compared with that by this one.
//!
//! Both builds replay the same logs over their recorded answers. Where they first give different values, the thread would go
//! differently. Where both differ from the log alike, in more than words, the rest of the log belongs to neither: it is not decided.

use std::{collections::BTreeMap, sync::Arc};

use shared::{Divergence, DivergenceCounts, Event, Replayer};
use store::{Error, Reader, Recorded, Store, ThreadId, ThreadScan};
use threads::StrategyRegistry;

use super::{
    Prices, counts,
    listed::Listed,
    report::{Found, Report},
};
use crate::cost::{Price, Spending};

/// The threads that the other build replays otherwise than they were recorded.
pub type OtherBuild = BTreeMap<ThreadId, Listed>;

/// Replays a range of threads with this build, and compares it with the other one.
///
/// # Errors
///
/// As [`Store::read_logs`].
pub async fn compare_builds(
    store: &Store,
    strategies: &StrategyRegistry,
    round: &ThreadScan,
    other: OtherBuild,
    prices: &Prices,
) -> Result<Report, Error> {
    let (strategies, prices, other) = (strategies.clone(), Arc::clone(prices), Arc::new(other));
    let make = move || Lane {
        strategies: strategies.clone(),
        prices: Arc::clone(&prices),
        other: Arc::clone(&other),
        found: Found::default(),
        log: None,
    };
    let read = store.read_logs(round, make).await?;
    Ok(read.into_iter().map(Lane::done).fold(Found::default(), Found::and).report())
}

/// Compares the replays of a part of the range.
struct Lane {
    strategies: StrategyRegistry,
    prices: Prices,
    other: Arc<OtherBuild>,
    found: Found,
    log: Option<Log>,
}

/// The log that is being read.
struct Log {
    thread: ThreadId,
    strategy: String,
    /// `None` once the thread is known not to be decidable.
    course: Option<Course>,
}

/// One thread, as both builds replay it.
struct Course {
    this: Replayer,
    other: std::vec::IntoIter<super::Difference>,
    /// The next difference of the other build from the log.
    next: Option<Divergence>,
    /// Reason why the other build did not replay the whole log.
    not_checked: Option<String>,
    /// Number of the first event that the other build did not replay.
    checked_to: Option<usize>,
    difference: Option<Divergence>,
    /// Differences in words from the log that both builds have.
    passed: DivergenceCounts,
    /// Usage since the difference.
    rest: Spending,
}

impl Reader for Lane {
    fn read(&mut self, thread: ThreadId, event: Result<Recorded, Error>) {
        if self.log.as_ref().is_none_or(|log| log.thread != thread) {
            self.end();
            self.begin(thread, event.as_ref().ok().map(|recorded| &recorded.event));
        }
        self.found.events += 1;
        let Some(Log { course: Some(course), .. }) = &mut self.log else { return };
        let seen = match event {
            Ok(recorded) => match course.stopped() {
                Some(why) => Err(why),
                None => {
                    let seen = course.see(&recorded, &*self.prices);
                    seen.map_err(|why| format!("event {}: {why}", recorded.seq))
                }
            },
            Err(error) => Err(error.to_string()),
        };
        if let Err(why) = seen {
            self.undecided(why);
        }
    }
}

impl Lane {
    fn begin(&mut self, thread: ThreadId, first: Option<&Event>) {
        let strategy = match first {
            Some(Event::Opened(opened)) => opened.strategy.clone(),
            Some(_) | None => String::new(),
        };
        self.found.threads += 1;
        let graph = self.strategies.find(&strategy);
        let other = || self.other.get(&thread).cloned().unwrap_or_default();
        let course = graph.map(|graph| Course::new(Replayer::new(graph), other()));
        self.log = Some(Log { thread, strategy, course });
        if graph.is_none() {
            self.undecided("its strategy is unknown".to_owned());
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
        match (course.difference, course.not_checked) {
            (Some(divergence), _) => self.found.changed(thread, strategy, divergence, &course.rest),
            (None, Some(why)) => self.found.undecided(thread, format!("the other build: {why}")),
            (None, None) => self.found.same += 1,
        }
    }

    fn done(mut self) -> Found {
        self.end();
        self.found
    }
}

impl Course {
    fn new(this: Replayer, other: Listed) -> Self {
        let Listed { differences, not_checked, checked_to, .. } = other;
        let mut other = differences.into_iter();
        let next = other.next().map(Divergence::from);
        Self {
            this,
            other,
            next,
            not_checked,
            checked_to,
            difference: None,
            passed: DivergenceCounts::default(),
            rest: Spending::default(),
        }
    }

    /// Returns the reason if the other build did not replay the next event, and nothing differs before it.
    fn stopped(&self) -> Option<String> {
        let is_beyond = self.checked_to.is_some_and(|end| end <= self.this.thread().seq());
        let why = || self.not_checked.as_deref().unwrap_or("it stopped before the end");
        (is_beyond && self.difference.is_none()).then(|| format!("the other build: {}", why()))
    }

    /// Reads the next event. Returns the reason if the thread cannot be decided.
    fn see(&mut self, recorded: &Recorded, price: Price<'_>) -> Result<(), String> {
        if self.difference.is_none() {
            let seq = self.this.thread().seq();
            let seen = self.this.see(&recorded.event).map_err(|error| error.to_string())?;
            let (this, other) = (seen.filter(counts), self.other_at(seq));
            if let (Some(this), Some(other)) = (&this, &other)
                && (&this.field, &this.today) == (&other.field, &other.today)
            {
                if !this.field.is_wording() {
                    return Err(format!(
                        "both builds differ from the log here, at {}/{}",
                        this.node, this.field
                    ));
                }
                self.passed.add(&this.field);
            } else if let Some(difference) = between(this, other) {
                self.difference = Some(difference);
                self.rest.forget();
            }
        }
        self.rest.apply(&recorded.event, recorded.at, price);
        Ok(())
    }

    /// Returns the difference of the other build from the log at this event.
    fn other_at(&mut self, seq: usize) -> Option<Divergence> {
        let here = self.next.take_if(|next| next.seq <= seq)?;
        self.next = self.other.next().map(Divergence::from);
        (here.seq == seq).then_some(here)
    }
}

/// Returns the difference between the values of two builds, at the more important field. A build without a difference there gives what
/// was recorded.
fn between(this: Option<Divergence>, other: Option<Divergence>) -> Option<Divergence> {
    let of_this = |own: Divergence| Divergence { then: own.today, today: own.then, ..own };
    match (this, other) {
        (None, other) => other,
        (Some(this), None) => Some(of_this(this)),
        (Some(this), Some(other)) if this.field == other.field => {
            Some(Divergence { then: this.today, ..other })
        }
        (Some(this), Some(other)) if this.field < other.field => Some(of_this(this)),
        (Some(_), Some(other)) => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use shared::Field;

    use super::*;

    #[test]
    fn nothing_is_compared_beyond_the_end_of_the_other_build() {
        let planner = || Replayer::new(strategies::find("planner").unwrap());
        let config = json!({"model": "openai/gpt-4o"});
        let opened = json!({"event": "opened", "strategy": "planner", "version": 1, "config": config});
        let opened: Event = serde_json::from_value(opened).unwrap();
        let not_checked = Some("event 1: it cannot be read".to_owned());
        let stopped = Listed { checked_to: Some(1), not_checked, ..Listed::default() };
        let mut course = Course::new(planner(), stopped);
        assert_eq!(course.stopped(), None);
        course.this.pass(&opened).unwrap();
        assert_eq!(course.stopped().unwrap(), "the other build: event 1: it cannot be read");
        let (then, today) = ("recorded".to_owned(), "a".to_owned());
        let field = Field::Decision("to".to_owned());
        course.difference = Some(Divergence { seq: 0, node: "assess".to_owned(), field, then, today });
        assert_eq!(course.stopped(), None, "an earlier difference stands");
        let whole = Course::new(planner(), Listed::default());
        assert_eq!(whole.stopped(), None);
    }

    #[test]
    fn a_build_without_a_difference_gives_what_was_recorded() {
        let at = |field: Field, today: &str| {
            let (then, today) = ("recorded".to_owned(), today.to_owned());
            Some(Divergence { seq: 3, node: "assess".to_owned(), field, then, today })
        };
        let to = || Field::Decision("to".to_owned());
        let prompt = || Field::Prompt("requests.0.system".to_owned());
        let values = |this, other| between(this, other).map(|found| (found.field, found.then, found.today));
        let is = |field, then: &str, today: &str| Some((field, then.to_owned(), today.to_owned()));
        assert_eq!(values(None, None), None);
        assert_eq!(values(None, at(to(), "a")), is(to(), "recorded", "a"));
        assert_eq!(values(at(to(), "a"), None), is(to(), "a", "recorded"));
        assert_eq!(values(at(to(), "a"), at(to(), "b")), is(to(), "a", "b"));
        assert_eq!(values(at(prompt(), "a"), at(to(), "b")), is(to(), "recorded", "b"));
        assert_eq!(values(at(to(), "a"), at(prompt(), "b")), is(to(), "a", "recorded"));
    }
}
