//! The doorbell in a Redis Cluster, and what it does while a node is away.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use store::queue::{
    Depth, LIST_MAX, LONGEST_WAIT, Lane, Priority, Queue, RedisQueue, When, redis::PARTITIONS,
};
use testing::RedisCluster;
use uuid::Uuid;

use super::{LONG_LEASE, PATIENCE, assert_all_are_rung};

/// The doorbell of a cluster: rings go to all its nodes, each is heard once, and a node that dies takes no more with it than
/// a sweep rings for again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_cluster() {
    let mut cluster = RedisCluster::start();
    let ada = Arc::new(RedisQueue::connect(&cluster.url(0), LONG_LEASE, "ada").await.unwrap());
    let bob = RedisQueue::connect(&cluster.url(2), LONG_LEASE, "bob").await.unwrap();
    for node in cluster.nodes() {
        assert_ne!(node.ask("DBSIZE"), "0", "a node has no partition");
    }

    // Rung one by one, many at once, and later; taken by two with little room.
    let lane = Lane::new("acme", Priority::High);
    let threads: Vec<Uuid> = (0..300).map(|_| Uuid::now_v7()).collect();
    for thread in &threads[..50] {
        bob.ring(*thread, &lane, When::NowAt(7)).await.unwrap();
    }
    bob.ring_many(&threads[50..250], &lane).await.unwrap();
    for thread in &threads[250..] {
        bob.ring(*thread, &lane, When::After(Duration::from_millis(50))).await.unwrap();
    }
    assert_all_are_rung(&ada, &threads).await;
    let depth = ada.len().await.unwrap();
    assert_eq!(depth.waiting + depth.delayed, 300);
    assert_eq!(ada.list(100).await.unwrap().len(), 100);

    let mut heard = BTreeMap::<Uuid, usize>::new();
    let mut jobs = Vec::new();
    let began = Instant::now();
    while jobs.len() < 300 {
        assert!(began.elapsed() < PATIENCE, "only {} of 300 were heard", jobs.len());
        for (queue, most) in [(&*ada, 3), (&bob, 40)] {
            let taken = queue.take(most.into()).await.unwrap();
            assert!(taken.len() <= most, "{} were given and {most} asked for", taken.len());
            for job in &taken {
                *heard.entry(job.thread).or_default() += 1;
                assert_eq!(job.lane, lane);
            }
            assert_eq!(queue.renew(&taken).await.unwrap(), [], "a lease was lost");
            jobs.extend(taken.into_iter().map(|it| (std::ptr::eq(queue, &*ada), it)));
        }
    }
    assert!(heard.len() == 300 && heard.values().all(|it| *it == 1), "heard more than once");

    // Bob leaves, and what he asked for ends: nothing that is rung from here on is handed to him.
    let (of_ada, of_bob): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|(of_ada, _)| *of_ada);
    for (_, job) in &of_bob {
        bob.finish(job, None).await.unwrap();
    }
    drop(bob);
    tokio::time::sleep(LONGEST_WAIT).await;
    let bob = RedisQueue::connect(&cluster.url(2), LONG_LEASE, "bob").await.unwrap();

    // A successor is rung in its partition, and no token is left in the end.
    for (nth, (_, job)) in of_ada.iter().enumerate() {
        ada.finish(job, (nth == 0).then_some(When::Now)).await.unwrap();
    }
    let began = Instant::now();
    let again = loop {
        if let [job] = ada.take(1.into()).await.unwrap().as_slice() {
            break job.clone();
        }
        assert!(began.elapsed() < PATIENCE, "the successor is not heard");
    };
    assert_eq!(again.thread, of_ada[0].1.thread);
    ada.finish(&again, None).await.unwrap();
    assert_eq!(ada.len().await.unwrap(), Depth::default());

    // Whoever waits hears a lone ring at once, wherever it goes.
    for _ in 0..PARTITIONS {
        let waits = tokio::spawn({
            let ada = Arc::clone(&ada);
            async move { (ada.take(64.into()).await.unwrap(), Instant::now()) }
        });
        tokio::time::sleep(Duration::from_millis(50)).await;
        let rung = Instant::now();
        bob.ring(Uuid::now_v7(), &lane, When::Now).await.unwrap();
        let (jobs, heard) = waits.await.unwrap();
        // In a pause between two waits it is heard in the next.
        let jobs = if jobs.is_empty() { ada.take(64.into()).await.unwrap() } else { jobs };
        assert_eq!(jobs.len(), 1);
        assert!(heard.saturating_duration_since(rung) < Duration::from_millis(900), "heard late");
        ada.finish(&jobs[0], None).await.unwrap();
    }

    // A node dies: its partitions are silent, the others go on. It comes back empty, and is used again.
    let before: Vec<Uuid> = (0..50).map(|_| Uuid::now_v7()).collect();
    ada.ring_many(&before, &lane).await.unwrap();
    let (mut held, began) = (Vec::new(), Instant::now());
    while held.len() < before.len() {
        assert!(began.elapsed() < PATIENCE, "only {} of 50 were heard", held.len());
        held.extend(ada.take(64.into()).await.unwrap());
    }
    cluster.nodes()[1].kill();
    let threads: Vec<Uuid> = (0..30).map(|_| Uuid::now_v7()).collect();
    let ring = async |it: &Uuid| bob.ring(*it, &lane, When::Now).await.is_ok().then_some(*it);
    let rung = futures::future::join_all(threads.iter().map(ring)).await;
    let rung: BTreeSet<Uuid> = rung.into_iter().flatten().collect();
    assert!(!rung.is_empty() && rung.len() < threads.len(), "{} of 30 were rung", rung.len());
    assert_eq!(ada.renew(&held).await.unwrap(), [], "leases are lost with a node that has not lost them");
    let known = ada.rung().await.unwrap();
    for thread in &threads {
        assert_eq!(known.has(*thread), rung.contains(thread).then_some(true));
    }
    assert!(held.iter().any(|it| known.has(it.thread) == Some(true)), "nothing is known of what is held");
    let listed: BTreeSet<Uuid> = ada.list(LIST_MAX).await.unwrap().into_iter().map(|it| it.thread).collect();
    assert!(listed.iter().all(|it| known.has(*it) == Some(true)), "what is listed is rung");
    let of_held = held.iter().map(|it| it.thread).filter(|it| known.has(*it) == Some(true));
    assert!(rung.iter().copied().chain(of_held).all(|it| listed.contains(&it)), "and the other way round");
    assert!(bob.ring_many(&before, &lane).await.is_err());
    let depth = RedisQueue::connect(&cluster.url(0), LONG_LEASE, "eve").await.unwrap().len().await.unwrap();
    let living = |all: &[Uuid]| all.iter().filter(|it| known.has(**it).is_some()).count() as u64;
    // Those of `before` twice: one token is held, and one waits or was handed to whoever asked last.
    assert_eq!(depth.waiting + depth.in_flight, living(&threads) + 2 * living(&before));
    cluster.nodes()[1].restart();
    cluster.settle();
    for thread in &threads {
        if !rung.contains(thread) {
            bob.ring(*thread, &lane, When::Now).await.unwrap();
        }
    }
    let (mut heard, began) = (BTreeSet::new(), Instant::now());
    while heard.len() < threads.len() {
        assert!(began.elapsed() < PATIENCE, "only {} of 30 were heard", heard.len());
        for job in ada.take(64.into()).await.unwrap_or_default() {
            heard.extend(threads.contains(&job.thread).then_some(job.thread));
            ada.finish(&job, None).await.unwrap();
        }
    }
}
