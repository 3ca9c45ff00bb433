//! Admission of requests: rate limits shared by all workers, pauses, and the request timeout.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, select};
use queue::rate_limits::{ActualUsage, MemoryRateLimiter, Permit, RateLimiter, Timing};
use shared::{Fault, FaultKind, Usage};
use tokio::runtime::Handle;
use tracing::warn;

use crate::{
    forgotten_models::ForgottenModels,
    learned_limits::LearnedLimits,
    limit_warnings::LimitWarnings,
    pauses::Pauses,
    retry_policy::RetryPolicies,
    running_turns::{MaxRunningTurns, RunningTurns},
};
use world::{Outcome, running_time};

/// Admission control for requests to models and MCP servers.
pub struct RequestAdmission {
    /// Rate limits shared by all workers.
    pub(crate) limits: Arc<dyn RateLimiter>,
    /// Maximum duration of one request; unlimited if absent.
    pub(crate) timeout: Option<Duration>,
    /// The active pauses; paused work does not start.
    pub(crate) pauses: Pauses,
    /// Models about which everything learned is forgotten.
    pub(crate) forgotten_models: ForgottenModels,
    /// Limits of models that threads of this worker learned.
    pub(crate) learned_limits: LearnedLimits,
    /// Retry policies of providers and MCP servers.
    pub(crate) retries: RetryPolicies,
    /// Limits of running turns.
    pub(crate) running: RunningTurns,
    /// Limits that were mentioned in the log messages.
    pub(crate) limit_warnings: LimitWarnings,
}

impl RequestAdmission {
    /// Creates admission control with these limits and a timeout per request; no timeout if absent.
    pub fn new(limits: Arc<dyn RateLimiter>, timeout: Option<Duration>) -> Self {
        let running = RunningTurns::new(Arc::clone(&limits), MaxRunningTurns::default());
        Self {
            limits,
            timeout,
            pauses: Pauses::default(),
            forgotten_models: ForgottenModels::default(),
            learned_limits: LearnedLimits::default(),
            retries: RetryPolicies::default(),
            running,
            limit_warnings: LimitWarnings::default(),
        }
    }

    /// Limits the running turns of tenants.
    #[must_use]
    pub fn with_max_running_turns(self, max: MaxRunningTurns) -> Self {
        let running = RunningTurns::new(Arc::clone(&self.limits), max);
        Self { running, ..self }
    }

    /// Sets retry policies.
    #[must_use]
    pub fn with_retries(self, retries: RetryPolicies) -> Self {
        Self { retries, ..self }
    }

    /// Performs a request within the timeout.
    pub(crate) async fn with_timeout(&self, request: impl Future<Output = Outcome>) -> Outcome {
        let Some(timeout) = self.timeout else { return request.await };
        running_time::timeout(timeout, request).await.unwrap_or_else(|| Err(timed_out(timeout)))
    }
}

/// Limits that only this process knows, and no timeout.
impl Default for RequestAdmission {
    fn default() -> Self {
        Self::new(Arc::new(MemoryRateLimiter::new(Timing::with_permit_ttl(Duration::from_secs(30)))), None)
    }
}

/// The fault of a request that timed out. It was sent, so it may have taken effect.
fn timed_out(timeout: Duration) -> Fault {
    let ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let words = format!("the request timed out after {timeout:?}; hint: raise worker.node_timeout_seconds");
    Fault { usage: Some(Box::new(Usage { duration_ms: ms, ..Usage::default() })), ..Fault::in_doubt(words) }
}

/// Permit of a request in flight, renewed while the request runs and released on drop.
pub(crate) struct PermitGuard {
    limits: Arc<dyn RateLimiter>,
    /// Present until `drop` takes it.
    permit: Option<Permit>,
    used: ActualUsage,
}

impl PermitGuard {
    /// Wraps a granted permit whose request has not been sent.
    pub(crate) fn new(limits: Arc<dyn RateLimiter>, permit: Permit) -> Self {
        Self { limits, permit: Some(permit), used: ActualUsage::NONE }
    }

