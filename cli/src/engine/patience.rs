//! Waits for servers that do not answer when a process starts, for example because they are being restarted.

use std::time::Duration;

use queue::QueueError;
use tokio::time::{Instant, sleep};
use tracing::warn;

/// Longest time for which a starting process waits for a server.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Time between two attempts.
const INTERVAL: Duration = Duration::from_millis(500);

/// Repeats a step of the start while the database or Redis is unavailable. Every other error ends the start at once: a wrong
/// password does not become right by waiting.
pub(crate) async fn wait_for_servers<T>(step: impl AsyncFn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let began = Instant::now();
    let mut is_told = false;
    loop {
        match step().await {
            Err(error) if is_unavailable(&error) && began.elapsed() < MAX_WAIT => {
                if !is_told {
                    warn!(seconds = MAX_WAIT.as_secs(), "waiting for a server: {error}");
                }
                is_told = true;
                sleep(INTERVAL).await;
            }
            result => return result,
        }
    }
}

fn is_unavailable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(QueueError::Unavailable { .. }))
        || matches!(error.downcast_ref(), Some(store::Error::Unavailable(_)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn unavailable() -> anyhow::Error {
        QueueError::Unavailable { action: "connect to Redis".to_owned(), source: "connection refused".into() }
            .into()
    }

    fn refused() -> anyhow::Error {
        QueueError::Refused { action: "connect to Redis".to_owned(), source: "wrong password".into() }.into()
    }

    #[tokio::test(start_paused = true)]
    async fn server_that_comes_back_is_waited_for() {
        let attempts = Cell::new(0);
        let connected = wait_for_servers(async || {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 5 { Err(unavailable()) } else { Ok(attempts.get()) }
        });
        assert_eq!(connected.await.unwrap(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends() {
        let began = Instant::now();
        let error = wait_for_servers(async || Err::<(), _>(unavailable())).await.unwrap_err();
        assert!(error.to_string().contains("connection refused"), "{error}");
        assert!((MAX_WAIT..=MAX_WAIT + INTERVAL).contains(&began.elapsed()));
    }

    #[tokio::test(start_paused = true)]
    async fn other_errors_end_the_start_at_once() {
        let began = Instant::now();
        wait_for_servers(async || Err::<(), _>(refused())).await.unwrap_err();
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
