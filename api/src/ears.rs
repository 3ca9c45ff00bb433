//! Waiting for something to happen to a thread.
//!
//! News may be lost, so whoever listens also looks by itself every so often; and when there is no listening at all,
//! looking is all there is.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use store::{News, Notice, ThreadId};
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::house::House;

/// How long to wait before listening is tried again.
const DEAF_FOR: Duration = Duration::from_secs(1);

/// Listens to one thread.
pub(crate) struct Ears {
    thread: ThreadId,
    news: Arc<dyn News>,
    notices: Option<BoxStream<'static, Notice>>,
    looks: Interval,
    stop: CancellationToken,
}

/// What was heard.
pub(crate) enum Sound {
    /// Something of the thread.
    Notice(Notice),
    /// Nothing: it is time to look.
    Silence,
    /// The door closes.
    Stop,
}

impl Ears {
    /// Listens from now on, and looks at least every `look`.
    pub(crate) async fn listen(house: &House, thread: ThreadId, look: Duration) -> Self {
        let mut looks = tokio::time::interval_at(Instant::now() + look, look);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let news = Arc::clone(&house.parts.news);
        let mut ears = Self { thread, news, notices: None, looks, stop: house.stop.clone() };
        ears.subscribe().await;
        ears
    }

    async fn subscribe(&mut self) {
        match self.news.subscribe(self.thread).await {
            Ok(notices) => self.notices = Some(notices),
            Err(error) => warn!(thread = %self.thread, %error, "cannot listen; looking instead"),
        }
    }

    /// The next sound.
    pub(crate) async fn next(&mut self) -> Sound {
        let Some(notices) = &mut self.notices else {
            if self.pause(DEAF_FOR).await {
                return Sound::Stop;
            }
            self.subscribe().await;
            return Sound::Silence;
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Sound::Stop,
            _ = self.looks.tick() => Sound::Silence,
            notice = notices.next() => match notice {
                Some(notice) => Sound::Notice(notice),
                None => {
                    self.notices = None;
                    Sound::Silence
                }
            },
        }
    }

    /// Waits; whether the door closed meanwhile.
    pub(crate) async fn pause(&mut self, pause: Duration) -> bool {
        tokio::time::timeout(pause, self.stop.cancelled()).await.is_ok()
    }
}
