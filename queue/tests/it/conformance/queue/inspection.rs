//! Reading the contents of the queue.

use std::time::Duration;

use queue::{BlockedBy, Depth, EntryState, Lane, MAX_REASON_BYTES, Priority, QueueEntry, Schedule};
use uuid::Uuid;

use super::{Backend, LONG, TIMEOUT, ack, ack_all, assert_empty, claim_one, depth, enqueue};

crate::conformance::checks! {
    every_thread_with_a_job_is_reported,
    every_job_is_listed_with_its_state,
}

async fn every_thread_with_a_job_is_reported(backend: &Backend) {
    let queue = &*backend.ada().await;
    let [in_flight, waiting, delayed] = [(); 3].map(|()| Uuid::now_v7());
    enqueue(queue, in_flight, Schedule::Now).await;
    let job = claim_one(queue).await;
    enqueue(queue, waiting, Schedule::Now).await;
    enqueue(queue, delayed, Schedule::After(Duration::from_millis(200))).await;
    let enqueued = queue.enqueued().await.expect("read");
    assert_eq!([in_flight, waiting, delayed].map(|thread| enqueued.contains(thread)), [Some(true); 3]);
    assert_eq!(enqueued.contains(Uuid::now_v7()), Some(false));
    assert_eq!(depth(queue).await, Depth { waiting: 1, in_flight: 1, delayed: 1 });
    ack_all(queue, &[job, claim_one(queue).await, claim_one(queue).await]).await;
    assert_eq!(queue.enqueued().await.expect("read").contains(in_flight), Some(false));
    assert_empty(queue).await;
}

async fn every_job_is_listed_with_its_state(backend: &Backend) {
    let queue = &*backend.ada().await;
    assert_eq!(queue.list(9).await.expect("list"), []);
    let [in_flight, first, second, delayed, blocked] = [(); 5].map(|()| Uuid::now_v7());
    let lane = Lane::new("acme", Priority::High);
    queue.enqueue(in_flight, &lane, Schedule::NowAtSeq(3)).await.expect("enqueue");
    let job = claim_one(queue).await;
    for thread in [first, second] {
        queue.enqueue(thread, &lane, Schedule::Now).await.expect("enqueue");
    }
    let hour = Duration::from_secs(3600);
    enqueue(queue, delayed, Schedule::After(hour)).await;
    // The limit falls within the letter ü, so the detail is cut before it.
    let detail = format!("{}ü and more", "w".repeat(MAX_REASON_BYTES - 1));
    let late =
        Schedule::Blocked { after: 2 * hour, reason: BlockedBy::Limit.because("a later one does not count") };
    let soon =
        Schedule::Blocked { after: hour + Duration::from_secs(60), reason: BlockedBy::Pause.because(detail) };
    for schedule in [late.clone(), soon, late] {
        queue.enqueue(blocked, &lane, schedule).await.expect("enqueue");
    }

    let listed = queue.list(9).await.expect("list");
    let thread_and_lane = |entry: &QueueEntry| (entry.thread, entry.lane.clone());
    let expected = [in_flight, first, second, delayed, blocked]
        .map(|thread| (thread, if thread == delayed { Lane::default() } else { lane.clone() }));
    assert_eq!(listed.iter().map(thread_and_lane).collect::<Vec<_>>(), expected);
    let states: Vec<&EntryState> = listed.iter().map(|entry| &entry.state).collect();
    let EntryState::InFlight { consumer, since_renewal, expires_in, deaths: 0 } = states[0] else {
        panic!("{states:?}")
    };
    assert!(consumer == "ada" && *since_renewal < TIMEOUT, "{states:?}");
    assert_eq!(*since_renewal + *expires_in, LONG, "{states:?}");
    assert_eq!(states[1..3], [&EntryState::Waiting { position: 0 }, &EntryState::Waiting { position: 1 }]);
    let EntryState::Delayed { due_in, reason: None } = states[3] else { panic!("{states:?}") };
    // Redis counts whole milliseconds.
    assert!(*due_in <= hour + Duration::from_millis(5) && hour < *due_in + TIMEOUT, "{states:?}");
    let EntryState::Delayed { due_in, reason: Some(reason) } = states[4] else { panic!("{states:?}") };
    assert!(hour < *due_in && *due_in < 2 * hour, "the earliest counts: {states:?}");
    assert_eq!(*reason, BlockedBy::Pause.because("w".repeat(MAX_REASON_BYTES - 1)));
    assert_eq!(
        queue.list(2).await.expect("list").iter().map(thread_and_lane).collect::<Vec<_>>(),
        expected[..2]
    );
    assert_eq!(queue.list(0).await.expect("list"), []);

    for thread in [delayed, blocked] {
        enqueue(queue, thread, Schedule::After(Duration::from_millis(1))).await;
    }
    ack(queue, &job, None).await;
    for _ in 0..4 {
        ack(queue, &claim_one(queue).await, None).await;
    }
    assert_eq!(queue.list(9).await.expect("list"), []);
    assert_empty(queue).await;
}
