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
    Schedule,
    rate_limits::{
        Demand, MemoryRateLimiter, Permit, RateLimit, RateLimiter, RedisRateLimiter, Reservation, Subject,
        Timing,
    },
};
use shared::{DynThread, Event, Message, Opened, Request, Response, RunStatus, Safety};
use store::{Store, ThreadId};
use test_servers::Redis;
use threads::{Backends, StrategyRegistry};
use tokio::sync::{Notify, Semaphore};
use worker::{
    Backoff, MaxRunningTurns, RequestAdmission, Shutdown, StepOutcome, StepRunner, Worker, WorkerConfig,
};
use world::{Outcome, RecordedWorld, RequestContext, World};

use crate::lived::{fixtures, parts, read};

/// Lifetime of leases and permits.
const LEASE: Duration = Duration::from_millis(600);

/// Short enough for a test to wait.
const PACE: Timing = Timing { permit_ttl: LEASE, minute: Duration::from_millis(700) };

/// A world whose simulated requests all go to one server with this limit.
struct Busy {
    cap: RateLimit,
    at_work: AtomicUsize,
    most: AtomicUsize,
    begun: Mutex<Vec<Instant>>,
}

impl Busy {
    fn new(cap: RateLimit) -> Arc<Self> {
        let [at_work, most] = [(); 2].map(|()| AtomicUsize::new(0));
        Arc::new(Self { cap, at_work, most, begun: Mutex::default() })
    }
}

fn want(cap: RateLimit) -> Demand {
    Demand::of(Subject::Server("calendar".to_owned()), shared::DEFAULT_TENANT, cap)
}

#[async_trait]
impl World for Busy {
    async fn perform(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        let Request::Simulate(it) = &ask.due.request else { panic!("the probe only rehearses") };
        self.begun.lock().unwrap().push(Instant::now());
        self.most.fetch_max(self.at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(it.wait_ms)).await;
        self.at_work.fetch_sub(1, Ordering::SeqCst);
        Ok((Response::Echo { text: it.text.clone() }, None))
    }

    fn demands(&self, _: &dyn DynThread, _: &RequestContext<'_>) -> Vec<Demand> {
        vec![want(self.cap)]
    }
}

/// Backends shared by two workers, one connection each.
struct House {
    parts: [Backends; 2],
    books: [Arc<dyn RateLimiter>; 2],
    max_running_turns: Option<u64>,
}

async fn store() -> Store {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    store
}

async fn in_memory() -> House {
    let (store, queue, notifications) =
        (store().await, MemoryQueue::new(LEASE), Arc::new(MemoryNotifications::new()));
    let parts = ["w0", "w1"].map(|name| {
        let queue: Arc<dyn Queue> = Arc::new(queue.consumer(name));
        Backends { store: store.clone(), queue, notifications: notifications.clone() }
    });
    let books = MemoryRateLimiter::new(PACE);
    House { parts, books: [Arc::new(books.clone()), Arc::new(books)], max_running_turns: None }
}

async fn over_redis(redis: &Redis) -> House {
    let (store, url) = (store().await, redis.url());
    let end = async |name: &str| {
        let queue: Arc<dyn Queue> = Arc::new(RedisQueue::connect(&url, LEASE, name).await.unwrap());
        let notifications: Arc<dyn Notifications> =
            Arc::new(RedisNotifications::connect(&url).await.unwrap());
        let books: Arc<dyn RateLimiter> = Arc::new(RedisRateLimiter::connect(&url, PACE).await.unwrap());
        (Backends { store: store.clone(), queue, notifications }, books)
    };
    let (one, other) = (end("w0").await, end("w1").await);
    House { parts: [one.0, other.0], books: [one.1, other.1], max_running_turns: None }
}

