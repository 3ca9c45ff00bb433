//! Who holds a token, and what becomes of one whose lease ran out.

use std::{slice::from_ref as one, time::Duration};

use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{
    Depth, Job, Queue, Room, SHORT, When, assert_empty, depth, finish, finish_all, lost, ring, take_one,
};

pub(super) async fn another_holder_is_seen(ada: &dyn Queue, bob: &dyn Queue) {
    let (thread, other) = (Uuid::now_v7(), Uuid::now_v7());
    let is_held = async |job: &Job| bob.is_held_besides(job).await.expect("look");
    for thread in [thread, other, thread] {
        ring(ada, thread, When::Now).await;
    }
    let hers = [take_one(ada).await, take_one(ada).await];
    let his = while_renewing(ada, &hers, take_one(bob)).await;
    assert_eq!([hers[0].thread, hers[1].thread, his.thread], [thread, other, thread]);
    assert!(is_held(&his).await, "ada holds the other");
    assert!(!is_held(&hers[1]).await, "nobody holds another of that thread");
    finish(ada, &hers[0], Some(When::Now)).await;
    assert!(!is_held(&his).await, "a token that waits is nobody's");
    let hers = [take_one(ada).await, hers[1].clone()];
    assert!(is_held(&his).await);
    sleep(SHORT).await;
    assert!(is_held(&his).await, "the lease of the other ran out, and she may be at it still");
    finish_all(ada, &hers).await;
    assert!(!is_held(&his).await, "nobody holds another any more");
    finish(bob, &his, None).await;
    assert_empty(ada, "all were finished").await;
}

/// Else who is always busy would never take over anything.
pub(super) async fn who_waits_for_room_takes_over_first(ada: &dyn Queue, bob: &dyn Queue) {
    let [abandoned, waiting] = [Uuid::now_v7(), Uuid::now_v7()];
    ring(bob, abandoned, When::Now).await;
    assert_eq!(take_one(bob).await.thread, abandoned);
    ring(bob, waiting, When::Now).await;
    let slots = Room::from(1);
    let slot = slots.fill().await;
    let taken = async {
        loop {
            if let Some(job) = ada.take(slots.clone()).await.expect("take").pop() {
                return job;
            }
        }
    };
    let comes_free = async {
        sleep(2 * SHORT).await;
        drop(slot);
    };
    let (first, ()) = tokio::join!(taken, comes_free);
    assert_eq!(first.thread, abandoned);
    finish_all(ada, &[first, take_one(ada).await]).await;
}

pub(super) async fn an_expired_lease_moves_the_token(ada: &dyn Queue, bob: &dyn Queue) {
    let thread = Uuid::now_v7();
    ring(ada, thread, When::Now).await;
    let abandoned = take_one(ada).await;
    let before = Instant::now();
    assert_eq!(lost(ada, one(&abandoned)).await, [], "a lease that was renewed runs out too");
    let claimed = take_one(bob).await;
    assert_eq!(claimed, abandoned, "bob holds what ada abandoned");
    // Redis counts whole milliseconds.
    assert!(
        before.elapsed() + Duration::from_millis(5) >= SHORT,
        "not before the lease ran out: {:?}",
        before.elapsed()
    );
    assert_eq!(lost(ada, one(&abandoned)).await, one(&abandoned), "ada is told");
    finish(ada, &abandoned, Some(When::Now)).await;
    finish(ada, &abandoned, Some(When::After(Duration::from_millis(1)))).await;
    assert_eq!(
        depth(ada).await,
        Depth { in_flight: 1, ..Depth::default() },
        "ada neither ends bob's token nor adds a successor"
    );
    assert_eq!(lost(bob, one(&claimed)).await, [], "renewing did not steal it back");
    finish(bob, &claimed, None).await;
    assert_empty(bob, "bob ended it").await;
}

pub(super) async fn a_renewed_lease_stays(ada: &dyn Queue, bob: &dyn Queue) {
    ring(ada, Uuid::now_v7(), When::Now).await;
    let jobs = [take_one(ada).await];
    let began = Instant::now();
    let waiting = async {
        while began.elapsed() < 3 * SHORT {
            assert_eq!(bob.take(1.into()).await.expect("take"), [], "bob is not given what ada renews");
        }
    };
    while_renewing(ada, &jobs, waiting).await;
    finish_all(ada, &jobs).await;
    assert_empty(ada, "it was finished").await;
}

/// A consumer that takes one at a time must come by every lease in the end.
pub(super) async fn live_leases_do_not_hide_expired_ones(ada: &dyn Queue, bob: &dyn Queue) {
    const LIVE: usize = 60;
    for _ in 0..=LIVE {
        ring(ada, Uuid::now_v7(), When::Now).await;
    }
    let mut live = Vec::new();
    while live.len() <= LIVE {
        live.extend(ada.take((LIVE + 1 - live.len()).into()).await.expect("take"));
    }
    let abandoned = live.pop().expect("the last");
    let claimed = while_renewing(ada, &live, take_one(bob)).await;
    assert_eq!(claimed, abandoned, "bob is given the one that nobody renews");
    finish(bob, &claimed, None).await;
    finish_all(ada, &live).await;
    assert_empty(ada, "all were finished").await;
}

pub(super) async fn a_consumer_is_given_its_own_expired_token(queue: &dyn Queue) {
    ring(queue, Uuid::now_v7(), When::Now).await;
    let first = take_one(queue).await;
    let second = take_one(queue).await;
    assert_eq!(first, second, "a task that died within a living worker is made good too");
    finish(queue, &second, None).await;
    assert_empty(queue, "it was finished").await;
}

/// Does something while the leases of these jobs are renewed, and are found to be held each time.
async fn while_renewing<T>(queue: &dyn Queue, jobs: &[Job], doing: impl Future<Output = T>) -> T {
    let renewing = async {
        loop {
            assert_eq!(lost(queue, jobs).await, [], "a lease that is renewed in time is kept");
            sleep(SHORT / 8).await;
        }
    };
    tokio::select! {
        done = doing => done,
        () = renewing => unreachable!("it renews for ever"),
    }
}
