//! Number of answers of a subject in the last seconds.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use super::limiter::Subject;

/// Length of a period in which answers are counted, in milliseconds.
pub(super) const COUNT_MS: f64 = 10_000.0;

/// Shortest time over which a rate is computed, in milliseconds.
pub(super) const MIN_ELAPSED_MS: f64 = 1_000.0;

/// Maximum subjects whose answers are counted. Names of models may come from tenants.
const MAX_COUNTED: usize = 10_000;

/// Number of answers lately. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    started: f64,
    /// Number of the current period, answers in it, and answers in the period before it.
    period: f64,
    count: f64,
    previous: f64,
}

impl Answers {
    pub(super) fn new(now: f64) -> Self {
        Self { started: now, period: (now / COUNT_MS).floor(), count: 0.0, previous: 0.0 }
    }

    fn advance(&mut self, now: f64) {
        let period = (now / COUNT_MS).floor();
        if period != self.period {
            self.previous = if period == self.period + 1.0 { self.count } else { 0.0 };
            (self.period, self.count) = (period, 0.0);
        }
    }

    pub(super) fn add(&mut self, now: f64) {
        self.advance(now);
        self.count += 1.0;
    }

    /// Returns the answers per second in the last ten to twenty seconds.
    pub(super) fn rate(&mut self, now: f64) -> f64 {
        self.advance(now);
        let elapsed = (now - self.started).min(COUNT_MS + now % COUNT_MS).max(MIN_ELAPSED_MS);
        (self.previous + self.count) * 1_000.0 / elapsed
    }
}

/// Answers that this process received lately, by subject. A first refusal then reduces the rate that was reached.
#[derive(Debug)]
pub(super) struct RecentAnswers {
    began: Instant,
    by_subject: Mutex<BTreeMap<Subject, Answers>>,
}

impl RecentAnswers {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), by_subject: Mutex::default() }
    }

    /// Milliseconds since this process began to count.
    pub(super) fn now(&self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1_000.0
    }

    pub(super) fn add(&self, subject: &Subject) {
        let now = self.now();
        let mut all = self.lock();
        if let Some(answers) = all.get_mut(subject) {
            return answers.add(now);
        }
        if MAX_COUNTED <= all.len() {
            all.clear();
        }
        all.entry(subject.clone()).or_insert_with(|| Answers::new(now)).add(now);
    }

    pub(super) fn forget(&self, subject: &Subject) {
        self.lock().remove(subject);
    }

    /// Returns the answers per second lately.
    pub(super) fn rate(&self, subject: &Subject) -> f64 {
        let now = self.now();
        self.lock().get_mut(subject).map_or(0.0, |answers| answers.rate(now))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Subject, Answers>> {
        self.by_subject.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
