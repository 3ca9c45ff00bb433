//! The lifetime of a simulated process.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep, sleep_until};

/// State of a process: alive or dead, and subject to faults or not.
pub(super) struct Process {
    name: String,
    is_faulty: bool,
    dead: AtomicBool,
    stalled_until: Mutex<Option<Instant>>,
    skew: AtomicI64,
}

impl Process {
    pub(super) fn new(name: String, is_faulty: bool) -> Arc<Self> {
        let (dead, stalled_until, skew) = (AtomicBool::new(false), Mutex::new(None), AtomicI64::new(0));
        Arc::new(Self { name, is_faulty, dead, stalled_until, skew })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_faulty(&self) -> bool {
        self.is_faulty
    }

    /// Kills the process as `kill -9` does: nothing it does has an effect from now on.
    pub(super) fn end(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.dead.load(Ordering::SeqCst)
    }

    /// Stops the process for `time`, as `SIGSTOP` and a later `SIGCONT` do.
    pub(super) fn stall(&self, time: Duration) {
        *self.stalled_until.lock().unwrap() = Some(Instant::now() + time);
    }

    pub(super) fn jump(&self, micros: i64) {
        self.skew.fetch_add(micros, Ordering::SeqCst);
    }

    pub(super) fn skew(&self) -> i64 {
        self.skew.load(Ordering::SeqCst)
    }

    /// Returns after `time` if the process is alive; otherwise never.
    pub(super) async fn survives(&self, time: Duration) {
        sleep(time).await;
        loop {
            if self.dead.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            let until = *self.stalled_until.lock().unwrap();
            match until.filter(|until| *until > Instant::now()) {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }
}
