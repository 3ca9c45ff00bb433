//! A document of the issuer, fetched when it is needed and cached.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use tokio::{sync::Mutex, time::Instant};

/// Age at which a document is fetched again.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Age at which a document that cannot be fetched again is no longer used.
const STALE_MAX: Duration = Duration::from_secs(24 * 3600);

/// A document of the issuer.
pub(super) struct Fetched<T> {
    /// Minimum time between two fetches.
    interval: Duration,
    /// The content, and the time at which it was fetched.
    latest: RwLock<Option<(Arc<T>, Instant)>>,
    /// Time of the last attempt to fetch. Held during a fetch, so that concurrent requests share it.
    attempted_at: Mutex<Option<Instant>>,
}

impl<T> Fetched<T> {
    pub(super) fn new(interval: Duration) -> Self {
        Self { interval, latest: RwLock::new(None), attempted_at: Mutex::new(None) }
    }

    /// Returns the document. It is fetched first if it is old, or lacks what is sought. None if there is no document, or only an old one.
    pub(super) async fn get(
        &self,
        has_sought: impl Fn(&T) -> bool,
        fetch: impl Future<Output = Option<T>>,
    ) -> Option<Arc<T>> {
        let fresh = || self.younger_than(MAX_AGE).filter(|content| has_sought(content));
        if let Some(content) = fresh() {
            return Some(content);
        }
        let mut attempted_at = self.attempted_at.lock().await;
        if let Some(content) = fresh() {
            return Some(content);
        }
        if attempted_at.is_none_or(|at| self.interval <= at.elapsed()) {
            *attempted_at = Some(Instant::now());
            if let Some(content) = fetch.await {
                let latest = Some((Arc::new(content), Instant::now()));
                *self.latest.write().unwrap_or_else(PoisonError::into_inner) = latest;
            }
        }
        drop(attempted_at);
        self.younger_than(STALE_MAX)
    }

    fn younger_than(&self, age: Duration) -> Option<Arc<T>> {
        let latest = self.latest.read().unwrap_or_else(PoisonError::into_inner);
        let (content, fetched_at) = latest.as_ref()?;
        (fetched_at.elapsed() < age).then(|| Arc::clone(content))
    }
}
