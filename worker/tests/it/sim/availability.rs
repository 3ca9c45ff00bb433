//! Models that limit requests or are away, on a virtual clock: every turn waits, none fails, and no worker sends too much.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use queue::{
    BlockedBy, EntryState, MemoryNotifications,
    rate_limits::{MemoryRateLimiter, RateLimiter, Subject, Timing},
};
use shared::{DynThread, Event, Fault, Request, Response, Retried, RunStatus};
use store::ThreadId;
use threads::{Backends, StrategyRegistry};
use tokio::time::{Instant, sleep};
use worker::{
    Backoff, RequestAdmission, RetryPolicies, RetryPolicy, Shutdown, StepRunner, Worker, WorkerConfig,
};
use world::{Outcome, RequestContext, World};

use super::{
    LEASE, Without,
    door::Door,
    faults::{Dice, Life},
    log::{SimLog, Wire},
};

const MINUTE: Duration = Duration::from_secs(60);

/// A model that takes two requests per second, refuses the others, and is away for a while.
struct Endpoint {
    began: Instant,
    per_second: usize,
    retry_after_ms: Option<u64>,
    away: Range<Duration>,
    /// Times of all requests, and of those that were taken.
    sent: Mutex<Vec<Duration>>,
    taken: Mutex<Vec<Duration>>,
}

impl Endpoint {
    fn new(retry_after_ms: Option<u64>, away: Range<Duration>) -> Arc<Self> {
        let (sent, taken) = (Mutex::default(), Mutex::default());
        Arc::new(Self { began: Instant::now(), per_second: 2, retry_after_ms, away, sent, taken })
    }

    fn takes(&self, now: Duration) -> bool {
        let mut taken = self.taken.lock().unwrap();
        let this_second = taken.iter().rev().take_while(|it| it.as_secs() == now.as_secs()).count();
        if this_second < self.per_second {
            taken.push(now);
        }
        this_second < self.per_second
    }

    /// Returns the most requests in any ten seconds after `from`.
    fn most_in_ten_seconds(&self, from: Duration) -> usize {
        let sent = self.sent.lock().unwrap();
        let all: Vec<Duration> = sent.iter().copied().filter(|it| from <= *it).collect();
        let within = |first: &Duration| {
            all.iter().filter(|it| first <= *it && **it < *first + Duration::from_secs(10)).count()
        };
        all.iter().map(within).max().unwrap_or(0)
    }
}

#[async_trait]
impl World for Endpoint {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(it) = &ask.due.request else { panic!("the probe only rehearses") };
        let now = self.began.elapsed();
        self.sent.lock().unwrap().push(now);
        sleep(Duration::from_millis(20)).await;
        if self.away.contains(&now) {
            return Err(Fault::unavailable("cannot reach provider sim: connection refused", None));
        }
        if !self.takes(now) {
            return Err(Fault::unavailable("provider sim is rate limited", self.retry_after_ms));
        }
        sleep(Duration::from_millis(700)).await;
        Ok((Response::Echo { text: it.text.clone() }, None))
    }

    fn subject(&self, _: &Request) -> Option<Subject> {
        Some(Subject::Model("sim/model".to_owned()))
    }
}

/// Two workers with one log, one queue and one set of rate limits.
struct Engine {
    log: SimLog,
    door: Arc<Door>,
    limits: Arc<dyn RateLimiter>,
    world: Arc<Endpoint>,
    retries: RetryPolicies,
    threads: Vec<ThreadId>,
    began: Instant,
}

