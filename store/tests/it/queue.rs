//! Both doorbells keep their promises, and the one in Redis outlives what happens to Redis.

mod cluster;
mod connect;
mod lost;

use std::{
    collections::BTreeMap,
    pin::pin,
    slice::from_ref as one,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::poll;
use store::queue::{
    Depth, Job, Lane, MemoryQueue, Queue, QueueError, RedisQueue, Room, When, redis::Keys,
    testing::queue_conformance,
};
use testing::Redis;
use uuid::Uuid;

const LEASE: Duration = Duration::from_millis(300);
const LONG_LEASE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory() {
    let queues: Mutex<BTreeMap<Duration, MemoryQueue>> = Mutex::default();
    queue_conformance(async |consumer, lease, weights| {
        let mut queues = queues.lock().unwrap();
        let queue = queues.entry(lease).or_insert_with(|| MemoryQueue::weighing(lease, weights));
        Arc::new(queue.consumer(consumer)) as Arc<dyn Queue>
    })
    .await;
}

#[tokio::test]
async fn memory_has_a_limit() {
    let queue = MemoryQueue::new(LEASE);
    for _ in 0..store::queue::memory::MOST_TOKENS {
        queue.ring(Uuid::nil(), &Lane::default(), When::Now).await.unwrap();
    }
    assert!(matches!(
        queue.ring(Uuid::nil(), &Lane::default(), When::Now).await,
        Err(QueueError::Full { .. })
    ));
    let jobs = queue.take(1.into()).await.unwrap();
    queue.finish(&jobs[0], None).await.unwrap();
    queue.ring(Uuid::nil(), &Lane::default(), When::Now).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis() {
    let redis = Redis::start();
    queue_conformance(async |consumer, lease, weights| {
        let queue = RedisQueue::connect(&redis.url(), lease, consumer).await.unwrap();
        Arc::new(queue.weighing(weights)) as Arc<dyn Queue>
    })
    .await;
    // But for the stream with its group, nothing is left of all that; tickets end by themselves.
    let began = Instant::now();
    while redis.ask("DBSIZE") != "1" || redis.ask(&format!("EXISTS {}", Keys::of_all().stream)) != "1" {
        assert!(began.elapsed() < PATIENCE, "{} keys are left behind", redis.ask("DBSIZE"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Slots that come free while somebody is on the way to Redis are filled too: in one thread nothing goes there before this
/// test waits.
#[tokio::test]
async fn room_is_counted_when_tokens_are_handed_out() {
    let redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LONG_LEASE, "ada").await.unwrap();
    let threads: Vec<Uuid> = (0..4).map(|_| Uuid::now_v7()).collect();
    queue.ring_many(&threads, &Lane::default()).await.unwrap();
    let slots = Room::from(4);
    let busy = [slots.fill().await, slots.fill().await, slots.fill().await];
    let mut taking = pin!(queue.take(slots));
    assert!(poll!(&mut taking).is_pending(), "nothing has been taken yet");
    drop(busy);
    assert_eq!(taking.await.unwrap().into_iter().map(|it| it.thread).collect::<Vec<_>>(), threads);
}

/// Whoever ends a token takes another for whom there is room by then, also if that one has not heard of it yet.
#[tokio::test]
async fn what_ends_a_token_takes_another() {
    let redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LONG_LEASE, "ada").await.unwrap();
    let [first, second] = [Uuid::now_v7(), Uuid::now_v7()];
    queue.ring_many(&[first, second], &Lane::default()).await.unwrap();
    let slots = Room::from(1);
    let held = queue.take(slots.clone()).await.unwrap().pop().unwrap();
    assert_eq!(held.thread, first);
    let slot = slots.fill().await;
    let mut taking = pin!(queue.take(slots));
    assert!(poll!(&mut taking).is_pending(), "there is no room");

    let mut ending = pin!(queue.finish(&held, None));
    assert!(poll!(&mut ending).is_pending(), "nobody has gone to Redis");
    drop(slot);
    assert!(ending.await.unwrap());

    assert_eq!(queue.len().await.unwrap(), Depth { waiting: 0, in_flight: 1, delayed: 0 });
    assert_eq!(taking.await.unwrap().into_iter().map(|it| it.thread).collect::<Vec<_>>(), [second]);
}

/// Also of one that has been told of room and is on its way to Redis.
#[tokio::test]
async fn a_take_ends_when_its_room_is_closed() {
    let redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LONG_LEASE, "ada").await.unwrap();
    queue.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap();
    let slots = Room::from(1);
    let mut taking = pin!(queue.take(slots.clone()));
    assert!(poll!(&mut taking).is_pending(), "nothing has been taken yet");
    slots.close();
    assert_eq!(tokio::time::timeout(PATIENCE, taking).await.expect("it ends").unwrap(), []);
    assert_eq!(queue.len().await.unwrap(), Depth { waiting: 1, ..Depth::default() });
}

/// What was handed to a worker that died before it read it goes to whoever takes next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_hands_what_a_dead_worker_waited_for_to_another() {
    let redis = Redis::start();
    let dead = Arc::new(RedisQueue::connect(&redis.url(), LONG_LEASE, "dead").await.unwrap());
    let waiting = tokio::spawn({
        let dead = Arc::clone(&dead);
        async move { dead.take(1.into()).await }
    });
    wait_until(|| redis.ask("INFO clients").contains("blocked_clients:1")).await;
    waiting.abort();
    drop(dead);
    wait_until(|| redis.ask("INFO clients").contains("blocked_clients:0")).await;
    let queue = RedisQueue::connect(&redis.url(), LONG_LEASE, "ada").await.unwrap();
    let threads = [Uuid::now_v7(), Uuid::now_v7()];
    for thread in threads {
        queue.ring(thread, &Lane::default(), When::Now).await.unwrap();
    }
    let jobs = queue.take(9.into()).await.unwrap();
    assert_eq!(jobs.iter().map(|it| it.thread).collect::<Vec<_>>(), threads);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_hands_out_more_than_a_page() {
    let redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LONG_LEASE, "ada").await.unwrap();
    let threads: Vec<Uuid> = (0..2_500).map(|_| Uuid::now_v7()).collect();
    for (place, thread) in threads.iter().enumerate() {
        let when = if place % 2 == 0 { When::Now } else { When::After(Duration::from_millis(1)) };
        queue.ring(*thread, &Lane::default(), when).await.unwrap();
    }
    assert_all_are_rung(&queue, &threads).await;
    let mut jobs = Vec::new();
    while jobs.len() < threads.len() {
        jobs.extend(queue.take(usize::MAX.into()).await.unwrap());
    }
    assert_eq!(queue.renew(&jobs).await.unwrap(), []);
    assert_all_are_rung(&queue, &threads).await;
    for job in &jobs {
        queue.finish(job, None).await.unwrap();
    }
    assert_eq!(queue.len().await.unwrap(), Depth::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_drops_what_names_no_thread() {
    let redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LEASE, "ada").await.unwrap();
    redis.ask(&format!("XADD {} * thread nobody", Keys::of_all().stream));
    redis.ask(&format!("XADD {} * else 1", Keys::of_all().stream));
    let thread = Uuid::now_v7();
    queue.ring(thread, &Lane::default(), When::Now).await.unwrap();
    let job = take_one(&queue).await;
    assert_eq!(job.thread, thread);
    queue.finish(&job, None).await.unwrap();
    assert_eq!(redis.ask(&format!("XLEN {}", Keys::of_all().stream)), "0");
    assert_eq!(queue.len().await.unwrap(), Depth::default());
}

/// A full Redis takes no new ring where others wait, and what it has goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_that_is_full_loses_no_successor() {
    let redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LONG_LEASE, "ada").await.unwrap();
    let [thread, other] = [(); 2].map(|()| Uuid::now_v7());
    for thread in [thread, other] {
        queue.ring(thread, &Lane::default(), When::Now).await.unwrap();
    }
    let job = take_one(&queue).await;
    redis.ask("CONFIG SET maxmemory 1");
    assert!(queue.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.is_err());
    queue.finish(&job, Some(When::NowAt(7))).await.unwrap();
    redis.ask("CONFIG SET maxmemory 0");
    assert_eq!(queue.len().await.unwrap(), Depth { waiting: 2, ..Depth::default() });
    let jobs = queue.take(2.into()).await.unwrap();
    assert_eq!(
        jobs.iter().map(|it| (it.thread, it.head)).collect::<Vec<_>>(),
        [(other, None), (thread, Some(7))]
    );
}

/// Were a consumer deleted with what it holds, its tokens would be in the stream and in nobody's list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_forgets_only_consumers_without_tokens() {
    let redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LONG_LEASE, "ada").await.unwrap();
    queue.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap();
    let held = take_one(&queue).await;
    let idle = RedisQueue::connect(&redis.url(), LONG_LEASE, "idle").await.unwrap();
    idle.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap();
    let job = take_one(&idle).await;
    idle.finish(&job, None).await.unwrap();
    let began = Instant::now();
    // Redis counts the time in whole milliseconds.
    while queue.forget_consumers(Duration::ZERO).await.unwrap() < 1 {
        assert!(began.elapsed() < PATIENCE, "the idle one goes");
    }
    assert_eq!(queue.renew(one(&held)).await.unwrap(), []);
}

