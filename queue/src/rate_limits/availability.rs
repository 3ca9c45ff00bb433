//! Availability of a model or an MCP server: its pause, its rate and its last error, as all workers know them.
//!
//! A subject that takes every request has no record and costs nothing. The first refusal creates one. A record says how long
//! no request is sent, how many requests per second are sent after that, and why. Without refusals it is forgotten.
//!
//! | event | effect |
//! |---|---|
//! | a refusal | the rate falls to 90 %, or to half if fewer than 30 % of the requests were answered lately; all wait as long as the endpoint asks |
//! | refusals in a row | the pause doubles up to its maximum, and one request per pause tries whether the subject answers again |
//! | an answer | the pause ends; the rate doubles up to the last known one, then approaches the refused one for 30 s, fast at first, stays near it, and then grows faster |
//!
//! Only a request that was sent after the last pause changes the record: many requests that were in flight together and are refused
//! together are one refusal. The scripts in Redis compute the same; the conformance suite runs against both.

use std::time::Duration;

use shared::{BlockReason, BlockedBy};
use tracing::{info, warn};

use super::{answers::Answers, limiter::Subject};
use crate::clock;

/// Requests per second after the first refusal, unless more were answered lately.
pub(super) const FIRST_RATE: f64 = 1.0;

/// Lowest rate, in requests per second.
pub(super) const MIN_RATE: f64 = 1.0 / 60.0;

/// Part of the rate that remains after a refusal, usually and if less than [`FEW_ANSWERS`] of the rate was answered lately.
pub(super) const REDUCTION: f64 = 0.9;
pub(super) const MAX_REDUCTION: f64 = 0.5;
pub(super) const FEW_ANSWERS: f64 = 0.3;

/// Refusals in a row that reduce the rate. Further ones only make the pause longer: the subject is unreachable, not too slow.
pub(super) const MAX_REDUCTIONS: u32 = 3;

/// Milliseconds, and least number of requests, until the rate is back at the one that was refused.
pub(super) const RECOVERY_MS: f64 = 30_000.0;
pub(super) const RECOVERY_REQUESTS: f64 = 20.0;

/// Growth of the rate per answer, in requests per second, after twice the recovery without a refusal.
pub(super) const FAST_GAIN: f64 = 0.07;

/// Part of the interval between two requests. A request that is late leaves room for the next one to be early by this part.
pub(super) const SLACK: f64 = 0.2;

/// Time without a refusal after which a record is forgotten, in milliseconds.
pub(super) const KEEP_MS: f64 = 300_000.0;

/// Part of the time between two requests that each waiting request adds to the pause of the next: on average one asks again in this
/// part of the time.
pub(super) const CROWD_PART: f64 = 0.0625;

/// Maximum bytes of an error in a record.
const MAX_ERROR_BYTES: usize = 160;

/// A request that a subject did not take.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The model or server.
    pub subject: Subject,
    /// Time since the request was sent.
    pub sent_ago: Duration,
    /// Delay that the endpoint asked for.
    pub retry_after: Option<Duration>,
    /// The kind of refusal, and the error for people.
    pub reason: BlockReason,
    /// Pause after the first refusal in a row. Each further one doubles it.
    pub first_pause: Duration,
    /// Longest pause that the endpoint did not ask for.
    pub max_pause: Duration,
}

impl Refusal {
    /// The reason with the first line of the error, cut to [`MAX_ERROR_BYTES`].
    pub(super) fn short_reason(&self) -> BlockReason {
        let line = self.reason.detail.lines().next().unwrap_or_default();
        self.reason.by.because(line).truncated(MAX_ERROR_BYTES)
    }
}

/// State of a subject that does not take every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Delay before the next request may be sent.
    pub after: Duration,
    /// Time since the first refusal, if the subject has answered nothing since.
    pub out_for: Option<Duration>,
    /// The same for people, with the last error.
    pub reason: BlockReason,
    /// True if the subject answered another request after the refused one was sent.
    pub answers_others: bool,
}

impl Standing {
    /// `since` is the time of the first refusal without an answer since, in seconds since the Unix epoch.
    pub(super) fn explain(subject: &Subject, since: Option<i64>, last: &BlockReason) -> BlockReason {
        let error = &last.detail;
        last.by.because(match since {
            Some(since) => {
                let since = clock::rfc3339(since * 1_000_000);
                let seconds = since.split('.').next().unwrap_or_default();
                format!("{subject} has taken no request since {seconds}Z: {error}")
            }
            None => format!("{subject} limits its requests: {error}"),
        })
    }

    /// Logs the beginning of a pause, once for all workers.
    pub(super) fn log_pause(&self, subject: &Subject, refusals: u32) {
        let (error, wait) = (&self.reason.detail, fmt_seconds(self.after));
        warn!(%subject, refusals, "{error}; all workers wait {wait} before the next request");
    }
}

