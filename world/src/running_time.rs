//! Timeouts in running time: the time during which this process is stopped does not count.
//!
//! ## Why
//!
//! When a stopped process continues, or a suspended machine wakes up, every deadline is over, while the responses wait in
//! its sockets. A call that may have changed something would be reported as unanswered, and a person would be asked.

use std::{pin::pin, time::Duration};

use tokio::time::Instant;

/// Length of one timer. A stop is noticed by a timer that ends late.
const STEP: Duration = Duration::from_secs(1);

/// Waits until the process has run for `duration`.
pub async fn sleep(duration: Duration) {
    let mut left = duration;
    while !left.is_zero() {
        let step = left.min(STEP);
        let began = Instant::now();
        tokio::time::sleep(step).await;
        if began.elapsed() < step + STEP {
            left -= step;
        }
    }
}

/// Returns the output of `future`, or `None` if it takes longer than `duration`.
pub async fn timeout<F: Future>(duration: Duration, future: F) -> Option<F::Output> {
    let future = pin!(future);
    tokio::select! {
        biased;
        output = future => Some(output),
        () = sleep(duration) => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stopped_process_still_receives_the_response() {
        let (respond, response) = oneshot::channel();
        let began = Instant::now();
        let request = tokio::spawn(timeout(Duration::from_secs(30), response));
        tokio::time::sleep(Duration::from_millis(29_500)).await;
        // The process stops, and its response arrives meanwhile.
        tokio::time::advance(Duration::from_secs(60)).await;
        tokio::task::yield_now().await;
        respond.send("done").unwrap();
        assert_eq!(request.await.unwrap(), Some(Ok("done")));
        assert_eq!(began.elapsed().as_secs(), 89);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_response_ends_in_time() {
        let began = Instant::now();
        assert_eq!(timeout(Duration::from_millis(2_500), std::future::pending::<()>()).await, None);
        assert_eq!(began.elapsed(), Duration::from_millis(2_500));
        assert_eq!(timeout(Duration::ZERO, async { 1 }).await, Some(1), "a response that is ready counts");
    }
}