impl House {
    fn worker(&self, n: usize, world: Arc<dyn World>) -> Worker {
        let running = MaxRunningTurns { others: self.max_running_turns, ..MaxRunningTurns::default() };
        let bounds = RequestAdmission::new(self.books[n].clone(), None).with_max_running_turns(running);
        let hands = hands(&self.parts[n], world, bounds, &format!("w{n}"));
        let (minute, sweep) = (Duration::from_secs(60), Duration::from_secs(60));
        Worker::new(
            hands,
            WorkerConfig {
                slots: 16,
                max_jobs_in_place: 16,
                lease: LEASE,
                sweep_interval: sweep,
                drain_timeout: minute,
            },
        )
    }

    async fn says(&self, words: &str) -> ThreadId {
        let opened: Opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
        let thread = crate::crash::submit_words(&self.parts[0], opened, vec![Message::user(words)]).await;
        self.parts[0].queue.enqueue(thread, &queue::Lane::default(), Schedule::Now).await.unwrap();
        thread
    }

    /// Runs many threads to their end with two workers.
    async fn live(&self, world: &Arc<Busy>, words: &str, threads: usize) {
        let stop = Shutdown::default();
        let mut all = Vec::new();
        for _ in 0..threads {
            all.push(self.says(words).await);
        }
        let workers = [0, 1].map(|n| tokio::spawn(self.worker(n, world.clone()).run(stop.clone())));
        for thread in all {
            let log = self.ended(thread).await;
            assert!(
                !log.iter().any(|it| matches!(it, Event::AttemptFailed(_))),
                "to wait is no failure: {log:?}"
            );
        }
        stop.drain();
        for worker in workers {
            worker.await.unwrap();
        }
    }

    async fn ended(&self, thread: ThreadId) -> Vec<Event> {
        until_idle(&self.parts[0], thread).await
    }
}

