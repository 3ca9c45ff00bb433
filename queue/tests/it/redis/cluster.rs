//! The queue in a Redis Cluster, and its behaviour while a node is unreachable.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use queue::{
    Depth, Lane, MAX_CLAIM_WAIT, MAX_LISTED, Priority, Queue, RedisQueue, Schedule, redis::PARTITIONS,
};
use test_servers::RedisCluster;
use uuid::Uuid;

use super::{LONG_LEASE, TIMEOUT, assert_all_enqueued};

/// Jobs are spread over all nodes, each is claimed once, and a node that fails loses no more than the sweeper enqueues again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_cluster() {
    let mut cluster = RedisCluster::start();
    let ada = Arc::new(
        RedisQueue::connect(&queue::Prefix::default(), &cluster.url(0), LONG_LEASE, "ada").await.unwrap(),
    );
    let bob =
        RedisQueue::connect(&queue::Prefix::default(), &cluster.url(2), LONG_LEASE, "bob").await.unwrap();
    for node in cluster.nodes() {
        assert_ne!(node.ask("DBSIZE"), "0", "a node has no partition");
    }

    // Enqueued one by one, in bulk and with a delay; claimed by two consumers with few slots.
    let lane = Lane::new("acme", Priority::High);
    let threads: Vec<Uuid> = (0..300).map(|_| Uuid::now_v7()).collect();
    for thread in &threads[..50] {
        bob.enqueue(*thread, &lane, Schedule::NowAtSeq(7)).await.unwrap();
    }
    bob.enqueue_many(&threads[50..250], &lane).await.unwrap();
    for thread in &threads[250..] {
        bob.enqueue(*thread, &lane, Schedule::After(Duration::from_millis(50))).await.unwrap();
    }
    assert_all_enqueued(&ada, &threads).await;
    let depth = ada.depth().await.unwrap();
    assert_eq!(depth.waiting + depth.delayed, 300);
    assert_eq!(ada.list(100).await.unwrap().len(), 100);

    let mut claims = BTreeMap::<Uuid, usize>::new();
    let mut jobs = Vec::new();
    let began = Instant::now();
    while jobs.len() < 300 {
        assert!(began.elapsed() < TIMEOUT, "only {} of 300 were claimed", jobs.len());
        for (queue, most) in [(&*ada, 3), (&bob, 40)] {
            let claimed = queue.claim(most.into()).await.unwrap();
            assert!(claimed.len() <= most, "{} jobs for {most} slots", claimed.len());
            for job in &claimed {
                *claims.entry(job.thread).or_default() += 1;
                assert_eq!(job.lane, lane);
            }
            assert_eq!(queue.renew_leases(&claimed).await.unwrap(), [], "a lease was lost");
            jobs.extend(claimed.into_iter().map(|job| (std::ptr::eq(queue, &*ada), job)));
        }
    }
    assert!(
        claims.len() == 300 && claims.values().all(|count| *count == 1),
        "a job was claimed more than once"
    );

    // Bob disconnects and his registrations expire: no job enqueued from here on is handed to him.
    let (of_ada, of_bob): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(of_ada, _)| *of_ada);
    for (_, job) in &of_bob {
        bob.ack(job, None).await.unwrap();
    }
    drop(bob);
    tokio::time::sleep(MAX_CLAIM_WAIT).await;
    let bob =
        RedisQueue::connect(&queue::Prefix::default(), &cluster.url(2), LONG_LEASE, "bob").await.unwrap();

    // A successor stays in its partition, and no job is left at the end.
    for (nth, (_, job)) in of_ada.iter().enumerate() {
        ada.ack(job, (nth == 0).then_some(Schedule::Now)).await.unwrap();
    }
    let began = Instant::now();
    let again = loop {
        if let [job] = ada.claim(1.into()).await.unwrap().as_slice() {
            break job.clone();
        }
        assert!(began.elapsed() < TIMEOUT, "the successor was not claimed");
    };
    assert_eq!(again.thread, of_ada[0].1.thread);
    ada.ack(&again, None).await.unwrap();
    assert_eq!(ada.depth().await.unwrap(), Depth::default());

    // A waiting consumer is woken at once, whichever partition the job is in.
    for _ in 0..PARTITIONS {
        let claim = tokio::spawn({
            let ada = Arc::clone(&ada);
            async move { (ada.claim(64.into()).await.unwrap(), Instant::now()) }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let enqueued_at = Instant::now();
        bob.enqueue(Uuid::now_v7(), &lane, Schedule::Now).await.unwrap();
        let (jobs, claimed_at) = claim.await.unwrap();
        // A job enqueued between two waits is claimed by the next one.
        let jobs = if jobs.is_empty() { ada.claim(64.into()).await.unwrap() } else { jobs };
        assert_eq!(jobs.len(), 1);
        assert!(
            claimed_at.saturating_duration_since(enqueued_at) < Duration::from_millis(900),
            "claimed late"
        );
        ada.ack(&jobs[0], None).await.unwrap();
    }

    // A node fails: its partitions are unavailable, the others continue. It returns empty and is used again.
    let before: Vec<Uuid> = (0..50).map(|_| Uuid::now_v7()).collect();
    ada.enqueue_many(&before, &lane).await.unwrap();
    let (mut held, began) = (Vec::new(), Instant::now());
    while held.len() < before.len() {
        assert!(began.elapsed() < TIMEOUT, "only {} of 50 were claimed", held.len());
        held.extend(ada.claim(64.into()).await.unwrap());
    }
    cluster.nodes()[1].kill();
    let threads: Vec<Uuid> = (0..30).map(|_| Uuid::now_v7()).collect();
    let enqueue =
        async |thread: &Uuid| bob.enqueue(*thread, &lane, Schedule::Now).await.is_ok().then_some(*thread);
    let enqueued = futures::future::join_all(threads.iter().map(enqueue)).await;
    let enqueued: BTreeSet<Uuid> = enqueued.into_iter().flatten().collect();
    assert!(!enqueued.is_empty() && enqueued.len() < threads.len(), "{} of 30 were enqueued", enqueued.len());
    assert_eq!(
        ada.renew_leases(&held).await.unwrap(),
        [],
        "no lease is reported as lost while its node is unreachable"
    );
    let known = ada.enqueued().await.unwrap();
    for thread in &threads {
        assert_eq!(known.contains(*thread), enqueued.contains(thread).then_some(true));
    }
    assert!(
        held.iter().any(|job| known.contains(job.thread) == Some(true)),
        "some jobs in flight are on live nodes"
    );
    let listed: BTreeSet<Uuid> =
        ada.list(MAX_LISTED).await.unwrap().into_iter().map(|entry| entry.thread).collect();
    assert!(
        listed.iter().all(|thread| known.contains(*thread) == Some(true)),
        "every listed thread is enqueued"
    );
    let of_held = held.iter().map(|it| it.thread).filter(|it| known.contains(*it) == Some(true));
    assert!(
        enqueued.iter().copied().chain(of_held).all(|thread| listed.contains(&thread)),
        "every enqueued thread is listed"
    );
    assert!(bob.enqueue_many(&before, &lane).await.is_err());
    let depth = RedisQueue::connect(&queue::Prefix::default(), &cluster.url(0), LONG_LEASE, "eve")
        .await
        .unwrap()
        .depth()
        .await
        .unwrap();
    let living = |all: &[Uuid]| all.iter().filter(|thread| known.contains(**thread).is_some()).count() as u64;
    // Threads of `before` have two jobs: one is in flight, and one waits or was handed to the consumer that claimed last.
    assert_eq!(depth.waiting + depth.in_flight, living(&threads) + 2 * living(&before));
    cluster.nodes()[1].restart();
    cluster.settle();
    for thread in &threads {
        if !enqueued.contains(thread) {
            bob.enqueue(*thread, &lane, Schedule::Now).await.unwrap();
        }
    }
    let (mut claimed, began) = (BTreeSet::new(), Instant::now());
    while claimed.len() < threads.len() {
        assert!(began.elapsed() < TIMEOUT, "only {} of 30 were claimed", claimed.len());
        for job in ada.claim(64.into()).await.unwrap_or_default() {
            claimed.extend(threads.contains(&job.thread).then_some(job.thread));
            ada.ack(&job, None).await.unwrap();
        }
    }
}
