//! The limits of one process: the same promises, and gone with it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    CROWD_GRACE, CROWD_PAUSE, Cap, DAY_SECONDS, LONGEST_PAUSE, Limits, Measure, PLACE_PAUSE, Pace, Permit,
    Reserved, SETTLE_GRACE, Used, Want,
};
use crate::{queue::QueueError, time};

/// The limits of one process; clones share their books.
#[derive(Clone, Debug)]
pub struct MemoryLimits {
    pace: Pace,
    books: Arc<Mutex<Books>>,
}

#[derive(Debug, Default)]
struct Books {
    of: BTreeMap<String, Book>,
    /// What can still be settled: until when, and on which day it was given.
    permits: BTreeMap<Uuid, (Instant, i64)>,
}

/// What is taken of one subject.
#[derive(Debug, Default)]
struct Book {
    held: BTreeMap<Uuid, Instant>,
    /// What was given in the last minute, the oldest first, with its tokens.
    window: VecDeque<(Instant, Uuid, u64)>,
    /// The day that money was last taken on, and how much.
    day: i64,
    spent: u64,
    /// For whom tokens are kept.
    first: Option<First>,
    /// Who waits, by tenant.
    crowds: BTreeMap<String, BTreeMap<String, Waiting>>,
}

/// Since when somebody waits, and when they are expected back.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Instant,
    back: Instant,
}

/// For whom tokens are kept, and how many.
#[derive(Debug)]
struct First {
    asker: String,
    tokens: u64,
    waiting: Waiting,
}

impl MemoryLimits {
    /// Books in which nothing is taken.
    #[must_use]
    pub fn new(pace: Pace) -> Self {
        Self { pace, books: Arc::default() }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // Nothing below panics half way through a change.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Limits for MemoryLimits {
    async fn reserve(&self, asker: &str, wants: &[Want]) -> Result<Reserved, QueueError> {
        let (now, seconds) = (Instant::now(), time::now() / 1_000_000);
        let wants: Vec<Want> = wants.iter().map(Want::cut).collect();
        let mut books = self.books();
        books.permits.retain(|_, (until, _)| now < *until);
        let mut longest: Option<(Duration, &Want, Measure)> = None;
        for want in &wants {
            let book = books.of.entry(want.of.key()).or_default();
            book.forget(now, self.pace.minute);
            for (after, measure) in book.lacks(asker, want, now, seconds, self.pace.minute) {
                if longest.is_none_or(|(before, ..)| before < after) {
                    longest = Some((after, want, measure));
                }
            }
        }
        if let Some((after, want, measure)) = longest {
            let book = books.of.entry(want.of.key()).or_default();
            let after = book.queue(asker, want, measure, after, now);
            return Ok(Reserved::Wait { after, why: measure.why(want, seconds) });
        }
        let (id, day) = (Uuid::now_v7(), seconds.div_euclid(DAY_SECONDS));
        books.permits.insert(id, (now + self.pace.hold + SETTLE_GRACE, day));
        for want in &wants {
            let book = books.of.entry(want.of.key()).or_default();
            book.leave(&want.tenant, asker);
            book.take(id, want, now, now + self.pace.hold, day);
        }
        Ok(Reserved::Granted(Permit { id, wants }))
    }

    async fn renew(&self, permit: &Permit) -> Result<(), QueueError> {
        let now = Instant::now();
        let mut books = self.books();
        if let Some((until, _)) = books.permits.get_mut(&permit.id) {
            *until = now + self.pace.hold + SETTLE_GRACE;
        }
        for want in &permit.wants {
            let book = books.of.get_mut(&want.of.key());
            if let Some(until) = book.and_then(|it| it.held.get_mut(&permit.id)) {
                *until = now + self.pace.hold;
            }
        }
        Ok(())
    }

    async fn settle(&self, permit: &Permit, used: Used) -> Result<(), QueueError> {
        let mut books = self.books();
        let Some((_, day)) = books.permits.remove(&permit.id) else { return Ok(()) };
        for want in &permit.wants {
            if let Some(book) = books.of.get_mut(&want.of.key()) {
                book.settle(permit.id, want, used, day);
            }
        }
        Ok(())
    }

    fn pace(&self) -> Pace {
        self.pace
    }
}

impl Book {
    /// Forgets holders that fell silent, what was given before the last minute, and who did not come back.
    fn forget(&mut self, now: Instant, minute: Duration) {
        self.held.retain(|_, until| now < *until);
        while self.window.front().is_some_and(|(at, ..)| *at + minute <= now) {
            self.window.pop_front();
        }
        self.first.take_if(|it| it.waiting.back + CROWD_GRACE <= now);
        self.crowds.retain(|_, crowd| {
            crowd.retain(|_, it| now < it.back + CROWD_GRACE);
            !crowd.is_empty()
        });
    }

