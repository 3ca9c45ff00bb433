//! Limits that workers share, over memory and Redis; and the timeout of a request.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use shared::{Event, Message, Opened, Replay, Request, Response, Safety, Standing, strategies};
use store::{
    MemoryNews, MemoryQueue, News, Parts, Queue, RedisNews, RedisQueue, Store, Strategies, ThreadId, When,
    limits::{Cap, Limits as Books, MemoryLimits, Pace, Permit, RedisLimits, Reserved, Subject, Want},
    queue::HeldBy,
};
use testing::Redis;
use tokio::sync::{Notify, Semaphore};
use worker::{
    Backoff, Bounds, Done, Hands, Limits, Stop, Worker,
    world::{Ask, Outcome, Recorded, World},
};

use crate::lived::{fixtures, parts, read};

/// How long a token, and a place, is kept.
const LEASE: Duration = Duration::from_millis(600);

/// Short enough to be waited for.
const PACE: Pace = Pace { hold: LEASE, minute: Duration::from_millis(700) };

/// Every rehearsal is one of a server that has this limit.
struct Busy {
    cap: Cap,
    at_work: AtomicUsize,
    most: AtomicUsize,
    begun: Mutex<Vec<Instant>>,
}

impl Busy {
    fn new(cap: Cap) -> Arc<Self> {
        let [at_work, most] = [(); 2].map(|()| AtomicUsize::new(0));
        Arc::new(Self { cap, at_work, most, begun: Mutex::default() })
    }
}

fn want(cap: Cap) -> Want {
    let of = Subject::Server("calendar".to_owned());
    Want { of, tenant: shared::DEFAULT_TENANT.to_owned(), cap, tokens: 0, micro_usd: 0 }
}

#[async_trait]
impl World for Busy {
    async fn perform(&self, _: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        let Request::Rehearse(it) = &ask.due.request else { panic!("the probe only rehearses") };
        self.begun.lock().unwrap().push(Instant::now());
        self.most.fetch_max(self.at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(it.wait_ms)).await;
        self.at_work.fetch_sub(1, Ordering::SeqCst);
        Ok((Response::Echo { says: it.says.clone() }, None))
    }

    fn wants(&self, _: &dyn Replay, _: &Ask<'_>) -> Vec<Want> {
        vec![want(self.cap)]
    }
}

/// What two workers share, and each has its own end of.
struct House {
    parts: [Parts; 2],
    books: [Arc<dyn Books>; 2],
}

async fn store() -> Store {
    let store = Store::connect("sqlite::memory:").await.unwrap();
    store.migrate().await.unwrap();
    store
}

async fn in_memory() -> House {
    let (store, queue, news) = (store().await, MemoryQueue::new(LEASE), Arc::new(MemoryNews::new()));
    let parts = ["w0", "w1"].map(|name| {
        let queue: Arc<dyn Queue> = Arc::new(queue.consumer(name));
        Parts { store: store.clone(), queue, news: news.clone() }
    });
    let books = MemoryLimits::new(PACE);
    House { parts, books: [Arc::new(books.clone()), Arc::new(books)] }
}

async fn over_redis(redis: &Redis) -> House {
    let (store, url) = (store().await, redis.url());
    let end = async |name: &str| {
        let queue: Arc<dyn Queue> = Arc::new(RedisQueue::connect(&url, LEASE, name).await.unwrap());
        let news: Arc<dyn News> = Arc::new(RedisNews::connect(&url).await.unwrap());
        let books: Arc<dyn Books> = Arc::new(RedisLimits::connect(&url, PACE).await.unwrap());
        (Parts { store: store.clone(), queue, news }, books)
    };
    let (one, other) = (end("w0").await, end("w1").await);
    House { parts: [one.0, other.0], books: [one.1, other.1] }
}

impl House {
    fn worker(&self, n: usize, world: Arc<dyn World>) -> Worker {
        let bounds = Bounds::new(self.books[n].clone(), None);
        let hands = hands(&self.parts[n], world, bounds, &format!("w{n}"));
        let (minute, sweep) = (Duration::from_secs(60), Duration::from_secs(60));
        Worker::new(hands, Limits { slots: 16, nodes: 16, lease: LEASE, sweep, drain: minute })
    }

    async fn says(&self, words: &str) -> ThreadId {
        let opened: Opened = serde_json::from_value(serde_json::json!({"strategy": "probe"})).unwrap();
        let thread = crate::crash::submit_words(&self.parts[0], opened, vec![Message::user(words)]).await;
        self.parts[0].queue.ring(thread, &store::Lane::default(), When::Now).await.unwrap();
        thread
    }