impl Engine {
    fn new(world: Arc<Endpoint>, turns: usize, words: &str) -> Self {
        let dice = Dice::new(7);
        let log = SimLog::new(dice.clone(), Without::Nothing);
        let opened = serde_json::json!({"event": "opened", "strategy": "probe", "version": 1});
        let said = serde_json::json!({
            "event": "turn_started", "turn": uuid::Uuid::nil(), "actor": "test",
            "messages": [{"role": "user", "content": words}],
        });
        let script: Vec<Event> = [opened, said].map(|it| serde_json::from_value(it).unwrap()).to_vec();
        let threads = (0..turns).map(|_| log.submit(&script).0).collect();
        Self {
            log,
            door: Door::new(dice, LEASE),
            limits: Arc::new(MemoryRateLimiter::new(Timing::with_permit_ttl(LEASE))),
            world,
            retries: RetryPolicies::default(),
            threads,
            began: Instant::now(),
        }
    }

    fn start(&self, name: &str) -> Arc<Life> {
        let life = Life::new(name.to_owned(), false);
        let parts = Backends {
            store: Wire::new(self.log.clone(), life.clone()),
            queue: self.door.consumer(life.clone()),
            notifications: Arc::new(MemoryNotifications::new()),
        };
        let steps = StepRunner {
            parts,
            strategies: StrategyRegistry::new(strategies::all()),
            world: self.world.clone(),
            backoff: Backoff::default(),
            admission: RequestAdmission::new(self.limits.clone(), None).with_retries(self.retries.clone()),
            name: name.to_owned(),
        };
        let config = WorkerConfig {
            slots: 16,
            max_jobs_in_place: 16,
            lease: LEASE,
            sweep_interval: Duration::from_secs(2),
            drain_timeout: MINUTE,
        };
        tokio::spawn(Worker::new(steps, config).run(Shutdown::default()));
        life
    }

    /// Runs until every turn has ended, for at most `time` since the beginning.
    async fn run(&self, time: Duration) {
        while !self.log.all_over() || self.is_busy() {
            assert!(self.began.elapsed() < time, "turns have not ended: {:?}", self.unfinished());
            sleep(Duration::from_secs(3)).await;
        }
    }

    fn is_busy(&self) -> bool {
        self.threads.iter().any(|it| self.log.replay(*it).status() == RunStatus::Busy)
    }

    fn unfinished(&self) -> Vec<String> {
        let busy = self.threads.iter().filter(|it| self.log.replay(**it).status() != RunStatus::Idle);
        busy.take(3).map(|it| format!("{:#?}", self.log.events(*it))).collect()
    }

    fn completed(&self) -> usize {
        self.threads.iter().filter(|it| self.log.replay(**it).status() == RunStatus::Idle).count()
    }

    /// The number of recorded waits of each thread. Nothing counts as a failed attempt.
    fn waits(&self) -> Vec<usize> {
        let of_thread = |it: &ThreadId| {
            let events = self.log.events(*it);
            let failed = events
                .iter()
                .filter_map(|it| if let Event::AttemptFailed(it) = it { Some(it) } else { None });
            failed.inspect(|it| assert!(it.waiting, "a refusal is no failed attempt: {it:?}")).count()
        };
        self.threads.iter().map(of_thread).collect()
    }
}

/// Each turn makes two requests: 600 requests, which take 300 s at two per second.
async fn limited(retry_after_ms: Option<u64>) {
    let engine = Engine::new(Endpoint::new(retry_after_ms, MINUTE..MINUTE), 300, "wait 0; wait 0");
    engine.start("w1");
    engine.start("w2");
    engine.run(10 * MINUTE).await;
    assert_eq!(engine.completed(), 300);
    let waits = engine.waits();
    assert!(waits.iter().all(|it| *it <= 2), "a request records its wait once: {waits:?}");
    let most = engine.world.most_in_ten_seconds(MINUTE);
    let took = engine.began.elapsed().as_secs();
    assert!(most <= 24, "{most} requests in ten seconds, more than 1.2 times the rate");
    assert!(took < 420, "it took {took} s, and 300 s are possible");
}

#[tokio::test(start_paused = true)]
async fn three_hundred_turns_complete_at_two_requests_a_second() {
    limited(None).await;
}

#[tokio::test(start_paused = true)]
async fn three_hundred_turns_complete_at_an_endpoint_that_names_a_delay() {
    limited(Some(1_000)).await;
}

