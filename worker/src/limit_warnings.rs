//! Warnings of limits that block requests, at most one a minute for each limit.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use hashlink::LruCache;
use tokio::time::Instant;
use tracing::warn;

/// Time for which a limit is not mentioned again.
const QUIET: Duration = Duration::from_secs(60);

/// Maximum limits that are remembered.
const MAX_LIMITS: usize = 1_024;

/// Limits that were mentioned, and when.
pub(crate) struct LimitWarnings(Mutex<LruCache<String, Instant>>);

impl Default for LimitWarnings {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(MAX_LIMITS)))
    }
}

impl LimitWarnings {
    /// Warns that a limit blocks a request of this tenant. `limit` describes it.
    pub(crate) fn warn(&self, tenant: &str, limit: &str) {
        if self.is_due(limit) {
            warn!(tenant, cause = limit, "a limit is reached; requests wait");
        }
    }

    fn is_due(&self, limit: &str) -> bool {
        let mut mentioned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if mentioned.get(limit).is_some_and(|at| at.elapsed() < QUIET) {
            return false;
        }
        mentioned.insert(limit.to_owned(), Instant::now());
        true
    }
}

#[tokio::test(start_paused = true)]
async fn each_limit_is_mentioned_once_a_minute() {
    let warnings = LimitWarnings::default();
    assert!(warnings.is_due("model a") && warnings.is_due("model b"));
    assert!(!warnings.is_due("model a"));
    tokio::time::advance(QUIET).await;
    assert!(warnings.is_due("model a"));
}
