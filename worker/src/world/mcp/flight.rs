//! Something that is dear to make, made once for all who want it at the same moment.

use shared::Fault;
use tokio::{sync::Mutex, time::Instant};

/// A value that is made when it is first wanted, or when it is no longer fresh.
pub(super) struct Flight<T> {
    landed: Mutex<Landed<T>>,
}

struct Landed<T> {
    value: Option<T>,
    failed: Option<(Instant, Fault)>,
}

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Self { landed: Mutex::new(Landed { value: None, failed: None }) }
    }
}

impl<T: Clone> Flight<T> {
    /// The value, if it is fresh; else a new one, made by `make`.
    ///
    /// Whoever waited while it was being made shares the result, be it good or bad: a server that is down is
    /// not tried once for each of a thousand threads, one after the other.
    pub(super) async fn get(
        &self,
        is_fresh: impl Fn(&T) -> bool,
        make: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let came = Instant::now();
        let mut landed = self.landed.lock().await;
        if let Some(value) = landed.value.as_ref().filter(|it| is_fresh(it)) {
            return Ok(value.clone());
        }
        if let Some((_, fault)) = landed.failed.as_ref().filter(|(when, _)| came < *when) {
            return Err(fault.clone());
        }
        landed.value = None;
        let made = make.await;
        match &made {
            Ok(value) => landed.value = Some(value.clone()),
            Err(fault) => landed.failed = Some((Instant::now(), fault.clone())),
        }
        made
    }

    /// Forgets the value if it is the one meant.
    pub(super) async fn drop_if(&self, is_meant: impl Fn(&T) -> bool) {
        let mut landed = self.landed.lock().await;
        if landed.value.as_ref().is_some_and(is_meant) {
            landed.value = None;
        }
    }

    /// Takes the value out.
    pub(super) async fn take(&self) -> Option<T> {
        self.landed.lock().await.value.take()
    }
}