    /// Two workers live many threads to their end.
    async fn live(&self, world: &Arc<Busy>, words: &str, threads: usize) {
        let stop = Stop::default();
        let mut all = Vec::new();
        for _ in 0..threads {
            all.push(self.says(words).await);
        }
        let workers = [0, 1].map(|n| tokio::spawn(self.worker(n, world.clone()).run(stop.clone())));
        for thread in all {
            let log = self.ended(thread).await;
            assert!(!log.iter().any(|it| matches!(it, Event::Faltered(_))), "to wait is no failure: {log:?}");
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

/// Waits until a thread rests; its log.
async fn until_idle(parts: &Parts, thread: ThreadId) -> Vec<Event> {
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

fn hands(parts: &Parts, world: Arc<dyn World>, bounds: Bounds, name: &str) -> Hands {
    Hands {
        parts: parts.clone(),
        strategies: Strategies::new(strategies::all()),
        world,
        backoff: Backoff { base: Duration::from_millis(1), max: Duration::from_millis(2) },
        bounds,
        name: name.to_owned(),
    }
}

const TWO: Cap =
    Cap { concurrency: Some(2), requests_per_minute: None, tokens_per_minute: None, micro_usd_per_day: None };

async fn two_at_once(house: House) {
    let world = Busy::new(TWO);
    // Some requests alone, some side by side: of those, who has a place goes first.
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
    let world = Busy::new(Cap { requests_per_minute: Some(MOST as u64), ..Cap::default() });
    house.live(&world, "wait 0", 8).await;
    let mut begun = world.begun.lock().unwrap().clone();
    begun.sort();
    assert_eq!(begun.len(), 8, "each was asked once");
    for (first, last) in begun.iter().zip(begun.iter().skip(MOST)) {
        // A request is given its place a little before it begins: the first of them may have begun late.
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

async fn take(books: &dyn Books, cap: Cap) -> Permit {
    match books.reserve("somebody", &[want(cap)]).await.unwrap() {
        Reserved::Granted(permit) => permit,
        Reserved::Wait { why, .. } => panic!("{why}"),
    }
}

async fn a_dead_holder(house: House) {
    let one = Cap { concurrency: Some(1), ..Cap::default() };
    // Of a worker that was killed nobody gives the place back.
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

/// A request that takes longer than a place is kept keeps it all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_lasts_as_long_as_its_request() {
    let world = Busy::new(Cap { concurrency: Some(1), ..Cap::default() });
    in_memory().await.live(&world, "wait 1.5", 2).await;
    assert_eq!(world.most.load(Ordering::SeqCst), 1);
}

/// A job that finds no place ends: nothing is tried, its slot is free, and nobody spins.
#[tokio::test]
async fn a_job_without_a_place_ends_and_counts_no_try() {
    let house = in_memory().await;
    let one = Cap { concurrency: Some(1), ..Cap::default() };
    let books = Arc::new(MemoryLimits::new(Pace::holding(Duration::from_secs(600))));
    let permit = take(&*books, one).await;
    let world = Busy::new(one);
    let hands = hands(&house.parts[0], world.clone(), Bounds::new(books.clone(), None), "w");
    let (thread, rung) = (house.says("wait 0").await, Notify::new());
    while hands.work(thread, &rung).await.unwrap() == Done::Moved {}
    assert!(world.begun.lock().unwrap().is_empty(), "it has no place");
    let before = kinds(&house.parts[0], thread).await;
    for _ in 0..3 {
        let done = hands.work(thread, &rung).await.unwrap();
        let Done::Held { after, why } = done else { panic!("{done:?}") };
        assert!(Duration::from_millis(100) < after, "it would spin: {after:?}");
        let room = "MCP server calendar is at work on 1 requests, as many as it may be at once";
        assert_eq!(why, HeldBy::Limit.because(room));
    }
    assert_eq!(kinds(&house.parts[0], thread).await, before, "to wait writes nothing");
    books.settle(&permit, Default::default()).await.unwrap();
    while hands.work(thread, &rung).await.unwrap() != Done::Rested {}
    assert_eq!(world.begun.lock().unwrap().len(), 1);
}

async fn kinds(parts: &Parts, thread: ThreadId) -> Vec<String> {
    let (_, log) = parts.store.load(thread).await.unwrap();
    log.iter().map(|it| it.event.kind().to_owned()).collect()
}

/// A recorded world in which writes want a place, and take as long as they are told to.
struct Fenced {
    world: Recorded,
    cap: Cap,
    writes: Mutex<BTreeMap<String, usize>>,
    doors: Semaphore,
}

impl Fenced {
    /// The world of a fixture with a write that may not be repeated; its first events.
    fn new(doors: usize) -> (Arc<Self>, Opened, Vec<Message>) {
        let of = |name| strategies::find(name).unwrap();
        let all = [of("planner"), of("action_plan")];
        let all =
            all.into_iter().flat_map(|graph| fixtures(graph).into_iter().map(move |it| (graph, read(&it))));
        let (graph, script) = all
            .filter(|(_, it)| it.iter().skip(2).all(|it| matches!(it, Event::Answered(_))))
            .find(|(graph, it)| has_unrepeatable_call(&shared::reenact(*graph, it).unwrap().log))
            .expect("a fixture with such a write");
        let (Event::Opened(opened), Event::Heard(heard)) = (&script[0], &script[1]) else {
            panic!("not a fixture")
        };
        let world = Recorded::new(graph, &script).unwrap();
        let cap = Cap { concurrency: Some(1), ..Cap::default() };
        let this = Self { world, cap, writes: Mutex::default(), doors: Semaphore::new(doors) };
        (Arc::new(this), opened.clone(), heard.messages.clone())
    }
}

/// Whether a tool is called that may be called only once.
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
    async fn perform(&self, thread: &dyn Replay, ask: &Ask<'_>) -> Outcome {
        if ask.due.is_write() {
            *self.writes.lock().unwrap().entry(ask.key.to_owned()).or_default() += 1;
            self.doors.acquire().await.unwrap().forget();
        }
        self.world.perform(thread, ask).await
    }

    fn wants(&self, _: &dyn Replay, ask: &Ask<'_>) -> Vec<Want> {
        if ask.due.is_write() { vec![want(self.cap)] } else { Vec::new() }
    }
}

/// A write that waits for its place was not attempted: whoever comes after a killed worker has no doubt about it.
#[tokio::test]
async fn a_write_that_waits_for_a_place_is_not_in_doubt() {
    let (world, opened, messages) = Fenced::new(100);
    let books = MemoryLimits::new(Pace::holding(Duration::from_secs(600)));
    let (parts, rung) = (parts().await, Notify::new());
    let other = take(&books, world.cap).await;
    let bounds = || Bounds::new(Arc::new(books.clone()), None);
    let thread = crate::crash::submit_words(&parts, opened, messages).await;
    let killed = hands(&parts, world.clone(), bounds(), "killed");
    let held = loop {
        match killed.work(thread, &rung).await.unwrap() {
            Done::Moved => (),
            done => break done,
        }
    };
    assert!(matches!(held, Done::Held { .. }), "{held:?}");
    drop(killed);
    let waiting = kinds(&parts, thread).await;
    assert_eq!(waiting.last().unwrap(), "asked", "it was asked for, and not attempted");
    books.settle(&other, Default::default()).await.unwrap();
    let heir = hands(&parts, world.clone(), bounds(), "heir");
    while heir.work(thread, &rung).await.unwrap() != Done::Rested {}
    let all = kinds(&parts, thread).await;
    assert!(all.iter().any(|it| it == "attempted") && !all.iter().any(|it| it == "doubted"), "{all:?}");
    assert!(world.writes.lock().unwrap().values().all(|it| *it == 1));
}

/// What takes too long is given up: a write may have happened, so a person is asked.
#[tokio::test]
async fn a_write_that_times_out_is_in_doubt() {
    let (world, opened, messages) = Fenced::new(0);
    let (parts, rung) = (parts().await, Notify::new());
    let bounds = Bounds::new(Arc::new(MemoryLimits::new(PACE)), Some(Duration::from_secs(1)));
    let hands = hands(&parts, world.clone(), bounds, "w");
    let thread = crate::crash::submit_words(&parts, opened, messages).await;
    while hands.work(thread, &rung).await.unwrap() != Done::Rested {}
    let (_, log) = parts.store.load(thread).await.unwrap();
    let Event::Doubted(doubted) = &log.last().unwrap().event else { panic!("{:?}", log.last()) };
    assert_eq!(doubted.reason, "it timed out after 1s (worker.node_timeout_seconds)");
    assert_eq!(world.writes.lock().unwrap().values().sum::<usize>(), 1, "it is not repeated");
}

/// What only looks is tried again, by its class, and fails in the end.
#[tokio::test]
async fn a_request_that_times_out_is_tried_again() {
    let (house, rung) = (in_memory().await, Notify::new());
    let world = Busy::new(Cap::default());
    let bounds = Bounds::new(house.books[0].clone(), Some(Duration::from_millis(30)));
    let hands = hands(&house.parts[0], world.clone(), bounds, "w");
    let thread = house.says("wait 60").await;
    loop {
        match hands.work(thread, &rung).await.unwrap() {
            Done::Rested => break,
            Done::Faltered { after: pause, .. } => tokio::time::sleep(pause).await,
            Done::Moved | Done::Next(_) => (),
            held @ Done::Held { .. } => panic!("{held:?}"),
        }
    }
    let (_, log) = house.parts[0].store.load(thread).await.unwrap();
    let faltered = log.iter().filter_map(|it| match &it.event {
        Event::Faltered(it) => Some(it),
        _ => None,
    });
    let faltered: Vec<_> = faltered.collect();
    assert_eq!(faltered.len(), 4, "as often as anything that falters");
    for it in faltered {
        assert_eq!(it.error, "it timed out after 30ms (worker.node_timeout_seconds)");
        assert!(it.meter.as_ref().is_some_and(|it| 30 <= it.ms), "its time counts: {it:?}");
    }
    let strategies = Strategies::new(strategies::all());
    let log = store::ThreadLog::open(&house.parts[0], &strategies, thread).await.unwrap();
    assert!(matches!(log.thread().standing(), Standing::Failed { .. }));
    assert_eq!(world.begun.lock().unwrap().len(), 4);
}
