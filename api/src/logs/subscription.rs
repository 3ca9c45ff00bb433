//! Waiting for changes of a thread.
//!
//! Notifications may be lost, so a subscriber also rereads the thread at an interval. If subscribing fails, only the
//! rereading remains until a later attempt succeeds.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream::BoxStream};
use metrics::{InUse, metrics};
use queue::{Notification, Notifications};
use store::ThreadId;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::server::state::AppState;

/// Delay before another attempt to subscribe.
const RESUBSCRIBE_AFTER: Duration = Duration::from_secs(1);

/// Subscription to the changes of one thread.
pub(crate) struct Subscription {
    thread: ThreadId,
    /// True if only the ends of turns matter.
    ends: bool,
    notifications: Arc<dyn Notifications>,
    notices: Option<BoxStream<'static, Notification>>,
    recheck: Interval,
    stop: CancellationToken,
    #[expect(dead_code, reason = "counts the subscription as long as it exists")]
    counted: InUse,
}

/// Reason to stop waiting.
pub(crate) enum Signal {
    /// A notification about the thread.
    Notification(Notification),
    /// The thread should be reread.
    Recheck,
    /// The API is shutting down.
    Shutdown,
}

impl Subscription {
    /// Subscribes to a thread, to be reread at least at the given interval.
    pub(crate) async fn listen(app: &AppState, thread: ThreadId, interval: Duration) -> Self {
        Self::listen_to(app, thread, false, interval).await
    }

    /// Subscribes to the ends of the turns of a thread, to be reread at least at the given interval.
    pub(crate) async fn listen_to_ends(app: &AppState, thread: ThreadId, interval: Duration) -> Self {
        Self::listen_to(app, thread, true, interval).await
    }

    async fn listen_to(app: &AppState, thread: ThreadId, ends: bool, interval: Duration) -> Self {
        let mut recheck = tokio::time::interval_at(Instant::now() + interval, interval);
        recheck.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let notifications = Arc::clone(&app.backends.notifications);
        let mut subscription = Self {
            thread,
            ends,
            notifications,
            notices: None,
            recheck,
            stop: app.stop.clone(),
            counted: metrics().http.follow(),
        };
        subscription.subscribe().await;
        subscription
    }

    async fn subscribe(&mut self) {
        let subscribed = match self.ends {
            true => self.notifications.subscribe_to_ends(self.thread).await,
            false => self.notifications.subscribe(self.thread).await,
        };
        match subscribed {
            Ok(notices) => self.notices = Some(notices),
            Err(error) => {
                warn!(thread = %self.thread, %error, "cannot subscribe to notifications; polling instead")
            }
        }
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        let Some(notices) = &mut self.notices else {
            if self.pause(RESUBSCRIBE_AFTER).await {
                return Signal::Shutdown;
            }
            self.subscribe().await;
            return Signal::Recheck;
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Signal::Shutdown,
            _ = self.recheck.tick() => Signal::Recheck,
            notice = notices.next() => match notice {
                Some(notice) => Signal::Notification(notice),
                None => {
                    self.notices = None;
                    Signal::Recheck
                }
            },
        }
    }

    /// Waits for the given time. Returns true if the API shut down meanwhile.
    pub(crate) async fn pause(&mut self, pause: Duration) -> bool {
        tokio::time::timeout(pause, self.stop.cancelled()).await.is_ok()
    }
}