/// Waits until a thread is idle and returns its log.
async fn until_idle(parts: &Backends, thread: ThreadId) -> Vec<Event> {
    let began = Instant::now();
    loop {
        let turn = parts
            .store
            .turns(store::TurnFilter { thread: Some(thread), ..Default::default() }, None, 1)
            .await;
        if turn.unwrap()[0].status.is_over() {
            let (_, log) = parts.store.load(thread).await.unwrap();
            return log.into_iter().map(|it| it.event).collect();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it does not come to its end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn hands(parts: &Backends, world: Arc<dyn World>, admission: RequestAdmission, name: &str) -> StepRunner {
    StepRunner {
        parts: parts.clone(),
        strategies: StrategyRegistry::new(strategies::all()),
        world,
        backoff: Backoff { base: Duration::from_millis(1), max: Duration::from_millis(2) },
        admission,
        name: name.to_owned(),
    }
}

const TWO: RateLimit = RateLimit {
    concurrency: Some(2),
    requests_per_minute: None,
    tokens_per_minute: None,
    micro_usd_per_day: None,
};

async fn two_at_once(house: House) {
    let world = Busy::new(TWO);
    // Some requests run alone, some concurrently; of those, requests with a permit go first.
    house.live(&world, "wait 0.03; call 3; echo end", 12).await;
    assert_eq!(world.most.load(Ordering::SeqCst), 2);
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

async fn spread_over_time(house: House) {
    const MOST: usize = 3;
    let world = Busy::new(RateLimit { requests_per_minute: Some(MOST as u64), ..RateLimit::default() });
    house.live(&world, "wait 0", 8).await;
    let mut begun = world.begun.lock().unwrap().clone();
    begun.sort();
    assert_eq!(begun.len(), 8, "each was asked once");
    for (first, last) in begun.iter().zip(begun.iter().skip(MOST)) {
        // A permit is granted shortly before the request starts: the first may have started late.
        let apart = last.duration_since(*first) + Duration::from_millis(250);
        assert!(PACE.minute <= apart, "{} requests within {apart:?}", MOST + 1);
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

async fn take(books: &dyn RateLimiter, cap: RateLimit) -> Permit {
    match books.reserve("somebody", &[want(cap)]).await.unwrap() {
        Reservation::Granted(permit) => permit,
        Reservation::Wait { reason: why, .. } => panic!("{why}"),
        Reservation::Unavailable(it) => panic!("{}", it.reason),
    }
}

async fn a_dead_holder(house: House) {
    let one = RateLimit { concurrency: Some(1), ..RateLimit::default() };
    // A killed worker does not release its permit.
    let _dead = take(&*house.books[1], one).await;
    let began = Instant::now();
    let world = Busy::new(one);
    house.live(&world, "wait 0", 2).await;
    assert!(LEASE <= began.elapsed() + Duration::from_millis(5), "the place was kept for its holder");
    assert_eq!(world.most.load(Ordering::SeqCst), 1);
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
    let world = Busy::new(RateLimit { concurrency: Some(1), ..RateLimit::default() });
    in_memory().await.live(&world, "wait 1.5", 2).await;
    assert_eq!(world.most.load(Ordering::SeqCst), 1);
}

/// A job without a permit ends: no attempt is counted, its slot is free, and no worker spins.
#[tokio::test]
async fn a_job_without_a_place_ends_and_counts_no_try() {
    let house = in_memory().await;
    let one = RateLimit { concurrency: Some(1), ..RateLimit::default() };
    let books = Arc::new(MemoryRateLimiter::new(Timing::with_permit_ttl(Duration::from_secs(600))));
    let permit = take(&*books, one).await;
    let world = Busy::new(one);
    let hands = hands(&house.parts[0], world.clone(), RequestAdmission::new(books.clone(), None), "w");
    let (thread, rung) = (house.says("wait 0").await, Notify::new());
    while hands.run_job(thread, &rung).await.unwrap() == StepOutcome::Continue {}
    assert!(world.begun.lock().unwrap().is_empty(), "it has no place");
    let before = kinds(&house.parts[0], thread).await;
    for _ in 0..3 {
        let done = hands.run_job(thread, &rung).await.unwrap();
        let StepOutcome::Blocked { after, why } = done else { panic!("{done:?}") };
        assert!(Duration::from_millis(100) < after, "it would spin: {after:?}");
        let room = "MCP server calendar is at its limit of 1 concurrent requests";
        assert_eq!(why, BlockedBy::Limit.because(room));
    }
    assert_eq!(kinds(&house.parts[0], thread).await, before, "to wait writes nothing");
    books.settle(&permit, Default::default()).await.unwrap();
    while hands.run_job(thread, &rung).await.unwrap() != StepOutcome::Idle {}
    assert_eq!(world.begun.lock().unwrap().len(), 1);
}

async fn two_running_turns(mut house: House) {
    house.max_running_turns = Some(2);
    let world = Busy::new(RateLimit::default());
    // A turn keeps its place between its requests, and one that asks a person frees it.
    let (stop, asking) = (Shutdown::default(), house.says("wait 0; ask Well?").await);
    let workers = [0, 1].map(|n| tokio::spawn(house.worker(n, world.clone()).run(stop.clone())));
    until_interrupted(&house.parts[0], asking).await;
    stop.drain();
    for worker in workers {
        worker.await.unwrap();
    }
    let most_running = Arc::new(AtomicUsize::new(0));
    let counted = tokio::spawn(count_running(house.parts[0].store.clone(), most_running.clone()));
    house.live(&world, "wait 0.02; wait 0.02; wait 0.02", 12).await;
    counted.abort();
    assert_eq!(world.most.load(Ordering::SeqCst), 2, "both places are used, and no more");
    assert!(most_running.load(Ordering::SeqCst) <= 2, "a turn runs without a place");
}

async fn until_interrupted(parts: &Backends, thread: ThreadId) {
    let strategies = StrategyRegistry::new(strategies::all());
    while !matches!(
        threads::ThreadLog::open(parts, &strategies, thread).await.unwrap().thread().status(),
        RunStatus::Waiting(_)
    ) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Counts the running turns, over and over.
async fn count_running(store: Store, most: Arc<AtomicUsize>) {
    loop {
        let filter = store::TurnFilter { status: Some(store::TurnStatus::Running), ..Default::default() };
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

async fn one_spends_everything(house: House) {
    let bounds = || RequestAdmission::new(house.books[0].clone(), None);
    let (hands, rung) = (hands(&house.parts[0], Arc::new(Costly), bounds(), "w"), Notify::new());
    let run = async |tenant: &str| {
        let opened = serde_json::json!({"strategy": "probe", "tenant": tenant});
        let opened: Opened = serde_json::from_value(opened).unwrap();
        let messages = vec![Message::user("wait 0")];
        let thread = crate::crash::submit_words(&house.parts[0], opened, messages).await;
        loop {
            match hands.run_job(thread, &rung).await.unwrap() {
                StepOutcome::Continue => (),
                done => break done,
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
    log.iter().map(|it| it.event.kind().to_owned()).collect()
}

/// A recorded world in which writes need a permit and take a given time.
struct Fenced {
    world: RecordedWorld,
    cap: RateLimit,
    writes: Mutex<BTreeMap<String, usize>>,
    doors: Semaphore,
}

impl Fenced {
    /// Returns the world of a fixture with a write that must not be repeated, and its first events.
    fn new(doors: usize) -> (Arc<Self>, Opened, Vec<Message>) {
        let of = |name| strategies::find(name).unwrap();
        let all = [of("planner"), of("action_plan")];
        let all =
            all.into_iter().flat_map(|graph| fixtures(graph).into_iter().map(move |it| (graph, read(&it))));
        let (graph, script) = all
            .filter(|(_, it)| it.iter().skip(2).all(|it| matches!(it, Event::Answered(_))))
            .find(|(graph, it)| has_unrepeatable_call(&shared::rerun(*graph, it).unwrap().log))
            .expect("a fixture with such a write");
        let (Event::Opened(opened), Event::TurnStarted(heard)) = (&script[0], &script[1]) else {
            panic!("not a fixture")
        };
        let world = RecordedWorld::new(graph, &script).unwrap();
        let cap = RateLimit { concurrency: Some(1), ..RateLimit::default() };
        let this = Self { world, cap, writes: Mutex::default(), doors: Semaphore::new(doors) };
        (Arc::new(this), opened.clone(), heard.messages.clone())
    }
}

/// Returns true if a tool that must not be repeated is called.
fn has_unrepeatable_call(log: &[Event]) -> bool {
    let tools = log.iter().filter_map(|it| match it {
        Event::Answered(it) => match &it.response {
            Response::Tools { tools } => Some(tools),
            _ => None,
        },
        _ => None,
    });
    let once: Vec<&str> =
        tools.flatten().filter(|it| it.safety == Safety::Write).map(|it| it.name.as_str()).collect();
    log.iter().any(|it| match it {
        Event::Asked(it) => it
            .requests
            .iter()
            .any(|it| matches!(it, Request::CallTool { call, .. } if once.contains(&call.name.as_str()))),
        _ => false,
    })
}

#[async_trait]
impl World for Fenced {
    async fn perform(&self, thread: &dyn DynThread, ask: &RequestContext<'_>) -> Outcome {
        if ask.due.is_write() {
            *self.writes.lock().unwrap().entry(ask.key.to_owned()).or_default() += 1;
            self.doors.acquire().await.unwrap().forget();
        }
        self.world.perform(thread, ask).await
    }

    fn demands(&self, _: &dyn DynThread, ask: &RequestContext<'_>) -> Vec<Demand> {
        if ask.due.is_write() { vec![want(self.cap)] } else { Vec::new() }
    }
}

/// A write waiting for its permit was not attempted: after its worker is killed, nothing is in doubt.
#[tokio::test]
async fn a_write_that_waits_for_a_place_is_not_in_doubt() {
    let (world, opened, messages) = Fenced::new(100);
    let books = MemoryRateLimiter::new(Timing::with_permit_ttl(Duration::from_secs(600)));
    let (parts, rung) = (parts().await, Notify::new());
    let other = take(&books, world.cap).await;
    let bounds = || RequestAdmission::new(Arc::new(books.clone()), None);
    let thread = crate::crash::submit_words(&parts, opened, messages).await;
    let killed = hands(&parts, world.clone(), bounds(), "killed");
    let held = loop {
        match killed.run_job(thread, &rung).await.unwrap() {
            StepOutcome::Continue => (),
            done => break done,
        }
    };
    assert!(matches!(held, StepOutcome::Blocked { .. }), "{held:?}");
    drop(killed);
    let waiting = kinds(&parts, thread).await;
    assert_eq!(waiting.last().unwrap(), "asked", "it was asked for, and not attempted");
    books.settle(&other, Default::default()).await.unwrap();
    let heir = hands(&parts, world.clone(), bounds(), "heir");
    while heir.run_job(thread, &rung).await.unwrap() != StepOutcome::Idle {}
    let all = kinds(&parts, thread).await;
    assert!(all.iter().any(|it| it == "attempted") && !all.iter().any(|it| it == "in_doubt"), "{all:?}");
    assert!(world.writes.lock().unwrap().values().all(|it| *it == 1));
}

/// A timed-out write may have happened, so a person is asked.
#[tokio::test]
async fn a_write_that_times_out_is_in_doubt() {
    let (world, opened, messages) = Fenced::new(0);
    let (parts, rung) = (parts().await, Notify::new());
    let bounds = RequestAdmission::new(Arc::new(MemoryRateLimiter::new(PACE)), Some(Duration::from_secs(1)));
    let hands = hands(&parts, world.clone(), bounds, "w");
    let thread = crate::crash::submit_words(&parts, opened, messages).await;
    while hands.run_job(thread, &rung).await.unwrap() != StepOutcome::Idle {}
    let (_, log) = parts.store.load(thread).await.unwrap();
    let Event::InDoubt(doubted) = &log.last().unwrap().event else { panic!("{:?}", log.last()) };
    assert_eq!(doubted.reason, "the request timed out after 1s; hint: raise worker.node_timeout_seconds");
    assert_eq!(world.writes.lock().unwrap().values().sum::<usize>(), 1, "it is not repeated");
}

/// A timed-out read is retried and fails in the end.
#[tokio::test]
async fn a_request_that_times_out_is_tried_again() {
    let (house, rung) = (in_memory().await, Notify::new());
    let world = Busy::new(RateLimit::default());
    let bounds = RequestAdmission::new(house.books[0].clone(), Some(Duration::from_millis(30)));
    let hands = hands(&house.parts[0], world.clone(), bounds, "w");
    let thread = house.says("wait 60").await;
    loop {
        match hands.run_job(thread, &rung).await.unwrap() {
            StepOutcome::Idle => break,
            StepOutcome::RetryLater { after: pause, .. } => tokio::time::sleep(pause).await,
            StepOutcome::Continue | StepOutcome::NextTurn(_) => (),
            held @ StepOutcome::Blocked { .. } => panic!("{held:?}"),
        }
    }
    let (_, log) = house.parts[0].store.load(thread).await.unwrap();
    let faltered = log.iter().filter_map(|it| match &it.event {
        Event::AttemptFailed(it) => Some(it),
        _ => None,
    });
    let faltered: Vec<_> = faltered.collect();
    assert_eq!(faltered.len(), 4, "as often as anything that falters");
    for it in faltered {
        assert_eq!(it.error, "the request timed out after 30ms; hint: raise worker.node_timeout_seconds");
        assert!(it.usage.as_ref().is_some_and(|it| 30 <= it.duration_ms), "its time counts: {it:?}");
    }
    let strategies = StrategyRegistry::new(strategies::all());
    let log = threads::ThreadLog::open(&house.parts[0], &strategies, thread).await.unwrap();
    assert!(matches!(log.thread().status(), RunStatus::Failed { .. }));
    assert_eq!(world.begun.lock().unwrap().len(), 4);
}
