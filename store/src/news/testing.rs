//! What all news must do. An implementation passes when [`news_conformance`] returns.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use tokio::time::timeout;
use uuid::Uuid;

use super::{BEHIND, News, Notice};

/// How long something that must happen may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Checks news. `make` gives another end of the same news, as another process would have it.
///
/// # Panics
///
/// When the news do not keep a promise; the words say which.
pub async fn news_conformance(make: impl AsyncFn() -> Arc<dyn News>) {
    let (here, there) = (make().await, make().await);
    news_are_heard_in_order_and_by_thread(&*here, &*there).await;
    every_listener_hears_until_it_is_dropped(&*here, &*there).await;
    only_what_follows_is_heard(&*here, &*there).await;
    a_slow_listener_skips(&*here, &*there).await;
}

async fn news_are_heard_in_order_and_by_thread(here: &dyn News, there: &dyn News) {
    let (thread, other) = (Uuid::now_v7(), Uuid::now_v7());
    let mut listener = listen(there, thread).await;
    // So many that they travel together, and no more than a listener may be behind.
    let said: Vec<Notice> = (0..BEHIND as u64 / 4)
        .flat_map(|seq| {
            let text = format!("„Grüß Gott“ {seq}\n");
            [
                appended(2 * seq),
                Notice::Delta { node: "respond".into(), slot: 0, text },
                appended(2 * seq + 1),
            ]
        })
        .collect();
    for notice in &said {
        here.publish(other, Notice::Appended { seq: 9 }).await;
        here.publish(thread, notice.clone()).await;
    }
    for notice in said {
        assert_eq!(hear(&mut listener).await, notice);
    }
}

async fn every_listener_hears_until_it_is_dropped(here: &dyn News, there: &dyn News) {
    let thread = Uuid::now_v7();
    let (mut first, mut second) = (listen(there, thread).await, listen(there, thread).await);
    here.publish(thread, appended(1)).await;
    assert_eq!((hear(&mut first).await, hear(&mut second).await), (appended(1), appended(1)));
    drop(first);
    here.publish(thread, appended(2)).await;
    assert_eq!(hear(&mut second).await, appended(2), "the other listener stays");
    drop(second);
    let mut third = listen(there, thread).await;
    here.publish(thread, appended(3)).await;
    assert_eq!(hear(&mut third).await, appended(3), "a thread that nobody heard for a while is heard again");
}

async fn only_what_follows_is_heard(here: &dyn News, there: &dyn News) {
    let thread = Uuid::now_v7();
    let mut early = listen(there, thread).await;
    here.publish(thread, appended(1)).await;
    assert_eq!(hear(&mut early).await, appended(1));
    let mut late = listen(there, thread).await;
    here.publish(thread, appended(2)).await;
    assert_eq!(hear(&mut late).await, appended(2));
}

async fn a_slow_listener_skips(here: &dyn News, there: &dyn News) {
    let thread = Uuid::now_v7();
    let (mut slow, mut quick) = (listen(there, thread).await, listen(there, thread).await);
    let last = 4 * BEHIND as u64;
    for seq in 1..=last {
        here.publish(thread, appended(seq)).await;
        assert_eq!(hear(&mut quick).await, appended(seq), "a slow listener keeps nobody from hearing");
    }
    let mut heard = vec![hear(&mut slow).await];
    while heard.last() != Some(&appended(last)) {
        heard.push(hear(&mut slow).await);
    }
    assert!(heard.len() <= 2 * BEHIND, "what is kept for a slow listener has a limit: {}", heard.len());
}

async fn listen(news: &dyn News, thread: Uuid) -> BoxStream<'static, Notice> {
    news.subscribe(thread).await.expect("listen")
}

async fn hear(listener: &mut BoxStream<'static, Notice>) -> Notice {
    let heard = timeout(PATIENCE, listener.next()).await.expect("nothing was heard for long");
    heard.expect("the news ended")
}

fn appended(seq: u64) -> Notice {
    Notice::Appended { seq }
}