    /// Renews the permit while `request` runs, then records the actual usage.
    pub(crate) async fn hold_during(mut self, request: impl Future<Output = Outcome>) -> Outcome {
        // A request dropped half-way has still been sent, so its estimated usage is kept.
        self.used = ActualUsage::default();
        let outcome = match select(pin!(request), pin!(self.renew_forever())).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right((never, _)) => match never {},
        };
        self.used = used(&outcome);
        outcome
    }

    async fn renew_forever(&self) -> Infallible {
        loop {
            tokio::time::sleep(self.limits.timing().permit_ttl / 3).await;
            if let Some(permit) = &self.permit
                && let Err(error) = self.limits.renew(permit).await
            {
                warn!(%error, "cannot renew the permit of a request, retrying at the next renewal");
            }
        }
    }
}

impl Drop for PermitGuard {
    /// Releases the permit and reports the used tokens, in a task.
    ///
    /// ## Why in a task
    ///
    /// An answer is stored as soon as it arrives, even if the rate limits cannot be reached.
    fn drop(&mut self) {
        let (Some(permit), Ok(runtime)) = (self.permit.take(), Handle::try_current()) else { return };
        let (limits, used) = (Arc::clone(&self.limits), self.used);
        runtime.spawn(async move {
            if let Err(error) = limits.settle(&permit, used).await {
                warn!(%error, "cannot release the permit of a request; it expires on its own");
            }
        });
    }
}

/// Actual usage of a request. A failed request used only what its response reported. For a request in doubt, and for a
/// response without usage, the estimate is kept.
fn used(outcome: &Outcome) -> ActualUsage {
    let reported = |meter: &Usage| {
        let tokens = meter.input_tokens.saturating_add(meter.output_tokens);
        ActualUsage { tokens: (0 < tokens).then_some(tokens), micro_usd: meter.micro_usd }
    };
    match outcome {
        Ok((_, meter)) => meter.as_ref().map(reported).unwrap_or_default(),
        Err(fault) => match (fault.usage.as_deref().map(reported), fault.kind) {
            (Some(used @ ActualUsage { tokens: Some(_), .. }), _) => used,
            (_, FaultKind::InDoubt { .. } | FaultKind::Unavailable { sent: true, .. }) => {
                ActualUsage::default()
            }
            (
                _,
                FaultKind::Transient { .. }
                | FaultKind::Unavailable { sent: false, .. }
                | FaultKind::Permanent
                | FaultKind::ContextExceeded { .. }
                | FaultKind::Oversized(_),
            ) => ActualUsage::NONE,
        },
    }
}

#[test]
fn a_failed_request_used_what_its_response_reported() {
    let meter = |tokens| Usage {
        input_tokens: tokens,
        output_tokens: tokens,
        micro_usd: Some(7),
        ..Usage::default()
    };
    let reported = ActualUsage { tokens: Some(10), micro_usd: Some(7) };
    let echo = || shared::Response::Echo { text: String::new() };
    assert_eq!(used(&Ok((echo(), Some(meter(5))))), reported);
    assert_eq!(used(&Ok((echo(), None))), ActualUsage::default());
    let with = |fault: Fault, tokens| Err(Fault { usage: Some(Box::new(meter(tokens))), ..fault });
    assert_eq!(used(&with(Fault::transient("x"), 5)), reported);
    assert_eq!(used(&with(Fault::transient("x"), 0)), ActualUsage::NONE);
    assert_eq!(used(&Err(Fault::permanent("x"))), ActualUsage::NONE);
    assert_eq!(used(&with(Fault::in_doubt("x"), 5)), reported);
    assert_eq!(used(&Err(Fault::unavailable("x", None))), ActualUsage::NONE);
    assert_eq!(used(&Err(Fault::unanswered("x"))), ActualUsage::default());
    assert_eq!(used(&Err(timed_out(Duration::from_secs(1)))), ActualUsage::default());
}
