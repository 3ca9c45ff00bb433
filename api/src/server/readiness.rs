//! Readiness of the store and the queue, checked at most once per second.

use std::time::Duration;

use store::Error;
use threads::Backends;
use tokio::{sync::Mutex, time::Instant};

/// Time for which an outcome is used again. A check writes to the store, and anyone may ask.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Outcome of the last check, and its time.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Option<String>)>>);

impl Readiness {
    /// Returns the reason for not being ready, if there is one.
    pub(crate) async fn check(&self, parts: &Backends) -> Option<String> {
        let mut last = self.0.lock().await;
        if let Some((at, cause)) = &*last
            && at.elapsed() < FRESH_FOR
        {
            return cause.clone();
        }
        let (store, queue) = tokio::join!(store(parts), parts.queue.depth());
        let causes = [
            store.err().map(|error| format!("the store: {error}")),
            queue.err().map(|error| format!("the queue: {error}")),
        ];
        let causes: Vec<String> = causes.into_iter().flatten().collect();
        let cause = (!causes.is_empty()).then(|| causes.join("; "));
        *last = Some((Instant::now(), cause.clone()));
        cause
    }
}

async fn store(parts: &Backends) -> Result<(), Error> {
    parts.store.check_migrated().await?;
    parts.store.check_writable().await
}
