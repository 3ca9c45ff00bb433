//! Both doorbells keep their promises, and the one in Redis outlives what happens to Redis.

mod cluster;
mod connect;

use std::{
    collections::BTreeMap,
    error::Error,
    pin::pin,
    slice::from_ref as one,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::poll;
use store::queue::{
    Depth, Job, Lane, MemoryQueue, Priority, Queue, QueueError, RedisQueue, Room, Weights, When, redis::Keys,
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

/// Tokens in every place, and all of them gone at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_emptied_with_tokens_in_every_place_is_used_again() {
    let redis = Redis::start();
    let weights = Weights::new([("acme".to_owned(), 5)]);
    let queue = RedisQueue::connect(&redis.url(), LONG_LEASE, "ada").await.unwrap().weighing(weights);
    for _ in 0..3 {
        for tenant in ["acme", "bell"] {
            for priority in Priority::ALL {
                for when in [When::Now, When::Now, When::After(Duration::from_secs(60))] {
                    queue.ring(Uuid::now_v7(), &Lane::new(tenant, priority), when).await.unwrap();
                }
            }
        }
        // In the middle of a turn.
        let held = queue.take(2.into()).await.unwrap();
        assert_eq!(queue.len().await.unwrap(), Depth { waiting: 10, in_flight: 2, delayed: 6 });
        redis.flush_all();
        assert_eq!(queue.renew(&held).await.unwrap(), held);
        for job in &held {
            queue.finish(job, Some(When::Now)).await.unwrap();
        }
        assert_eq!(queue.list(9).await.unwrap(), []);
        assert_eq!(queue.len().await.unwrap(), Depth::default());
    }
    let thread = Uuid::now_v7();
    queue.ring(thread, &Lane::new("bell", Priority::Low), When::Now).await.unwrap();
    let job = take_one(&queue).await;
    assert_eq!(job.thread, thread);
    queue.finish(&job, None).await.unwrap();
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
async fn real_redis_emptied_under_a_waiting_take_is_used_again() {
    let redis = Redis::start();
    let queue = Arc::new(RedisQueue::connect(&redis.url(), LEASE, "ada").await.unwrap());
    queue.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap();
    let before = take_one(&*queue).await;
    let taker = Arc::clone(&queue);
    let taking = tokio::spawn(async move { take_one(&*taker).await });
    wait_until(|| redis.ask("INFO clients").contains("blocked_clients:1")).await;
    redis.flush_all();
    let thread = Uuid::now_v7();
    queue.ring(thread, &Lane::default(), When::Now).await.unwrap();
    let job = taking.await.unwrap();
    assert_eq!(job.thread, thread);
    assert_eq!(queue.renew(&[before.clone(), job.clone()]).await.unwrap(), one(&before));
    queue.finish(&before, Some(When::Now)).await.unwrap();
    queue.finish(&job, None).await.unwrap();
    assert_eq!(queue.len().await.unwrap(), Depth::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_without_its_group_measures_renews_and_finishes() {
    let redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LEASE, "ada").await.unwrap();
    queue.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap();
    let job = take_one(&queue).await;
    redis.flush_all();
    assert_eq!(queue.len().await.unwrap(), Depth::default());
    assert_eq!(queue.rung().await.unwrap().has(job.thread), Some(false));
    assert_eq!(queue.renew(one(&job)).await.unwrap(), one(&job));
    queue.finish(&job, Some(When::Now)).await.unwrap();
    assert_eq!(queue.len().await.unwrap(), Depth::default());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_killed_and_started_again_is_used_again() {
    let mut redis = Redis::start();
    let queue = Arc::new(RedisQueue::connect(&redis.url(), LEASE, "ada").await.unwrap());
    let taker = Arc::clone(&queue);
    // As a worker does: what it is told while Redis is away is to try again.
    let taking = tokio::spawn(async move {
        loop {
            match taker.take(1.into()).await {
                Ok(mut jobs) => {
                    if let Some(job) = jobs.pop() {
                        return job;
                    }
                }
                Err(QueueError::Unavailable { .. }) => tokio::task::yield_now().await,
                Err(error) => panic!("{error}: {:?}", error.source()),
            }
        }
    });
    wait_until(|| redis.ask("INFO clients").contains("blocked_clients:1")).await;
    redis.kill();
    let unavailable = queue.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap_err();
    assert!(matches!(unavailable, QueueError::Unavailable { .. }), "{unavailable:?}");
    redis.restart();
    let thread = Uuid::now_v7();
    let began = Instant::now();
    while let Err(error) = queue.ring(thread, &Lane::default(), When::Now).await {
        assert!(began.elapsed() < PATIENCE, "{error}");
    }
    let job = tokio::time::timeout(PATIENCE, taking).await.expect("the take goes on").unwrap();
    assert_eq!(job.thread, thread);
    queue.finish(&job, None).await.unwrap();
    assert_eq!(queue.len().await.unwrap(), Depth::default());
}

/// Redis is away until every lease has run out. On its return nothing is taken over before whoever is well could renew; what
/// nobody renews then is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_that_was_away_gives_no_token_to_another_worker_at_once() {
    let mut redis = Redis::durable();
    let lease = Duration::from_secs(3);
    let consumer = async |name| RedisQueue::connect(&redis.url(), lease, name).await.unwrap();
    let (ada, bob) = (consumer("ada").await, consumer("bob").await);
    ada.ring(Uuid::now_v7(), &Lane::default(), When::Now).await.unwrap();
    let job = take_one(&ada).await;
    // Bob has been there for long enough to take over what is abandoned.
    tokio::time::sleep(lease / 2).await;
    assert_eq!(ada.renew(one(&job)).await.unwrap(), []);
    redis.kill();
    assert!(matches!(bob.take(1.into()).await, Err(QueueError::Unavailable { .. })));
    tokio::time::sleep(lease + lease / 10).await;
    redis.restart();
    assert_eq!(bob.take(1.into()).await.unwrap(), [], "Ada may be well");
    assert_eq!(ada.renew(one(&job)).await.unwrap(), [], "and is");
    let began = Instant::now();
    let taken_over = take_one(&bob).await;
    assert!(lease <= began.elapsed(), "after {:?}", began.elapsed());
    assert_eq!(taken_over.token, job.token);
}

/// A restart that nobody noticed costs no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_restarted_while_idle_is_not_noticed() {
    let mut redis = Redis::start();
    let queue = RedisQueue::connect(&redis.url(), LEASE, "ada").await.unwrap();
    assert_eq!(queue.take(1.into()).await.unwrap(), []);
    redis.restart();
    let thread = Uuid::now_v7();
    queue.ring(thread, &Lane::default(), When::Now).await.unwrap();
    assert_eq!(queue.take(1.into()).await.unwrap().pop().expect("a job").thread, thread);
    redis.restart();
    assert_eq!(queue.take(1.into()).await.unwrap(), []);
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
