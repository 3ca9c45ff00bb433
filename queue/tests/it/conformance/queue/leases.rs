//! Leases: who holds a job, and who takes it over when the lease expires.

use std::{slice, time::Duration};

use queue::{Depth, Job, Queue, Schedule, Slots};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{Backend, SHORT, ack, ack_all, assert_empty, claim_one, depth, enqueue, renew};

crate::conformance::checks! {
    another_holder_is_reported,
    an_expired_lease_moves_the_job,
    a_consumer_without_slots_takes_over_an_expired_job_first,
    a_renewed_lease_is_kept,
    live_leases_do_not_hide_expired_ones,
    a_consumer_receives_its_own_expired_job,
}

async fn another_holder_is_reported(backend: &Backend) {
    let (ada, bob) = backend.ada_and_bob(SHORT).await;
    let (ada, bob) = (&*ada, &*bob);
    let (thread, other) = (Uuid::now_v7(), Uuid::now_v7());
    let is_held = async |job: &Job| bob.has_other_holder(job).await.expect("read");
    for thread in [thread, other, thread] {
        enqueue(ada, thread, Schedule::Now).await;
    }
    let of_ada = [claim_one(ada).await, claim_one(ada).await];
    let of_bob = while_renewing(ada, &of_ada, claim_one(bob)).await;
    assert_eq!([of_ada[0].thread, of_ada[1].thread, of_bob.thread], [thread, other, thread]);
    assert!(is_held(&of_bob).await, "ada holds the other job of the thread");
    assert!(!is_held(&of_ada[1]).await, "the other thread has no other job");
    ack(ada, &of_ada[0], Some(Schedule::Now)).await;
    assert!(!is_held(&of_bob).await, "a waiting job has no holder");
    let of_ada = [claim_one(ada).await, of_ada[1].clone()];
    assert!(is_held(&of_bob).await);
    sleep(SHORT).await;
    assert!(is_held(&of_bob).await, "ada may still be running although her lease expired");
    ack_all(ada, &of_ada).await;
    assert!(!is_held(&of_bob).await, "ada has acknowledged her jobs");
    ack(bob, &of_bob, None).await;
    assert_empty(ada).await;
}

/// Otherwise a worker that is always busy would never take over a job.
async fn a_consumer_without_slots_takes_over_an_expired_job_first(backend: &Backend) {
    let (ada, bob) = backend.ada_and_bob(SHORT).await;
    let (ada, bob) = (&*ada, &*bob);
    let [abandoned, waiting] = [Uuid::now_v7(), Uuid::now_v7()];
    enqueue(bob, abandoned, Schedule::Now).await;
    assert_eq!(claim_one(bob).await.thread, abandoned);
    enqueue(bob, waiting, Schedule::Now).await;
    let slots = Slots::from(1);
    let slot = slots.acquire().await;
    let claim = async {
        loop {
            if let Some(job) = ada.claim(slots.clone()).await.expect("claim").pop() {
                return job;
            }
        }
    };
    let free_the_slot = async {
        sleep(2 * SHORT).await;
        drop(slot);
    };
    let (first, ()) = tokio::join!(claim, free_the_slot);
    assert_eq!(first.thread, abandoned);
    ack_all(ada, &[first, claim_one(ada).await]).await;
    assert_empty(ada).await;
}

async fn an_expired_lease_moves_the_job(backend: &Backend) {
    let (ada, bob) = backend.ada_and_bob(SHORT).await;
    let (ada, bob) = (&*ada, &*bob);
    enqueue(ada, Uuid::now_v7(), Schedule::Now).await;
    let abandoned = claim_one(ada).await;
    let before = Instant::now();
    assert_eq!(renew(ada, slice::from_ref(&abandoned)).await, [], "ada renews the lease once");
    let taken_over = claim_one(bob).await;
    assert_eq!(taken_over.token, abandoned.token);
    // Redis counts whole milliseconds.
    let elapsed = before.elapsed() + Duration::from_millis(5);
    assert!(elapsed >= SHORT, "the job moved before the lease expired: {elapsed:?}");
    let lost = renew(ada, slice::from_ref(&abandoned)).await;
    assert_eq!(lost, slice::from_ref(&abandoned), "ada learns that she lost the job");
    ack(ada, &abandoned, Some(Schedule::Now)).await;
    ack(ada, &abandoned, Some(Schedule::After(Duration::from_millis(1)))).await;
    assert_eq!(
        depth(ada).await,
        Depth { in_flight: 1, ..Depth::default() },
        "ada neither ends bob's job nor adds a successor"
    );
    assert_eq!(renew(bob, slice::from_ref(&taken_over)).await, [], "renewing did not take the job back");
    ack(bob, &taken_over, None).await;
    assert_empty(bob).await;
}

async fn a_renewed_lease_is_kept(backend: &Backend) {
    let (ada, bob) = backend.ada_and_bob(SHORT).await;
    let (ada, bob) = (&*ada, &*bob);
    enqueue(ada, Uuid::now_v7(), Schedule::Now).await;
    let jobs = [claim_one(ada).await];
    let began = Instant::now();
    let claims_of_bob = async {
        while began.elapsed() < 3 * SHORT {
            assert_eq!(bob.claim(1.into()).await.expect("claim"), [], "bob receives no job that ada renews");
        }
    };
    while_renewing(ada, &jobs, claims_of_bob).await;
    ack_all(ada, &jobs).await;
    assert_empty(ada).await;
}

/// A consumer that claims one job at a time must reach every lease eventually.
async fn live_leases_do_not_hide_expired_ones(backend: &Backend) {
    const LIVE: usize = 60;
    let (ada, bob) = backend.ada_and_bob(SHORT).await;
    let (ada, bob) = (&*ada, &*bob);
    for _ in 0..=LIVE {
        enqueue(ada, Uuid::now_v7(), Schedule::Now).await;
    }
    let mut live = Vec::new();
    while live.len() <= LIVE {
        live.extend(ada.claim((LIVE + 1 - live.len()).into()).await.expect("claim"));
    }
    let abandoned = live.pop().expect("the last job");
    let taken_over = while_renewing(ada, &live, claim_one(bob)).await;
    assert_eq!(taken_over.token, abandoned.token, "bob receives the one job that is not renewed");
    ack(bob, &taken_over, None).await;
    ack_all(ada, &live).await;
    assert_empty(ada).await;
}

async fn a_consumer_receives_its_own_expired_job(backend: &Backend) {
    let queue = &*backend.consumer("ada", SHORT).await;
    enqueue(queue, Uuid::now_v7(), Schedule::Now).await;
    let first = claim_one(queue).await;
    let second = claim_one(queue).await;
    assert_eq!(first.token, second.token, "a job whose task died within a living worker comes back");
    ack(queue, &second, None).await;
    assert_empty(queue).await;
}

/// Runs a future while renewing these leases, which must be held each time.
pub(super) async fn while_renewing<T>(queue: &dyn Queue, jobs: &[Job], future: impl Future<Output = T>) -> T {
    let renewing = async {
        loop {
            assert_eq!(renew(queue, jobs).await, [], "a lease that is renewed in time is kept");
            sleep(SHORT / 8).await;
        }
    };
    tokio::select! {
        done = future => done,
        () = renewing => unreachable!("the renewal never ends"),
    }
}
