//! Rate limits shared by workers, over memory and Redis; and the timeout of a request.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use queue::{
    BlockedBy, MemoryNotifications, MemoryQueue, Notifications, Queue, RedisNotifications, RedisQueue,
    rate_limits::{
        Demand, MemoryRateLimiter, Permit, RateLimit, RateLimiter, RedisRateLimiter, Reservation, Subject,
        Timing,
    },
};
use serde_json::json;
use shared::TurnStatus;
use shared::{DynThread, Event, Message, Request, Response, RunStatus, Safety};
use store::{NewTurn, Opening, Store, ThreadId, Turn, TurnFilter};
use test_servers::Redis;
use threads::{Backends, StrategyRegistry, ThreadLog};
use tokio::sync::{Notify, Semaphore};
use worker::{
    MaxRunningTurns, RequestAdmission, Shutdown, StepOutcome, StepRunner, Worker, WorkerConfig,
    testing::{
        self, CONFIG, EchoWorld, backends, first_turn, fixtures, opened, read, start_turn, submit,
        submit_turn, turn_over,
    },
};
use world::{Outcome, RecordedWorld, RequestContext, World};

/// Lifetime of leases and permits.
const LEASE: Duration = Duration::from_millis(600);

/// Short enough for a test to wait.
const PACE: Timing = Timing { permit_ttl: LEASE, minute: Duration::from_millis(700) };

/// A world whose simulated requests all go to one server with this limit.
struct LimitedServer {
    limit: RateLimit,
    echo: EchoWorld,
    /// Time at which each request last asked for a permit, by its key.
    asked: Mutex<BTreeMap<String, Instant>>,
    /// The same of each request that was sent, and the time at which it began. Its permit was granted in between.
    begun: Mutex<Vec<(Instant, Instant)>>,
}

impl LimitedServer {
    fn new(limit: RateLimit) -> Arc<Self> {
        Arc::new(Self { limit, echo: EchoWorld::default(), asked: Mutex::default(), begun: Mutex::default() })
    }

    fn most_in_flight(&self) -> usize {
        self.echo.most_in_flight.load(Ordering::SeqCst)
    }
}

fn demand(limit: RateLimit) -> Demand {
    Demand::of(Subject::Server("calendar".to_owned()), shared::DEFAULT_TENANT, limit)
}

#[async_trait]
impl World for LimitedServer {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        let asked = self.asked.lock().unwrap()[context.key];
        self.begun.lock().unwrap().push((asked, Instant::now()));
        self.echo.perform(thread, context).await
    }

    fn demands(&self, _: &dyn DynThread, context: &RequestContext<'_>) -> Vec<Demand> {
        self.asked.lock().unwrap().insert(context.key.to_owned(), Instant::now());
        vec![demand(self.limit)]
    }
}

/// Backends shared by two workers, one connection each.
struct TwoWorkers {
    backends: [Backends; 2],
    limiters: [Arc<dyn RateLimiter>; 2],
    max_running_turns: Option<u64>,
}

async fn in_memory() -> TwoWorkers {
    let (store, queue) = (backends().await.store, MemoryQueue::new(LEASE));
    let notifications = Arc::new(MemoryNotifications::new());
    let backends = ["w0", "w1"].map(|name| {
        let queue: Arc<dyn Queue> = Arc::new(queue.consumer(name));
        Backends { store: store.clone(), queue, notifications: notifications.clone() }
    });
    let limiter = MemoryRateLimiter::new(PACE);
    let limiters: [Arc<dyn RateLimiter>; 2] = [Arc::new(limiter.clone()), Arc::new(limiter)];
    TwoWorkers { backends, limiters, max_running_turns: None }
}

