//! The signal that stops a worker, in two stages: drain, then halt.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Handle that stops a worker. Clones share the same signal.
#[derive(Clone, Default)]
pub struct Shutdown {
    draining: CancellationToken,
    halted: CancellationToken,
    failure: Arc<OnceLock<String>>,
}

impl Shutdown {
    /// Stops claiming jobs and lets running jobs finish, for at most [`WorkerConfig::drain_timeout`](crate::WorkerConfig).
    pub fn drain(&self) {
        self.draining.cancel();
    }

    /// Drains the worker because it cannot go on, with the reason.
    pub(crate) fn fail(&self, reason: String) {
        let _ = self.failure.set(reason);
        self.drain();
    }

    /// Returns the reason for which the worker stopped by itself.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Aborts running jobs and returns them to the queue at once.
    pub fn halt(&self) {
        self.draining.cancel();
        self.halted.cancel();
    }

    /// Waits until a drain or a halt is requested.
    pub async fn requested(&self) {
        self.draining.cancelled().await;
    }

    /// True once a drain or a halt was requested.
    pub fn is_requested(&self) -> bool {
        self.draining.is_cancelled()
    }

    /// Waits until a halt is requested.
    pub(crate) async fn halted(&self) {
        self.halted.cancelled().await;
    }
}