/// Who rang may be dead when the ring comes due: whoever takes looks for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_fires_delays_of_others_in_time() {
    const ROUNDS: u32 = 6;
    let redis = Redis::start();
    let mut waited = Duration::ZERO;
    for _ in 0..ROUNDS {
        let gone = RedisQueue::connect(&redis.url(), LONG_LEASE, "gone").await.unwrap();
        gone.ring(Uuid::now_v7(), &Lane::default(), When::After(Duration::from_millis(100))).await.unwrap();
        drop(gone);
        let fresh = RedisQueue::connect(&redis.url(), LONG_LEASE, "fresh").await.unwrap();
        let began = Instant::now();
        let job = take_one(&fresh).await;
        waited += began.elapsed();
        fresh.finish(&job, None).await.unwrap();
    }
    // Looking only every so often would take a second each time.
    assert!(waited < ROUNDS * Duration::from_millis(500), "{ROUNDS} delays took {waited:?}");
}

async fn assert_all_are_rung(queue: &RedisQueue, threads: &[Uuid]) {
    let rung = queue.rung().await.unwrap();
    assert!(threads.iter().all(|it| rung.has(*it) == Some(true)));
    assert_eq!(rung.has(Uuid::now_v7()), Some(false));
}

async fn take_one(queue: &dyn Queue) -> Job {
    let began = Instant::now();
    loop {
        if let Some(job) = queue.take(1.into()).await.unwrap().pop() {
            return job;
        }
        assert!(began.elapsed() < PATIENCE, "there was nothing to take for {PATIENCE:?}");
    }
}

async fn wait_until(condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < PATIENCE, "it did not come to be within {PATIENCE:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