async fn over_redis(redis: &Redis) -> TwoWorkers {
    let (store, url) = (backends().await.store, redis.url());
    let connect = async |name: &str| {
        let queue: Arc<dyn Queue> =
            Arc::new(RedisQueue::connect(&queue::Prefix::default(), &url, LEASE, name).await.unwrap());
        let notifications: Arc<dyn Notifications> =
            Arc::new(RedisNotifications::connect(&queue::Prefix::default(), &url).await.unwrap());
        let limiter: Arc<dyn RateLimiter> =
            Arc::new(RedisRateLimiter::connect(&queue::Prefix::default(), &url, PACE).await.unwrap());
        (Backends { store: store.clone(), queue, notifications }, limiter)
    };
    let (one, other) = (connect("w0").await, connect("w1").await);
    TwoWorkers { backends: [one.0, other.0], limiters: [one.1, other.1], max_running_turns: None }
}

impl TwoWorkers {
    fn worker(&self, nth: usize, world: Arc<dyn World>) -> Worker {
        let running = MaxRunningTurns { others: self.max_running_turns, ..MaxRunningTurns::default() };
        let admission =
            RequestAdmission::new(self.limiters[nth].clone(), None).with_max_running_turns(running);
        let steps = steps(&self.backends[nth], world, admission, &format!("w{nth}"));
        Worker::new(steps, WorkerConfig { slots: 16, lease: LEASE, ..CONFIG })
    }

    async fn start_turn(&self, message: &str) -> Turn {
        start_turn(&self.backends[0], Opening::New(opened("probe")), message).await
    }

    /// Runs many threads to their end with two workers.
    async fn run(&self, world: &Arc<LimitedServer>, message: &str, threads: usize) {
        let stop = Shutdown::default();
        let mut turns = Vec::new();
        for _ in 0..threads {
            turns.push(self.start_turn(message).await);
        }
        let workers = [0, 1].map(|nth| tokio::spawn(self.worker(nth, world.clone()).run(stop.clone())));
        for turn in turns {
            turn_over(&self.backends[0].store, &turn).await;
            let kinds = kinds(&self.backends[0], turn.thread).await;
            let has_failure = kinds.iter().any(|kind| kind == "attempt_failed");
            assert!(!has_failure, "to wait is no failure: {kinds:?}");
        }
        stop.drain();
        for worker in workers {
            worker.await.unwrap();
        }
    }
}

fn steps(backends: &Backends, world: Arc<dyn World>, admission: RequestAdmission, name: &str) -> StepRunner {
    StepRunner { admission, ..testing::steps(backends, world, name) }
}

const TWO: RateLimit = RateLimit {
    concurrency: Some(2),
    requests_per_minute: None,
    tokens_per_minute: None,
    micro_usd_per_day: None,
};

