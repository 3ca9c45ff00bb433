//! Log messages about a server's behaviour: each kind at most once a minute for a server, however often it happens.

use std::{
    collections::HashMap,
    sync::{LazyLock, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// Minimum time between two messages of one kind about one server.
const INTERVAL: Duration = Duration::from_secs(60);

/// Maximum servers and kinds that are remembered.
const MAX_REMEMBERED: usize = 10_000;

/// Time of the last message, by server and kind.
static LAST: LazyLock<Mutex<HashMap<(String, &'static str), Instant>>> = LazyLock::new(Mutex::default);

/// Returns true if a message of this kind about a server may be logged now, and records it.
pub(super) fn is_due(server: &str, kind: &'static str) -> bool {
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    if MAX_REMEMBERED <= last.len() {
        last.retain(|_, at| now.duration_since(*at) < INTERVAL);
    }
    match last.get_mut(&(server.to_owned(), kind)) {
        Some(at) if now.duration_since(*at) < INTERVAL => false,
        Some(at) => {
            *at = now;
            true
        }
        None => {
            last.insert((server.to_owned(), kind), now);
            true
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_kind_is_due_once_a_minute_for_each_server() {
        assert!(is_due("noted", "floods"));
        assert!(!is_due("noted", "floods"));
        assert!(is_due("noted", "noise") && is_due("other", "floods"));
        tokio::time::advance(INTERVAL).await;
        assert!(is_due("noted", "floods"));
    }
}
