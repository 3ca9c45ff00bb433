//! The signal that stops a worker, in two stages: drain, then halt.

use tokio_util::sync::CancellationToken;

/// Handle that stops a worker. Clones share the same signal.
#[derive(Clone, Default)]
pub struct Shutdown {
    draining: CancellationToken,
    halted: CancellationToken,
}

impl Shutdown {
    /// Stops claiming jobs and lets running jobs finish, for at most [`WorkerConfig::drain_timeout`](crate::WorkerConfig).
    pub fn drain(&self) {
        self.draining.cancel();
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