/// Logs that a subject answers again.
pub(super) fn log_recovery(subject: &Subject, out_for: Duration) {
    info!(%subject, "{subject} takes requests again after {}", fmt_seconds(out_for));
}

fn fmt_seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The record of a subject. Times are in milliseconds.
#[derive(Clone, Debug)]
pub(super) struct Availability {
    /// Requests per second.
    rate: f64,
    /// Rate after the last reduction, up to which the rate doubles. Infinite until the first reduction.
    known_rate: f64,
    /// Refusals since the last answer, of requests that were sent after the pause before.
    refusals: u32,
    /// Time of the first of them; also by the wall clock, in seconds.
    since: Option<(f64, i64)>,
    /// Length of the last pause in seconds.
    pause: f64,
    paused_until: f64,
    /// Earliest time of the next request.
    next_at: f64,
    /// Time of the last refusal that counted.
    reduced_at: f64,
    answered_at: f64,
    keep_until: f64,
    answers: Answers,
    reason: BlockReason,
}

impl Availability {
    /// Creates the record of a subject that answered `observed` requests per second until its first refusal.
    pub(super) fn new(now: f64, observed: f64) -> Self {
        let never = f64::NEG_INFINITY;
        Self {
            rate: (observed * REDUCTION).max(FIRST_RATE),
            known_rate: f64::INFINITY,
            refusals: 0,
            since: None,
            pause: 0.0,
            paused_until: never,
            next_at: never,
            reduced_at: never,
            answered_at: if observed > 0.0 { now } else { never },
            keep_until: now + KEEP_MS,
            answers: Answers::new(now),
            reason: BlockedBy::Provider.because(""),
        }
    }

    /// Returns true once the record can be forgotten.
    pub(super) fn is_over(&self, now: f64) -> bool {
        self.keep_until <= now
    }

    /// Milliseconds until the next request may be sent; 0 if it may be sent now.
    pub(super) fn wait(&self, now: f64) -> f64 {
        (self.paused_until.max(self.next_at) - now).max(0.0)
    }

    /// Milliseconds between two requests. While nothing is answered, one request per pause is sent.
    pub(super) fn spacing(&self) -> f64 {
        let even = 1_000.0 / self.rate;
        if self.refusals < 2 { even } else { even.max(self.pause) }
    }

    /// Counts a request that is sent now.
    pub(super) fn grant(&mut self, now: f64) {
        let spacing = self.spacing();
        self.next_at = self.next_at.max(now - SLACK * spacing) + spacing;
    }

    /// Milliseconds since the first refusal, if nothing was answered since.
    pub(super) fn out_for(&self, now: f64) -> Option<f64> {
        self.since.map(|(since, _)| now - since)
    }

    /// The time of the first refusal by the wall clock in seconds, if nothing was answered since; and the last reason.
    pub(super) fn cause(&self) -> (Option<i64>, &BlockReason) {
        (self.since.map(|(_, seconds)| seconds), &self.reason)
    }

    /// Returns true if another request was answered after `sent`.
    pub(super) fn answered_after(&self, sent: f64) -> bool {
        sent < self.answered_at
    }

    /// Records a refusal. Returns the refusals in a row if it counts.
    pub(super) fn refused(&mut self, now: f64, seconds: i64, refusal: &Refusal) -> Option<u32> {
        let sent = now - millis(refusal.sent_ago);
        let named = refusal.retry_after.map(millis);
        self.reason = refusal.short_reason();
        if sent < self.reduced_at.max(self.paused_until) {
            self.paused_until = self.paused_until.max(now + named.unwrap_or(0.0));
            self.keep_until = self.keep_until.max(self.paused_until + KEEP_MS / 5.0);
            return None;
        }
        let is_first = self.reduced_at == f64::NEG_INFINITY;
        let answered = now - self.answered_at < RECOVERY_MS;
        self.refusals = self.refusals.saturating_add(1);
        self.since.get_or_insert((now, seconds));
        if !is_first && self.refusals <= MAX_REDUCTIONS {
            let few = self.answers.rate(now) < self.rate * FEW_ANSWERS;
            self.rate = (self.rate * if few { MAX_REDUCTION } else { REDUCTION }).max(MIN_RATE);
        }
        if !is_first && self.refusals == 1 {
            self.known_rate = self.rate;
        }
        self.reduced_at = now;
        let doubled = millis(refusal.first_pause) * 2f64.powi(self.refusals.min(30).cast_signed() - 1);
        self.pause = doubled.min(millis(refusal.max_pause));
        let pause = match named {
            Some(named) => named,
            // A subject that answers others is slowed down, not paused.
            None if self.refusals == 1 && answered => 0.0,
            None => self.pause,
        };
        self.paused_until = self.paused_until.max(now + pause);
        self.keep_until = now + KEEP_MS.max(4.0 * self.recovery()).max(pause + KEEP_MS / 5.0);
        Some(self.refusals)
    }

