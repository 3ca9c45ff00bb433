//! Rings that are delayed: when they fire, and which of two counts.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::{
    Depth, HeldBy, Listed, PATIENCE, Place, Queue, When, assert_empty, depth, finish, finish_all, ring,
    take_one,
};

pub(super) async fn delays_fire_in_order_and_not_early(queue: &dyn Queue) {
    let threads: Vec<Uuid> = (0..4).map(|_| Uuid::now_v7()).collect();
    let delays = [400, 100, 300, 200].map(Duration::from_millis);
    let began = Instant::now();
    for (thread, delay) in threads.iter().zip(delays) {
        ring(queue, *thread, When::After(delay)).await;
    }
    let mut order = Vec::new();
    while order.len() < threads.len() {
        for job in queue.take(8.into()).await.expect("take") {
            let place = threads.iter().position(|it| *it == job.thread).expect("a thread of this check");
            assert!(began.elapsed() >= delays[place], "{:?} fired early", delays[place]);
            order.push(place);
            finish(queue, &job, None).await;
        }
        assert!(began.elapsed() < PATIENCE, "delays fire though nobody rings: {order:?}");
    }
    assert_eq!(order, [1, 3, 2, 0], "the earliest fires first");
    assert_empty(queue, "a delay fires once").await;
}

/// Whoever waits already must not sleep through a ring that is delayed meanwhile.
pub(super) async fn a_waiting_take_hears_a_delay_in_time(queue: Arc<dyn Queue>) {
    const ROUNDS: u32 = 6;
    let delay = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    for _ in 0..ROUNDS {
        let taker = Arc::clone(&queue);
        let taking = tokio::spawn(async move { take_one(&*taker).await });
        // So that it waits by now; if it does not, the check is easier, and no less true.
        sleep(Duration::from_millis(50)).await;
        let began = Instant::now();
        ring(&*queue, Uuid::now_v7(), When::After(delay)).await;
        let job = taking.await.expect("the taker");
        waited += began.elapsed();
        finish(&*queue, &job, None).await;
    }
    // Waking only when the wait is over anyway would take most of a second each time.
    assert!(waited < ROUNDS * Duration::from_millis(500), "{ROUNDS} delays of {delay:?} took {waited:?}");
    assert_empty(&*queue, "all were finished").await;
}

pub(super) async fn the_earlier_of_two_delays_wins(queue: &dyn Queue) {
    let (soon, late) = (Duration::from_millis(100), Duration::from_secs(3600));
    let (brought_forward, put_off) = (Uuid::now_v7(), Uuid::now_v7());
    ring(queue, brought_forward, When::After(late)).await;
    ring(queue, brought_forward, When::After(soon)).await;
    ring(queue, put_off, When::After(soon)).await;
    ring(queue, put_off, When::After(late)).await;
    assert_eq!(depth(queue).await, Depth { delayed: 2, ..Depth::default() }, "a thread is delayed once");
    let jobs = [take_one(queue).await, take_one(queue).await];
    assert_eq!(BTreeSet::from([brought_forward, put_off]), jobs.iter().map(|job| job.thread).collect());
    finish_all(queue, &jobs).await;
    assert_empty(queue, "the later delay is forgotten").await;
}

/// A worker that is at a thread says so for as long as it is.
pub(super) async fn who_is_at_a_thread_puts_its_ring_off(queue: &dyn Queue) {
    let (thread, hour) = (Uuid::now_v7(), Duration::from_secs(3600));
    let held = |after, held: HeldBy, words: &str| When::Held { after, why: held.because(words) };
    let due_in = async || match &queue.list(9).await.expect("list")[..] {
        [Listed { place: Place::Delayed { due_in, .. }, .. }] => *due_in,
        other => panic!("one is delayed: {other:?}"),
    };
    ring(queue, thread, held(hour, HeldBy::Worker, "ada is at it")).await;
    ring(queue, thread, held(2 * hour, HeldBy::Worker, "bob is at it")).await;
    assert!(due_in().await < hour + PATIENCE, "of two that say different things the earliest counts");
    ring(queue, thread, held(2 * hour, HeldBy::Worker, "ada is at it")).await;
    assert!(hour + PATIENCE < due_in().await, "it is put off by whoever said so before");
    ring(queue, thread, held(hour, HeldBy::Retry, "it faltered")).await;
    ring(queue, thread, held(2 * hour, HeldBy::Retry, "it faltered")).await;
    assert!(due_in().await < hour + PATIENCE, "nothing else is put off");
    ring(queue, thread, When::After(Duration::from_millis(1))).await;
    finish(queue, &take_one(queue).await, None).await;
    assert_empty(queue, "it was finished").await;
}