    /// What there is no room in, and for how long at least.
    fn lacks(
        &self,
        asker: &str,
        want: &Want,
        now: Instant,
        seconds: i64,
        minute: Duration,
    ) -> Vec<(Duration, Measure)> {
        let mut lacks = Vec::new();
        let leaves = |at: Instant| (at + minute).saturating_duration_since(now);
        if want.cap.concurrency.is_some_and(|it| it <= self.held.len() as u64) {
            lacks.push((PLACE_PAUSE, Measure::Concurrency));
        }
        if let Some(most) = want.cap.requests_per_minute
            && let Some(over) = (self.window.len() as u64).checked_sub(most)
            && let Some((at, ..)) = self.window.get(usize::try_from(over).unwrap_or(usize::MAX))
        {
            lacks.push((leaves(*at), Measure::Requests));
        }
        if let Some(most) = want.cap.tokens_per_minute {
            let first = self.first.as_ref().filter(|it| it.asker != asker);
            let kept = first.map_or(0, |it| it.tokens);
            let taken = self.window.iter().fold(kept, |taken, (.., tokens)| taken.saturating_add(*tokens));
            let mut over = want.tokens.saturating_add(taken).saturating_sub(most);
            if 0 < over {
                let enough = self.window.iter().find(|(.., tokens)| {
                    let last = over <= *tokens;
                    over = over.saturating_sub(*tokens);
                    last
                });
                let back = |it: &First| it.waiting.back.saturating_duration_since(now).max(PLACE_PAUSE);
                let after = enough.map(|(at, ..)| leaves(*at)).or(first.map(back)).unwrap_or(minute);
                lacks.push((after, Measure::Tokens));
            }
        }
        let (day, of_day) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
        let spent = if self.day == day { self.spent } else { 0 };
        if want.cap.micro_usd_per_day.is_some_and(|it| it < spent.saturating_add(want.micro_usd)) {
            lacks.push((Duration::from_secs((DAY_SECONDS - of_day).unsigned_abs()), Measure::Money));
        }
        lacks
    }

    /// Forgets that somebody waits.
    fn leave(&mut self, tenant: &str, asker: &str) {
        self.first.take_if(|it| it.asker == asker);
        if let Some(crowd) = self.crowds.get_mut(tenant) {
            crowd.remove(asker);
        }
    }

    /// Counts one more of a tenant who waits; says how long. Of those who lack tokens, some are kept for who waits longest.
    fn queue(
        &mut self,
        asker: &str,
        want: &Want,
        measure: Measure,
        after: Duration,
        now: Instant,
    ) -> Duration {
        let crowd = self.crowds.entry(want.tenant.clone()).or_default();
        let since = crowd.get(asker).map_or(now, |it| it.since);
        let others = crowd.len() - usize::from(crowd.contains_key(asker));
        let goes_before = |it: &First| it.asker == asker || since < it.waiting.since;
        let is_first = measure == Measure::Tokens && self.first.as_ref().is_none_or(goes_before);
        let after = if is_first {
            after
        } else {
            let count = others.saturating_mul(self.crowds.len());
            let pause = CROWD_PAUSE.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
            after.max(pause).min(LONGEST_PAUSE)
        };
        let waiting = Waiting { since, back: now + after };
        if is_first {
            self.first = Some(First { asker: asker.to_owned(), tokens: want.tokens, waiting });
        }
        self.crowds.entry(want.tenant.clone()).or_default().insert(asker.to_owned(), waiting);
        after
    }

    fn take(&mut self, id: Uuid, want: &Want, now: Instant, until: Instant, day: i64) {
        let Cap { concurrency, requests_per_minute, tokens_per_minute, micro_usd_per_day } = want.cap;
        if concurrency.is_some() {
            self.held.insert(id, until);
        }
        if requests_per_minute.is_some() || tokens_per_minute.is_some() {
            self.window.push_back((now, id, want.tokens));
        }
        if micro_usd_per_day.is_some() {
            if self.day != day {
                (self.day, self.spent) = (day, 0);
            }
            self.spent = self.spent.saturating_add(want.micro_usd);
        }
    }

    fn settle(&mut self, id: Uuid, want: &Want, used: Used, day: i64) {
        self.held.remove(&id);
        if let Some(tokens) = used.tokens
            && let Some((.., taken)) = self.window.iter_mut().find(|(_, it, _)| *it == id)
        {
            *taken = tokens;
        }
        if let Some(micro_usd) = used.micro_usd
            && want.cap.micro_usd_per_day.is_some()
            && self.day == day
        {
            self.spent = self.spent.saturating_sub(want.micro_usd).saturating_add(micro_usd);
        }
    }
}

#[test]
fn a_day_that_is_over_owes_nothing() {
    let cap = Cap { micro_usd_per_day: Some(10), ..Cap::default() };
    let of = super::Subject::Model("a/b".to_owned());
    let want = Want { of, tenant: String::new(), cap, tokens: 0, micro_usd: 10 };
    let (mut book, now, id) = (Book::default(), Instant::now(), Uuid::now_v7());
    let lacks =
        |book: &Book, day: i64| book.lacks("", &want, now, day * DAY_SECONDS + 5, Duration::ZERO).len();
    book.take(id, &want, now, now, 7);
    assert_eq!((lacks(&book, 7), lacks(&book, 8)), (1, 0));
    let other = Uuid::now_v7();
    book.take(other, &want, now, now, 8);
    book.settle(id, &want, Used::NOTHING, 7);
    assert_eq!(lacks(&book, 8), 1, "what was given yesterday gives nothing back today");
    book.settle(other, &want, Used::NOTHING, 8);
    assert_eq!(lacks(&book, 8), 0);
}