    /// Records the answer of a request sent at `sent`. Returns how long the subject was out, in milliseconds, if it was.
    pub(super) fn answered(&mut self, now: f64, sent: f64) -> Option<f64> {
        self.answers.add(now);
        // It was sent before the last refusal, so it does not show that the subject takes requests again.
        if sent < self.reduced_at {
            return None;
        }
        let out_for = self.out_for(now).filter(|_| 2 <= self.refusals);
        (self.refusals, self.since, self.answered_at) = (0, None, now);
        self.next_at = self.next_at.min(now + self.spacing());
        let unrefused = now - self.reduced_at;
        if self.rate < self.known_rate {
            self.rate += self.rate.min(1.0).min(self.known_rate - self.rate);
        } else if 2.0 * self.recovery() < unrefused {
            self.rate += FAST_GAIN.min(self.rate / 2.0);
        } else {
            self.rate = self.rate.max(self.rate_after(unrefused));
        }
        out_for
    }

    /// Requests per second this many milliseconds after a refusal: a cubic curve that is flat at the refused rate.
    ///
    /// ## Why it is flat there
    ///
    /// The refused rate is the best guess of what the subject takes, so the rate stays near it for most of the time. A rate that grows
    /// in a straight line is on average half a reduction below it.
    fn rate_after(&self, unrefused: f64) -> f64 {
        let part = unrefused / self.recovery() - 1.0;
        self.known_rate / REDUCTION * (1.0 + (1.0 - REDUCTION) * part.powi(3))
    }

    /// Milliseconds in which the rate returns to the refused one.
    fn recovery(&self) -> f64 {
        RECOVERY_MS.max(RECOVERY_REQUESTS * 1_000.0 / self.rate)
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An endpoint that takes two requests per second and refuses the others at once.
    struct Endpoint {
        second: f64,
        taken: u32,
    }

    impl Endpoint {
        fn takes(&mut self, now: f64) -> bool {
            let second = (now / 1_000.0).floor();
            if second != self.second {
                (self.second, self.taken) = (second, 0);
            }
            self.taken += 1;
            self.taken <= 2
        }
    }

    fn refusal(retry_after: Option<u64>) -> Refusal {
        Refusal {
            subject: Subject::Model("a/b".to_owned()),
            sent_ago: Duration::ZERO,
            retry_after: retry_after.map(Duration::from_millis),
            reason: BlockedBy::Provider.because(""),
            first_pause: Duration::from_secs(2),
            max_pause: Duration::from_secs(60),
        }
    }

    #[test]
    fn a_pause_that_a_later_refusal_names_is_kept_to_its_end() {
        let mut record = Availability::new(0.0, 0.0);
        record.refused(0.0, 0, &refusal(None));
        let in_flight = Refusal { sent_ago: Duration::from_secs(5), ..refusal(Some(600_000)) };
        assert_eq!(record.refused(1_000.0, 1, &in_flight), None, "it was sent before the first refusal");
        assert_eq!((record.wait(2_000.0), record.is_over(600_000.0)), (599_000.0, false));
    }

    /// Sends as much as the record permits for ten minutes, after a burst. Returns the requests and the refusals of each minute.
    fn ten_minutes(latency: f64, retry_after: Option<u64>) -> Vec<(u32, u32)> {
        let mut endpoint = Endpoint { second: -1.0, taken: 0 };
        let mut record = Availability::new(0.0, 0.0);
        record.refused(0.0, 0, &refusal(retry_after));
        let (mut minutes, mut in_flight) = (vec![(0, 0); 10], std::collections::VecDeque::<f64>::new());
        for tick in 0..60_000 {
            let now = f64::from(tick) * 10.0;
            while in_flight.front().is_some_and(|sent| sent + latency <= now) {
                let sent = in_flight.pop_front().unwrap_or_default();
                record.answered(now, sent);
            }
            if 0.0 < record.wait(now) {
                continue;
            }
            record.grant(now);
            let minute = &mut minutes[usize::try_from(tick / 6_000).unwrap()];
            minute.0 += 1;
            if endpoint.takes(now) {
                in_flight.push_back(now);
            } else {
                minute.1 += 1;
                record.refused(now, 0, &refusal(retry_after));
            }
        }
        minutes
    }

    #[test]
    fn the_rate_approaches_that_of_the_endpoint() {
        for (latency, retry_after) in [(100.0, None), (100.0, Some(1_000)), (8_000.0, None), (30_000.0, None)]
        {
            let minutes = ten_minutes(latency, retry_after);
            for (sent, refused) in &minutes[1..] {
                assert!(*sent <= 144, "more than 1.2 times the rate: {minutes:?}");
                // Answers that take half a minute say late what the endpoint takes.
                let least = if latency < 30_000.0 { 84 } else { 40 };
                assert!(sent - refused >= least, "too few answers, latency {latency}: {minutes:?}");
            }
        }
    }
}
