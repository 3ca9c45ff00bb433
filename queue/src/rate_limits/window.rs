//! The counters of one subject.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;
use uuid::Uuid;

use super::limiter::{
    ActualUsage, CONCURRENCY_PAUSE, CROWD_GRACE, DAY_SECONDS, Demand, MAX_PAUSE, Measure, RateLimit,
};

/// The counters of one subject.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Permits in use, with the time at which they lose their place.
    in_use: BTreeMap<Uuid, Instant>,
    /// Permits granted in the last minute with their tokens, oldest first.
    granted: VecDeque<(Instant, Uuid, u64)>,
    /// The last day on which money was spent, and what no tenant's part covered of it, in millionths of a US dollar.
    day: i64,
    spent: u64,
    /// Money spent on that day by the owners of parts.
    spent_by_owner: BTreeMap<String, u64>,
    /// The request for which freed tokens are kept.
    first: Option<FirstInLine>,
    /// Waiting requests by tenant.
    waiting: BTreeMap<String, BTreeMap<String, Waiting>>,
}

/// The time a request began to wait, and the time it is expected to ask again.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Instant,
    next_try: Instant,
}

/// The request that has waited longest for tokens, and the tokens kept for it.
#[derive(Debug)]
struct FirstInLine {
    requester: String,
    tokens: u64,
    waiting: Waiting,
}

impl Window {
    /// Drops places that were not renewed, permits older than a minute, and waiting requests that did not ask again.
    pub(super) fn expire(&mut self, now: Instant, minute: Duration) {
        self.in_use.retain(|_, until| now < *until);
        while self.granted.front().is_some_and(|(at, ..)| *at + minute <= now) {
            self.granted.pop_front();
        }
        self.first.take_if(|first| first.waiting.next_try + CROWD_GRACE <= now);
        self.waiting.retain(|_, requests| {
            requests.retain(|_, request| now < request.next_try + CROWD_GRACE);
            !requests.is_empty()
        });
    }

    /// Returns the limits that the demand exceeds, each with the shortest useful delay.
    pub(super) fn exceeded(
        &self,
        requester: &str,
        demand: &Demand,
        now: Instant,
        seconds: i64,
        minute: Duration,
    ) -> Vec<(Duration, Measure)> {
        let mut exceeded = Vec::new();
        let expires_in = |at: Instant| (at + minute).saturating_duration_since(now);
        if demand.limit.concurrency.is_some_and(|limit| limit <= self.in_use.len() as u64) {
            exceeded.push((CONCURRENCY_PAUSE, Measure::Concurrency));
        }
        if let Some(limit) = demand.limit.requests_per_minute
            && let Some(over) = (self.granted.len() as u64).checked_sub(limit)
            && let Some((at, ..)) = self.granted.get(usize::try_from(over).unwrap_or(usize::MAX))
        {
            exceeded.push((expires_in(*at), Measure::Requests));
        }
        if let Some(limit) = demand.limit.tokens_per_minute {
            let other = self.first.as_ref().filter(|first| first.requester != requester);
            let kept = other.map_or(0, |other| other.tokens);
            let used = self.granted.iter().fold(kept, |used, (.., tokens)| used.saturating_add(*tokens));
            let mut over = demand.tokens.saturating_add(used).saturating_sub(limit);
            if 0 < over {
                let enough = self.granted.iter().find(|(.., tokens)| {
                    let is_last = over <= *tokens;
                    over = over.saturating_sub(*tokens);
                    is_last
                });
                let next_try = |first: &FirstInLine| {
                    first.waiting.next_try.saturating_duration_since(now).max(CONCURRENCY_PAUSE)
                };
                let after = enough.map(|(at, ..)| expires_in(*at)).or(other.map(next_try)).unwrap_or(minute);
                exceeded.push((after, Measure::Tokens));
            }
        }
        let (day, second_of_day) = (seconds.div_euclid(DAY_SECONDS), seconds.rem_euclid(DAY_SECONDS));
        let (spent, by_owner) = if self.day == day { (self.spent, self.spent_of(demand)) } else { (0, 0) };
        let spent = spent.saturating_add(demand.beyond_part(by_owner, demand.micro_usd));
        if demand.common_micro_usd().is_some_and(|limit| limit < spent) {
            exceeded
                .push((Duration::from_secs((DAY_SECONDS - second_of_day).unsigned_abs()), Measure::Money));
        }
        exceeded
    }

