//! A document of the issuer, fetched when it is needed and cached.
//!
//! ## Why a fetch is a task of its own
//!
//! A request that its client gives up ends at once. A client without any key that sends requests and gives them up would end
//! each fetch before its reply, and no one could sign in.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::{sync::Mutex, time::Instant};
use tracing::warn;

/// Age at which a document is fetched again.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Age at which a document that cannot be fetched again is no longer used.
const STALE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A content, and the time at which it was fetched.
type Latest<T> = Option<(Arc<T>, Instant)>;

/// A document of the issuer.
pub(super) struct Fetched<T> {
    /// Minimum time between two fetches.
    interval: Duration,
    latest: Arc<RwLock<Latest<T>>>,
    /// Time of the last attempt to fetch. Held during a fetch, so that concurrent requests share it.
    attempted_at: Arc<Mutex<Option<Instant>>>,
}

impl<T: Send + Sync + 'static> Fetched<T> {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, latest: Arc::new(RwLock::new(None)), attempted_at: Arc::new(Mutex::new(None)) }
    }

    /// Returns the document. It is fetched first if it is old, or lacks what is sought. None if there is no document, or only an old one.
    pub(super) async fn get<F>(
        &self,
        has_sought: impl Fn(&T) -> bool,
        fetch: impl FnOnce() -> F,
    ) -> Option<Arc<T>>
    where
        F: Future<Output = Option<T>> + Send + 'static,
    {
        if let Some(content) = self.fresh(&has_sought) {
            return Some(content);
        }
        let mut attempted_at = Arc::clone(&self.attempted_at).lock_owned().await;
        if let Some(content) = self.fresh(&has_sought) {
            return Some(content);
        }
        if attempted_at.is_none_or(|at| self.interval <= at.elapsed()) {
            *attempted_at = Some(Instant::now());
            let (latest, fetch) = (Arc::clone(&self.latest), fetch());
            let task = tokio::spawn(async move {
                if let Some(content) = fetch.await {
                    let content = Some((Arc::new(content), Instant::now()));
                    *latest.write().unwrap_or_else(PoisonError::into_inner) = content;
                }
                drop(attempted_at);
            });
            if let Err(error) = task.await {
                warn!(%error, "cannot fetch a document of the issuer");
            }
        }
        self.younger_than(STALE_MAX)
    }

    fn fresh(&self, has_sought: &impl Fn(&T) -> bool) -> Option<Arc<T>> {
        self.younger_than(MAX_AGE).filter(|content| has_sought(content))
    }

    fn younger_than(&self, age: Duration) -> Option<Arc<T>> {
        let latest = self.latest.read().unwrap_or_else(PoisonError::into_inner);
        let (content, fetched_at) = latest.as_ref()?;
        (fetched_at.elapsed() < age).then(|| Arc::clone(content))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{sleep, timeout};

    use super::*;

    const INTERVAL: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_fetch_goes_on_after_its_request_was_given_up() {
        let fetched = Fetched::new(INTERVAL);
        let slow = async || {
            sleep(Duration::from_secs(2)).await;
            Some(7)
        };
        assert!(timeout(Duration::from_secs(1), fetched.get(|_| true, slow)).await.is_err());
        let kept = fetched.get(|_| true, async || None).await;
        assert_eq!(kept.as_deref(), Some(&7), "one request more waits for the same fetch");
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_is_fetched_again_when_it_is_old_or_lacks_what_is_sought() {
        let fetched = Fetched::new(INTERVAL);
        assert_eq!(fetched.get(|_| true, async || None::<u8>).await, None);
        assert_eq!(fetched.get(|_| true, async || Some(1)).await, None, "within the interval");
        sleep(INTERVAL).await;
        for (sought, offered, wanted) in [(1, Some(1), 1), (1, Some(2), 1), (2, Some(2), 1)] {
            let content = fetched.get(move |content| *content == sought, async move || offered).await;
            assert_eq!(content.as_deref(), Some(&wanted), "within the interval, an old one is returned");
        }
        sleep(INTERVAL).await;
        assert_eq!(fetched.get(|content| *content == 2, async || Some(2)).await.as_deref(), Some(&2));
        sleep(MAX_AGE).await;
        assert_eq!(
            fetched.get(|_| true, async || None).await.as_deref(),
            Some(&2),
            "it is old, and still used"
        );
        sleep(STALE_MAX).await;
        assert_eq!(fetched.get(|_| true, async || None).await, None);
    }
}
