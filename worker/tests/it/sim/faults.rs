//! Random decisions, and the lifetime of a simulated process.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep, sleep_until};

/// The random generator that decides everything left to chance.
#[derive(Clone)]
pub(super) struct Dice(Arc<Mutex<fastrand::Rng>>);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    pub(super) fn below(&self, limit: u64) -> u64 {
        self.0.lock().unwrap().u64(..limit)
    }

    /// Returns true once in `times` calls, on average.
    pub(super) fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(super) fn one_of<'a, T>(&self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }

    pub(super) fn id(&self) -> uuid::Uuid {
        uuid::Uuid::from_u128(self.0.lock().unwrap().u128(..))
    }
}

/// State of a process: alive or dead, and subject to faults or not.
pub(super) struct Life {
    name: String,
    faulty: bool,
    dead: AtomicBool,
    stalled_until: Mutex<Option<Instant>>,
    skew: AtomicI64,
}

impl Life {
    pub(super) fn new(name: String, faulty: bool) -> Arc<Self> {
        let (dead, stalled_until, skew) = (AtomicBool::new(false), Mutex::new(None), AtomicI64::new(0));
        Arc::new(Self { name, faulty, dead, stalled_until, skew })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_faulty(&self) -> bool {
        self.faulty
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
    pub(super) async fn reaches(&self, time: Duration) {
        sleep(time).await;
        loop {
            if self.dead.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            let until = *self.stalled_until.lock().unwrap();
            match until.filter(|it| *it > Instant::now()) {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }
}