    /// Counts a request as waiting and returns its pause, which is longer by `crowd_pause` for each waiting one. Of the requests
    /// that lack tokens, the one that has waited longest becomes first in line.
    pub(super) fn add_waiting(
        &mut self,
        requester: &str,
        demand: &Demand,
        for_tokens: bool,
        crowd_pause: Duration,
        after: Duration,
        now: Instant,
    ) -> Duration {
        let requests = self.waiting.entry(demand.tenant.clone()).or_default();
        let since = requests.get(requester).map_or(now, |request| request.since);
        let others = requests.len() - usize::from(requests.contains_key(requester));
        let precedes = |first: &FirstInLine| first.requester == requester || since < first.waiting.since;
        let is_first = for_tokens && self.first.as_ref().is_none_or(precedes);
        let after = if is_first {
            after
        } else {
            let count = others.saturating_mul(self.waiting.len());
            let pause = crowd_pause.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX));
            after.max(pause).min(MAX_PAUSE)
        };
        let waiting = Waiting { since, next_try: now + after };
        if is_first {
            self.first =
                Some(FirstInLine { requester: requester.to_owned(), tokens: demand.tokens, waiting });
        }
        self.waiting.entry(demand.tenant.clone()).or_default().insert(requester.to_owned(), waiting);
        after
    }

    /// Money spent on the last day by the owner of the demand's part.
    fn spent_of(&self, demand: &Demand) -> u64 {
        demand.part.as_ref().and_then(|it| self.spent_by_owner.get(&it.owner)).copied().unwrap_or_default()
    }

    /// Replaces a reserved amount of money, which may be zero, by another.
    fn spend(&mut self, demand: &Demand, reserved: u64, used: u64) {
        let Some(part) = &demand.part else {
            self.spent = self.spent.saturating_sub(reserved).saturating_add(used);
            return;
        };
        let before = self.spent_of(demand);
        let without = before.saturating_sub(reserved);
        self.spent = self.spent.saturating_sub(demand.beyond_part(without, before - without));
        self.spent = self.spent.saturating_add(demand.beyond_part(without, used));
        self.spent_by_owner.insert(part.owner.clone(), without.saturating_add(used));
    }

    /// Frees the tokens that are kept for this request, if any.
    pub(super) fn release_kept_tokens(&mut self, requester: &str) {
        self.first.take_if(|first| first.requester == requester);
    }

    /// Stops counting a request as waiting.
    pub(super) fn remove_waiting(&mut self, tenant: &str, requester: &str) {
        self.release_kept_tokens(requester);
        if let Some(requests) = self.waiting.get_mut(tenant) {
            requests.remove(requester);
        }
    }

    pub(super) fn grant(&mut self, id: Uuid, demand: &Demand, now: Instant, until: Instant, day: i64) {
        let RateLimit { concurrency, requests_per_minute, tokens_per_minute, micro_usd_per_day } =
            demand.limit;
        if concurrency.is_some() {
            self.in_use.insert(id, until);
        }
        if requests_per_minute.is_some() || tokens_per_minute.is_some() {
            self.granted.push_back((now, id, demand.tokens));
        }
        if micro_usd_per_day.is_some() {
            if self.day != day {
                (self.day, self.spent) = (day, 0);
                self.spent_by_owner.clear();
            }
            self.spend(demand, 0, demand.micro_usd);
        }
    }

    pub(super) fn renew(&mut self, id: Uuid, until: Instant) {
        if let Some(current) = self.in_use.get_mut(&id) {
            *current = until;
        }
    }

    pub(super) fn settle(&mut self, id: Uuid, demand: &Demand, usage: ActualUsage, day: i64) {
        self.in_use.remove(&id);
        if let Some(tokens) = usage.tokens
            && let Some((.., counted)) = self.granted.iter_mut().find(|(_, request, _)| *request == id)
        {
            *counted = tokens;
        }
        if let Some(micro_usd) = usage.micro_usd
            && demand.limit.micro_usd_per_day.is_some()
            && self.day == day
        {
            self.spend(demand, demand.micro_usd, micro_usd);
        }
    }
}

#[test]
fn settling_a_permit_of_yesterday_changes_nothing_today() {
    let limit = RateLimit { micro_usd_per_day: Some(10), ..RateLimit::default() };
    let subject = super::limiter::Subject::Model("a/b".to_owned());
    let demand = Demand { micro_usd: 10, ..Demand::of(subject, "", limit) };
    let (mut window, now, id) = (Window::default(), Instant::now(), Uuid::now_v7());
    let exceeded = |window: &Window, day: i64| {
        window.exceeded("", &demand, now, day * DAY_SECONDS + 5, Duration::ZERO).len()
    };
    window.grant(id, &demand, now, now, 7);
    assert_eq!((exceeded(&window, 7), exceeded(&window, 8)), (1, 0));
    let other = Uuid::now_v7();
    window.grant(other, &demand, now, now, 8);
    window.settle(id, &demand, ActualUsage::NONE, 7);
    assert_eq!(exceeded(&window, 8), 1, "money of yesterday is not returned to today");
    window.settle(other, &demand, ActualUsage::NONE, 8);
    assert_eq!(exceeded(&window, 8), 0);
}
