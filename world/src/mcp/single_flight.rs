//! Single flight: concurrent callers share one expensive creation.

use shared::Fault;
use tokio::{sync::Mutex, time::Instant};

/// A value created on first use, and again when it is no longer fresh.
pub(super) struct SingleFlight<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    value: Option<T>,
    failed: Option<(Instant, Fault)>,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State { value: None, failed: None }) }
    }
}

impl<T: Clone> SingleFlight<T> {
    /// Returns the value if it is fresh, otherwise creates it with `create`.
    ///
    /// Callers that waited for a creation share its result, success or failure: a server that is down is not tried
    /// again for each of a thousand threads in turn.
    pub(super) async fn get(
        &self,
        is_fresh: impl Fn(&T) -> bool,
        create: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let arrived = Instant::now();
        let mut state = self.state.lock().await;
        if let Some(value) = state.value.as_ref().filter(|value| is_fresh(value)) {
            return Ok(value.clone());
        }
        if let Some((_, fault)) = state.failed.as_ref().filter(|(when, _)| arrived < *when) {
            return Err(fault.clone());
        }
        state.value = None;
        let created = create.await;
        match &created {
            Ok(value) => (state.value, state.failed) = (Some(value.clone()), None),
            Err(fault) => state.failed = Some((Instant::now(), fault.clone())),
        }
        created
    }

    /// Returns the value, or the fault of the last creation. `None` if there is neither, or while another caller uses it.
    pub(super) fn peek(&self) -> Option<Result<T, Fault>> {
        let state = self.state.try_lock().ok()?;
        let failed = || state.failed.as_ref().map(|(_, fault)| Err(fault.clone()));
        state.value.clone().map(Ok).or_else(failed)
    }

    /// Drops the value if it matches.
    pub(super) async fn drop_if(&self, matches: impl Fn(&T) -> bool) {
        let mut state = self.state.lock().await;
        if state.value.as_ref().is_some_and(matches) {
            state.value = None;
        }
    }

    /// Takes the value if it matches, and ends it. Callers wait until it has ended.
    pub(super) async fn end_if<F: Future<Output = ()>>(
        &self,
        matches: impl Fn(&T) -> bool,
        end: impl FnOnce(T) -> F,
    ) {
        let mut state = self.state.lock().await;
        if let Some(value) = state.value.take_if(|value| matches(value)) {
            end(value).await;
        }
    }

    /// Takes the value.
    pub(super) async fn take(&self) -> Option<T> {
        self.state.lock().await.value.take()
    }
}