#[tokio::test(start_paused = true)]
async fn three_hundred_turns_wait_through_an_outage_of_ten_minutes() {
    let away = MINUTE..11 * MINUTE;
    let engine = Engine::new(Endpoint::new(None, away.clone()), 300, "wait 0; wait 0");
    let killed = engine.start("w1");
    engine.start("w2");
    sleep(5 * MINUTE).await;
    // The others are woken by their delay, and a killed worker's by its lease.
    killed.end();
    let queue = engine.door.consumer(Life::new("reader".to_owned(), false));
    let waiting = queue.list(1_000).await.unwrap();
    let reasons = waiting.iter().filter_map(|it| match &it.state {
        EntryState::Delayed { reason, .. } => reason.clone(),
        _ => None,
    });
    let reasons: Vec<_> = reasons.filter(|it| it.by == BlockedBy::Provider).collect();
    assert!(100 < reasons.len(), "turns wait for the provider: {}", reasons.len());
    assert!(reasons.iter().all(|it| it.detail.starts_with("model sim/model has taken no request since ")));
    assert!(reasons[0].detail.ends_with(": cannot reach provider sim: connection refused"), "{}", reasons[0]);
    engine.run(25 * MINUTE).await;
    assert_eq!(engine.completed(), 300);
    let waits = engine.waits();
    assert!(waits.iter().all(|it| *it <= 2), "a request records its wait once: {waits:?}");
    assert!(100 < waits.iter().filter(|it| 0 < **it).count(), "the logs show who waited: {waits:?}");
    let sent = engine.world.sent.lock().unwrap().clone();
    let during = sent.iter().filter(|it| away.start + MINUTE <= **it && **it < away.end).count();
    assert!(during <= 20, "{during} requests in nine minutes to a model that is away");
    let most = engine.world.most_in_ten_seconds(away.end);
    assert!(most <= 24, "{most} requests in ten seconds after the outage");
    let after = engine.began.elapsed() - away.end;
    assert!(after < 7 * MINUTE, "it took {after:?} after the outage");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waited_long_enough_fails_with_the_reason_and_can_be_retried() {
    let away = Duration::ZERO..20 * MINUTE;
    let engine = Engine::new(Endpoint::new(None, away.clone()), 20, "wait 0");
    engine.start("w1");
    engine.run(19 * MINUTE).await;
    assert!(15 * MINUTE <= engine.began.elapsed(), "it was given up after {:?}", engine.began.elapsed());
    for thread in &engine.threads {
        let RunStatus::Failed { reason, .. } = engine.log.replay(*thread).status() else { panic!() };
        assert!(reason.starts_with("given up after 1") && reason.contains(" min of waiting: "), "{reason}");
        assert!(reason.contains("cannot reach provider sim: connection refused; hint: "), "{reason}");
        let events = engine.log.events(*thread);
        let waits = events.iter().filter(|it| matches!(it, Event::AttemptFailed(it) if it.waiting)).count();
        assert_eq!(waits, 1, "a wait is one event: {events:#?}");
    }
    sleep(away.end - engine.began.elapsed()).await;
    for thread in &engine.threads {
        engine.log.push(*thread, Retried { actor: "test".to_owned(), caller: None }.into());
    }
    engine.run(25 * MINUTE).await;
    assert_eq!(engine.completed(), 20);
}

#[tokio::test(start_paused = true)]
async fn the_time_to_give_up_is_configured_per_provider() {
    let mut engine = Engine::new(Endpoint::new(None, Duration::ZERO..20 * MINUTE), 5, "wait 0");
    let policy = RetryPolicy { give_up_after: MINUTE, ..RetryPolicy::MODEL };
    engine.retries.providers.insert("sim".to_owned(), policy);
    engine.start("w1");
    engine.run(4 * MINUTE).await;
    assert!(MINUTE <= engine.began.elapsed());
    assert_eq!(engine.completed(), 0);
}
