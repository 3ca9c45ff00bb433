//! What holds a request back: limits that all workers share, what is paused, and the time that it may take.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select};
use shared::{Fault, Meter, Remedy};
use store::limits::{Limits, MemoryLimits, Pace, Permit, Used};
use tokio::runtime::Handle;
use tracing::warn;

use crate::{pauses::Pauses, world::Outcome};

/// What holds a request back.
pub struct Bounds {
    /// What all workers together may take.
    pub(crate) limits: Arc<dyn Limits>,
    /// How long one request may take; as long as it likes, if absent.
    pub(crate) timeout: Option<Duration>,
    /// What is paused.
    pub(crate) pauses: Pauses,
}

impl Bounds {
    /// These limits, and this much time for each request; as much as it likes, if that is absent.
    pub fn new(limits: Arc<dyn Limits>, timeout: Option<Duration>) -> Self {
        Self { limits, timeout, pauses: Pauses::default() }
    }

    /// What a request comes to that may take so long.
    pub(crate) async fn in_time(&self, asking: impl Future<Output = Outcome>) -> Outcome {
        let Some(timeout) = self.timeout else { return asking.await };
        tokio::time::timeout(timeout, asking).await.unwrap_or_else(|_| Err(late(timeout)))
    }
}

/// Limits of this process alone, and no timeout.
impl Default for Bounds {
    fn default() -> Self {
        Self::new(Arc::new(MemoryLimits::new(Pace::holding(Duration::from_secs(30)))), None)
    }
}

/// It was sent, and nobody waits for its answer any more: it may have happened.
fn late(timeout: Duration) -> Fault {
    let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let words = format!("it timed out after {timeout:?} (worker.node_timeout_seconds)");
    Fault { meter: Some(Box::new(Meter { ms, ..Meter::default() })), ..Fault::doubt(words) }
}

/// The place of a request among all that are on their way. It is given back when this is dropped, whatever became of the
/// request.
pub(crate) struct Place {
    limits: Arc<dyn Limits>,
    /// Always there, until `drop` takes it.
    permit: Option<Permit>,
    used: Used,
}

impl Place {
    /// A place of which nothing was used yet.
    pub(crate) fn new(limits: Arc<dyn Limits>, permit: Permit) -> Self {
        Self { limits, permit: Some(permit), used: Used::NOTHING }
    }

    /// Keeps the place while `asking` is on its way, and notes what it took.
    pub(crate) async fn during(mut self, asking: impl Future<Output = Outcome>) -> Outcome {
        // Whoever drops this half way has asked all the same.
        self.used = Used::default();
        let outcome = match select(pin!(asking), pin!(self.renewing())).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right((never, _)) => match never {},
        };
        self.used = used(&outcome);
        outcome
    }

    async fn renewing(&self) -> Infallible {
        loop {
            tokio::time::sleep(self.limits.pace().hold / 3).await;
            if let Some(permit) = &self.permit
                && let Err(error) = self.limits.renew(permit).await
            {
                warn!(%error, "cannot keep the place of a request; trying again");
            }
        }
    }
}

impl Drop for Place {
    /// ## Why nobody waits for it
    ///
    /// An answer that has landed is stored at once, also when the books cannot be reached.
    fn drop(&mut self) {
        let (Some(permit), Ok(runtime)) = (self.permit.take(), Handle::try_current()) else { return };
        let (limits, used) = (Arc::clone(&self.limits), self.used);
        runtime.spawn(async move {
            if let Err(error) = limits.settle(&permit, used).await {
                warn!(%error, "cannot give the place of a request back; it comes back by itself");
            }
        });
    }
}

/// What a request took. One that failed took nothing but what its meter tells; of one that may have happened, and where
/// nobody told, the estimate stands.
fn used(outcome: &Outcome) -> Used {
    let told = |meter: &Meter| {
        let tokens = meter.input_tokens.saturating_add(meter.output_tokens);
        Used { tokens: (0 < tokens).then_some(tokens), micro_usd: meter.micro_usd }
    };
    match outcome {
        Ok((_, meter)) => meter.as_ref().map(told).unwrap_or_default(),
        Err(fault) => match (fault.meter.as_deref().map(told), fault.remedy) {
            (Some(used @ Used { tokens: Some(_), .. }), _) => used,
            (_, Remedy::Doubt { .. }) => Used::default(),
            (_, Remedy::Again { .. } | Remedy::Operator) => Used::NOTHING,
        },
    }
}

#[test]
fn what_failed_took_what_its_meter_tells() {
    let meter = |tokens| Meter {
        input_tokens: tokens,
        output_tokens: tokens,
        micro_usd: Some(7),
        ..Meter::default()
    };
    let told = Used { tokens: Some(10), micro_usd: Some(7) };
    let echo = || shared::Response::Echo { says: String::new() };
    assert_eq!(used(&Ok((echo(), Some(meter(5))))), told);
    assert_eq!(used(&Ok((echo(), None))), Used::default());
    let with = |fault: Fault, tokens| Err(Fault { meter: Some(Box::new(meter(tokens))), ..fault });
    assert_eq!(used(&with(Fault::again("x"), 5)), told);
    assert_eq!(used(&with(Fault::again("x"), 0)), Used::NOTHING);
    assert_eq!(used(&Err(Fault::operator("x"))), Used::NOTHING);
    assert_eq!(used(&with(Fault::doubt("x"), 5)), told);
    assert_eq!(used(&Err(late(Duration::from_secs(1)))), Used::default());
}