async fn two_at_once(workers: TwoWorkers) {
    let world = LimitedServer::new(TWO);
    // Some requests run alone, some concurrently; of those, requests with a permit go first.
    workers.run(&world, "wait 0.03; call 3; echo end", 12).await;
    assert_eq!(world.most_in_flight(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_given_no_more_at_once_by_two_workers_over_memory() {
    two_at_once(in_memory().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_given_no_more_at_once_by_two_workers_over_redis() {
    let redis = Redis::start();
    two_at_once(over_redis(&redis).await).await;
}

/// A world whose calls are writes of one server, which makes one at a time.
#[derive(Default)]
struct WritesInTurn {
    echo: EchoWorld,
    made: Mutex<BTreeMap<ThreadId, Vec<usize>>>,
}

#[async_trait]
impl World for WritesInTurn {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        self.made.lock().unwrap().entry(context.thread).or_default().push(context.due.slot);
        self.echo.perform(thread, context).await
    }

    fn demands(&self, thread: &dyn DynThread, _: &RequestContext<'_>) -> Vec<Demand> {
        vec![Demand::turn_of_writes("files", thread.tenant())]
    }
}

/// One write at a time, whatever worker and thread makes it, and those of one node in their order.
async fn one_write_at_a_time(workers: TwoWorkers) {
    let world = Arc::new(WritesInTurn::default());
    let stop = Shutdown::default();
    let turns = [workers.start_turn("call 6").await, workers.start_turn("call 6").await];
    let running = [0, 1].map(|nth| tokio::spawn(workers.worker(nth, world.clone()).run(stop.clone())));
    for turn in turns {
        turn_over(&workers.backends[0].store, &turn).await;
    }
    stop.drain();
    for worker in running {
        worker.await.unwrap();
    }
    assert_eq!(world.echo.most_in_flight.load(Ordering::SeqCst), 1);
    for made in world.made.lock().unwrap().values() {
        assert_eq!(*made, (0..6).collect::<Vec<_>>(), "in the order of the reply");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_take_turns_over_memory() {
    one_write_at_a_time(in_memory().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_take_turns_over_redis() {
    let redis = Redis::start();
    one_write_at_a_time(over_redis(&redis).await).await;
}

async fn spread_over_time(workers: TwoWorkers) {
    const MOST: usize = 3;
    let world =
        LimitedServer::new(RateLimit { requests_per_minute: Some(MOST as u64), ..RateLimit::default() });
    workers.run(&world, "wait 0", 8).await;
    let (mut asked, mut begun): (Vec<_>, Vec<_>) = world.begun.lock().unwrap().iter().copied().unzip();
    assert_eq!(begun.len(), 8, "each was sent once");
    asked.sort();
    begun.sort();
    for (first, last) in asked.iter().zip(begun.iter().skip(MOST)) {
        let apart = last.duration_since(*first);
        assert!(PACE.minute <= apart, "{} permits within {apart:?}", MOST + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_a_rate_is_spread_over_time_over_memory() {
    spread_over_time(in_memory().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_a_rate_is_spread_over_time_over_redis() {
    let redis = Redis::start();
    spread_over_time(over_redis(&redis).await).await;
}

async fn take(limiter: &dyn RateLimiter, limit: RateLimit) -> Permit {
    match limiter.reserve("somebody", &[demand(limit)]).await.unwrap() {
        Reservation::Granted(permit) => permit,
        Reservation::Wait { reason, .. } => panic!("{reason}"),
        Reservation::Unavailable(standing) => panic!("{}", standing.reason),
    }
}

async fn a_dead_holder(workers: TwoWorkers) {
    let one = RateLimit { concurrency: Some(1), ..RateLimit::default() };
    // A killed worker does not release its permit.
    let _dead = take(&*workers.limiters[1], one).await;
    let began = Instant::now();
    let world = LimitedServer::new(one);
    workers.run(&world, "wait 0", 2).await;
    assert!(LEASE <= began.elapsed() + Duration::from_millis(5), "the place was kept for its holder");
    assert_eq!(world.most_in_flight(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_place_of_a_killed_worker_comes_back_over_memory() {
    a_dead_holder(in_memory().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_place_of_a_killed_worker_comes_back_over_redis() {
    let redis = Redis::start();
    a_dead_holder(over_redis(&redis).await).await;
}

/// A request longer than a permit's lifetime keeps its permit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_lasts_as_long_as_its_request() {
    let world = LimitedServer::new(RateLimit { concurrency: Some(1), ..RateLimit::default() });
    in_memory().await.run(&world, "wait 1.5", 2).await;
    assert_eq!(world.most_in_flight(), 1);
}

/// A job without a permit ends: no attempt is counted, its slot is free, and no worker spins.
#[tokio::test]
async fn a_job_without_a_permit_ends_and_counts_no_attempt() {
    let backends = backends().await;
    let one = RateLimit { concurrency: Some(1), ..RateLimit::default() };
    let limiter = Arc::new(MemoryRateLimiter::new(Timing::with_permit_ttl(Duration::from_secs(600))));
    let permit = take(&*limiter, one).await;
    let world = LimitedServer::new(one);
    let steps = steps(&backends, world.clone(), RequestAdmission::new(limiter.clone(), None), "w");
    let turn = start_turn(&backends, Opening::New(opened("probe")), "wait 0").await;
    let (thread, wake) = (turn.thread, Notify::new());
    while steps.run_job(thread, &wake).await.unwrap() == StepOutcome::Continue {}
    assert!(world.begun.lock().unwrap().is_empty(), "it has no permit");
    let before = kinds(&backends, thread).await;
    for _ in 0..3 {
        let outcome = steps.run_job(thread, &wake).await.unwrap();
        let StepOutcome::Blocked { after, why } = outcome else { panic!("{outcome:?}") };
        assert!(Duration::from_millis(100) < after, "it would spin: {after:?}");
        let limit = "MCP server calendar is at its limit of 1 concurrent requests";
        assert_eq!(why, BlockedBy::Limit.because(limit));
    }
    assert_eq!(kinds(&backends, thread).await, before, "to wait writes nothing");
    limiter.settle(&permit, Default::default()).await.unwrap();
    while steps.run_job(thread, &wake).await.unwrap() != StepOutcome::Idle {}
    assert_eq!(world.begun.lock().unwrap().len(), 1);
}

async fn two_running_turns(mut workers: TwoWorkers) {
    workers.max_running_turns = Some(2);
    let world = LimitedServer::new(RateLimit::default());
    // A turn keeps its place between its requests, and one that asks a person frees it.
    let (stop, asking) = (Shutdown::default(), workers.start_turn("wait 0; ask Well?").await);
    let running = [0, 1].map(|nth| tokio::spawn(workers.worker(nth, world.clone()).run(stop.clone())));
    let asked = turn_over(&workers.backends[0].store, &asking).await;
    assert_eq!(asked.status, TurnStatus::Interrupted);
    stop.drain();
    for worker in running {
        worker.await.unwrap();
    }
    let most_running = Arc::new(AtomicUsize::new(0));
    let counted = tokio::spawn(count_running(workers.backends[0].store.clone(), most_running.clone()));
    workers.run(&world, "wait 0.02; wait 0.02; wait 0.02", 12).await;
    counted.abort();
    assert_eq!(world.most_in_flight(), 2, "both places are used, and no more");
    assert!(most_running.load(Ordering::SeqCst) <= 2, "a turn runs without a place");
}

/// Counts the running turns, over and over.
async fn count_running(store: Store, most: Arc<AtomicUsize>) {
    loop {
        let filter = TurnFilter { status: Some(TurnStatus::Running), ..TurnFilter::default() };
        most.fetch_max(store.turns(filter, None, 50).await.unwrap().len(), Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_has_no_more_running_turns_over_memory() {
    two_running_turns(in_memory().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_has_no_more_running_turns_over_redis() {
    let redis = Redis::start();
    two_running_turns(over_redis(&redis).await).await;
}

/// A world in which every request costs all of a tenant's money.
struct Costly;

#[async_trait]
impl World for Costly {
    async fn perform(&self, _: &dyn DynThread, _: &RequestContext<'_>) -> Outcome {
        Ok((Response::Echo { text: String::new() }, None))
    }

    fn demands(&self, thread: &dyn DynThread, _: &RequestContext<'_>) -> Vec<Demand> {
        let limit = RateLimit { micro_usd_per_day: Some(10), ..RateLimit::default() };
        let subject = Subject::Tenant(thread.tenant().to_owned());
        vec![Demand { micro_usd: 10, ..Demand::of(subject, thread.tenant(), limit) }]
    }
}

async fn one_spends_everything(workers: TwoWorkers) {
    let backends = &workers.backends[0];
    let admission = RequestAdmission::new(workers.limiters[0].clone(), None);
    let (steps, wake) = (steps(backends, Arc::new(Costly), admission, "w"), Notify::new());
    let run = async |tenant: &str| {
        let opened = serde_json::from_value(json!({"strategy": "probe", "tenant": tenant})).unwrap();
        let turn = submit(backends, Opening::New(opened), vec![Message::user("wait 0")]).await;
        loop {
            match steps.run_job(turn.thread, &wake).await.unwrap() {
                StepOutcome::Continue => (),
                outcome => break outcome,
            }
        }
    };
    assert_eq!(run("acme").await, StepOutcome::Idle);
    let StepOutcome::Blocked { why, .. } = run("acme").await else { panic!("its money is spent") };
    assert_eq!(why.by, BlockedBy::Limit);
    let reason = "tenant acme is near its limit of $0.00001 per day, which is reset at ";
    assert!(why.detail.starts_with(reason), "{why}");
    assert_eq!(run("bell").await, StepOutcome::Idle, "another tenant has its own money");
}

#[tokio::test]
async fn the_spending_of_one_tenant_stops_no_other_over_memory() {
    one_spends_everything(in_memory().await).await;
}

#[tokio::test]
async fn the_spending_of_one_tenant_stops_no_other_over_redis() {
    let redis = Redis::start();
    one_spends_everything(over_redis(&redis).await).await;
}

async fn kinds(parts: &Backends, thread: ThreadId) -> Vec<String> {
    let (_, log) = parts.store.load(thread).await.unwrap();
    log.iter().map(|row| row.event.kind().to_owned()).collect()
}

/// A recorded world in which writes need a permit and take a given time.
struct LimitedWrites {
    recorded: RecordedWorld,
    limit: RateLimit,
    writes: Mutex<BTreeMap<String, usize>>,
    /// Permits of the writes that are answered.
    answered: Semaphore,
}

impl LimitedWrites {
    /// Returns the world of a fixture with a write that must not be repeated, its first events, and the number of writes that
    /// are answered.
    fn new(answered: usize) -> (Arc<Self>, NewTurn) {
        let graphs = ["planner", "action_plan"].map(|name| strategies::find(name).unwrap());
        let scripts = graphs
            .into_iter()
            .flat_map(|graph| fixtures(graph).into_iter().map(move |path| (graph, read(&path))));
        let (graph, script) = scripts
            .filter(|(_, script)| script.iter().skip(2).all(|event| matches!(event, Event::Answered(_))))
            .find(|(graph, script)| has_unrepeatable_call(&shared::rerun(*graph, script).unwrap().log))
            .expect("a fixture with such a write");
        let new = first_turn(&script);
        let recorded = RecordedWorld::new(graph, &script).unwrap();
        let limit = RateLimit { concurrency: Some(1), ..RateLimit::default() };
        let answered = Semaphore::new(answered);
        let this = Self { recorded, limit, writes: Mutex::default(), answered };
        (Arc::new(this), new)
    }
}

/// Returns true if a tool that must not be repeated is called.
fn has_unrepeatable_call(log: &[Event]) -> bool {
    let tools = log.iter().filter_map(|event| match event {
        Event::Answered(answer) => match &answer.response {
            Response::Tools { tools } => Some(tools),
            _ => None,
        },
        _ => None,
    });
    let unrepeatable = tools.flatten().filter(|tool| tool.safety == Safety::Write);
    let unrepeatable: Vec<&str> = unrepeatable.map(|tool| tool.name.as_str()).collect();
    let requests = log.iter().filter_map(|event| match event {
        Event::Asked(asked) => Some(&asked.requests),
        _ => None,
    });
    requests.flatten().any(|request| {
        matches!(request, Request::CallTool { call, .. } if unrepeatable.contains(&call.name.as_str()))
    })
}

#[async_trait]
impl World for LimitedWrites {
    async fn perform(&self, thread: &dyn DynThread, context: &RequestContext<'_>) -> Outcome {
        if context.due.is_write() {
            *self.writes.lock().unwrap().entry(context.key.to_owned()).or_default() += 1;
            self.answered.acquire().await.unwrap().forget();
        }
        self.recorded.perform(thread, context).await
    }

    fn demands(&self, _: &dyn DynThread, context: &RequestContext<'_>) -> Vec<Demand> {
        if context.due.is_write() { vec![demand(self.limit)] } else { Vec::new() }
    }
}

/// A write waiting for its permit was not attempted: after its worker is killed, nothing is in doubt.
#[tokio::test]
async fn a_write_that_waits_for_a_permit_is_not_in_doubt() {
    let (world, new) = LimitedWrites::new(100);
    let limiter = MemoryRateLimiter::new(Timing::with_permit_ttl(Duration::from_secs(600)));
    let (backends, wake) = (backends().await, Notify::new());
    let other = take(&limiter, world.limit).await;
    let admission = || RequestAdmission::new(Arc::new(limiter.clone()), None);
    let thread = submit_turn(&backends, new).await.thread;
    let killed = steps(&backends, world.clone(), admission(), "killed");
    let outcome = loop {
        match killed.run_job(thread, &wake).await.unwrap() {
            StepOutcome::Continue => (),
            outcome => break outcome,
        }
    };
    assert!(matches!(outcome, StepOutcome::Blocked { .. }), "{outcome:?}");
    drop(killed);
    let waiting = kinds(&backends, thread).await;
    assert_eq!(waiting.last().unwrap(), "asked", "it was asked for, and not attempted");
    limiter.settle(&other, Default::default()).await.unwrap();
    let next = steps(&backends, world.clone(), admission(), "next");
    while next.run_job(thread, &wake).await.unwrap() != StepOutcome::Idle {}
    let kinds = kinds(&backends, thread).await;
    let has = |kind: &str| kinds.iter().any(|other| other == kind);
    assert!(has("attempted") && !has("in_doubt"), "{kinds:?}");
    assert!(world.writes.lock().unwrap().values().all(|count| *count == 1));
}

/// A timed-out write may have happened, so a person is asked.
#[tokio::test]
async fn a_write_that_times_out_is_in_doubt() {
    let (world, new) = LimitedWrites::new(0);
    let (backends, wake) = (backends().await, Notify::new());
    let limiter = Arc::new(MemoryRateLimiter::new(PACE));
    let admission = RequestAdmission::new(limiter, Some(Duration::from_secs(1)));
    let steps = steps(&backends, world.clone(), admission, "w");
    let thread = submit_turn(&backends, new).await.thread;
    while steps.run_job(thread, &wake).await.unwrap() != StepOutcome::Idle {}
    let (_, log) = backends.store.load(thread).await.unwrap();
    let Event::InDoubt(doubt) = &log.last().unwrap().event else { panic!("{:?}", log.last()) };
    assert_eq!(doubt.reason, "the request timed out after 1s; hint: raise worker.node_timeout_seconds");
    assert_eq!(world.writes.lock().unwrap().values().sum::<usize>(), 1, "it is not repeated");
}

/// A timed-out read is retried and fails in the end.
#[tokio::test]
async fn a_request_that_times_out_is_tried_again() {
    let (backends, wake) = (backends().await, Notify::new());
    let world = LimitedServer::new(RateLimit::default());
    let limiter = Arc::new(MemoryRateLimiter::new(PACE));
    let admission = RequestAdmission::new(limiter, Some(Duration::from_millis(30)));
    let steps = steps(&backends, world.clone(), admission, "w");
    let turn = start_turn(&backends, Opening::New(opened("probe")), "wait 60").await;
    loop {
        match steps.run_job(turn.thread, &wake).await.unwrap() {
            StepOutcome::Idle => break,
            StepOutcome::RetryLater { after, .. } => tokio::time::sleep(after).await,
            StepOutcome::Continue | StepOutcome::NextTurn(_) => (),
            blocked @ StepOutcome::Blocked { .. } => panic!("{blocked:?}"),
        }
    }
    let (_, log) = backends.store.load(turn.thread).await.unwrap();
    let failures = log.iter().filter_map(|row| match &row.event {
        Event::AttemptFailed(failure) => Some(failure),
        _ => None,
    });
    let failures: Vec<_> = failures.collect();
    assert_eq!(failures.len(), 4, "as often as any request that fails");
    for failure in failures {
        let error = "the request timed out after 30ms; hint: raise worker.node_timeout_seconds";
        assert_eq!(failure.error, error);
        let is_counted = failure.usage.as_ref().is_some_and(|usage| 30 <= usage.duration_ms);
        assert!(is_counted, "its time counts: {failure:?}");
    }
    let strategies = StrategyRegistry::new(strategies::all());
    let log = ThreadLog::open(&backends, &strategies, turn.thread).await.unwrap();
    assert!(matches!(log.thread().status(), RunStatus::Failed { .. }));
    assert_eq!(world.begun.lock().unwrap().len(), 4);
}
