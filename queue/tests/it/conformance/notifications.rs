//! Checks of the notifications.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt, stream::BoxStream};
use queue::notifications::{
    Delta, MAX_LAG, MemoryNotifications, Notification, Notifications, RedisNotifications,
};
use test_servers::Redis;
use tokio::time::timeout;
use uuid::Uuid;

/// Longest wait for something that must happen.
const TIMEOUT: Duration = Duration::from_secs(20);

super::checks! {
    notifications_arrive_in_order_and_by_thread,
    every_subscriber_receives_until_it_is_dropped,
    a_subscriber_receives_only_what_follows,
    a_slow_subscriber_misses_the_oldest,
    a_waiter_for_ends_receives_nothing_else,
}

/// Notifications of either implementation.
enum Backend {
    Memory(MemoryNotifications),
    Redis(Redis),
}

impl Backend {
    fn memory() -> Self {
        Self::Memory(MemoryNotifications::new())
    }

    fn redis() -> Self {
        Self::Redis(Redis::start())
    }

    /// Connects twice, like two processes.
    async fn connect(&self) -> [Arc<dyn Notifications>; 2] {
        match self {
            Self::Memory(notifications) => [Arc::new(notifications.clone()), Arc::new(notifications.clone())],
            Self::Redis(redis) => {
                let connect = async || {
                    Arc::new(
                        RedisNotifications::connect(&queue::Prefix::default(), &redis.url()).await.unwrap(),
                    )
                };
                [connect().await, connect().await]
            }
        }
    }

    /// Asserts that a check has left nothing in Redis.
    async fn assert_clean(&self) {
        if let Self::Redis(redis) = self {
            assert_eq!(redis.ask("DBSIZE"), "0");
        }
    }
}

async fn notifications_arrive_in_order_and_by_thread(backend: &Backend) {
    let [here, there] = backend.connect().await;
    let (thread, other) = (Uuid::now_v7(), Uuid::now_v7());
    let mut subscriber = subscribe(&*there, thread).await;
    // Enough to travel in batches, and no more than a subscriber may lag behind.
    let sent: Vec<Notification> = (0..MAX_LAG as u64 / 4)
        .flat_map(|seq| {
            let text = format!("„Grüß Gott“ {seq}\n");
            let (turn, node, offset) = (other, "respond".into(), 7);
            let delta = Notification::Delta(Delta { turn, node, seq, attempt: u64::MAX, offset, text });
            [appended(2 * seq), delta, appended(2 * seq + 1)]
        })
        .collect();
    for notification in &sent {
        here.publish(other, appended(9)).await;
        here.publish(thread, notification.clone()).await;
    }
    // Between processes, growth may be named once for several events.
    let mut next = 0;
    while next < sent.len() {
        let received = receive(&mut subscriber).await;
        let at = sent[next..].iter().position(|notification| *notification == received);
        let at = at.expect("what was sent, in order");
        let is_growth = |missed: &Notification| matches!(missed, Notification::Appended { .. });
        assert!(sent[next..next + at].iter().all(is_growth), "a delta is missing before {received:?}");
        next += at + 1;
    }
}

async fn every_subscriber_receives_until_it_is_dropped(backend: &Backend) {
    let [here, there] = backend.connect().await;
    let thread = Uuid::now_v7();
    let (mut first, mut second) = (subscribe(&*there, thread).await, subscribe(&*there, thread).await);
    here.publish(thread, appended(1)).await;
    assert_eq!((receive(&mut first).await, receive(&mut second).await), (appended(1), appended(1)));
    drop(first);
    here.publish(thread, appended(2)).await;
    assert_eq!(receive(&mut second).await, appended(2), "the other subscriber stays");
    drop(second);
    let mut third = subscribe(&*there, thread).await;
    here.publish(thread, appended(3)).await;
    assert_eq!(receive(&mut third).await, appended(3), "a thread can be subscribed to again");
}

async fn a_subscriber_receives_only_what_follows(backend: &Backend) {
    let [here, there] = backend.connect().await;
    let thread = Uuid::now_v7();
    let mut early = subscribe(&*there, thread).await;
    here.publish(thread, appended(1)).await;
    assert_eq!(receive(&mut early).await, appended(1));
    let mut late = subscribe(&*there, thread).await;
    here.publish(thread, appended(2)).await;
    assert_eq!(receive(&mut late).await, appended(2));
}

async fn a_slow_subscriber_misses_the_oldest(backend: &Backend) {
    let [here, there] = backend.connect().await;
    let thread = Uuid::now_v7();
    let (mut slow, mut fast) = (subscribe(&*there, thread).await, subscribe(&*there, thread).await);
    let last = 4 * MAX_LAG as u64;
    for seq in 1..=last {
        here.publish(thread, ended(seq)).await;
        assert_eq!(receive(&mut fast).await, ended(seq), "a slow subscriber delays no other");
    }
    let mut received = vec![receive(&mut slow).await];
    while received.last() != Some(&ended(last)) {
        received.push(receive(&mut slow).await);
    }
    assert!(received.len() <= 2 * MAX_LAG, "the buffer is bounded: {}", received.len());
}

async fn a_waiter_for_ends_receives_nothing_else(backend: &Backend) {
    let [here, there] = backend.connect().await;
    let (thread, other) = (Uuid::now_v7(), Uuid::now_v7());
    let mut waiter = there.subscribe_to_ends(thread).await.expect("subscribe");
    let mut follower = subscribe(&*there, thread).await;
    here.publish(thread, appended(1)).await;
    assert_eq!(receive(&mut follower).await, appended(1));
    assert_eq!(waiter.next().now_or_never(), None, "growth wakes no waiter");
    here.publish(other, ended(2)).await;
    here.publish(thread, ended(3)).await;
    assert_eq!(receive(&mut waiter).await, ended(3));
    drop(waiter);
    let mut waiter = there.subscribe_to_ends(thread).await.expect("subscribe again");
    here.publish(thread, ended(4)).await;
    assert_eq!(receive(&mut waiter).await, ended(4));
}

async fn subscribe(notifications: &dyn Notifications, thread: Uuid) -> BoxStream<'static, Notification> {
    notifications.subscribe(thread).await.expect("subscribe")
}

async fn receive(subscriber: &mut BoxStream<'static, Notification>) -> Notification {
    let received = timeout(TIMEOUT, subscriber.next()).await.expect("a notification in time");
    received.expect("the stream goes on")
}

fn ended(seq: u64) -> Notification {
    Notification::Appended { seq, turn_over: true, end: None }
}

fn appended(seq: u64) -> Notification {
    Notification::Appended { seq, turn_over: false, end: None }
}
