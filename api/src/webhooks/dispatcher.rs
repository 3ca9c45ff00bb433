//! Delivers events to webhooks: one task in every API process. A lease ensures that one process at a time sends a
//! delivery.

use std::{collections::HashMap, sync::Arc, time::Duration};

use queue::clock;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use secrecy::ExposeSecret as _;
use store::webhooks::{Delivery, DeliveryLimits, Endpoint, Outcome, Webhook};
use tokio::{
    task::{self, JoinError, JoinSet},
    time::sleep,
};
use tracing::{info, warn};
use uuid::Uuid;

use super::ssrf_guard::{Clients, TargetPolicy};
use crate::server::{problem::ApiError, state::AppState};

/// Limits of concurrent deliveries. A slow receiver delays few others.
const AT_ONCE: DeliveryLimits = DeliveryLimits { all: 64, tenant: 16, webhook: 4 };

/// Maximum `Retry-After` that is honoured, in seconds.
const RETRY_AFTER_MAX: u64 = 24 * 60 * 60;

/// Number of checks for due deliveries between two removals of old ones.
const CHECKS_PER_SWEEP: u32 = 600;

/// Sends due deliveries.
pub(crate) struct WebhookDispatcher {
    app: Arc<AppState>,
    clients: Arc<Clients>,
    in_progress: InProgress,
}

/// Deliveries in progress. A delivery that panics is removed, so it does not block the next one to its webhook.
#[derive(Default)]
struct InProgress {
    tasks: JoinSet<()>,
    to: HashMap<task::Id, Endpoint>,
}

impl InProgress {
    fn begin(&mut self, to: Endpoint, delivery: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(delivery);
        self.to.insert(task.id(), to);
    }

    /// Waits until the next delivery ends. Returns none if none is in progress.
    async fn next_ended(&mut self) -> Option<()> {
        let over = self.tasks.join_next_with_id().await?;
        self.remove(over);
        Some(())
    }

    /// Removes all deliveries that have ended.
    fn remove_ended(&mut self) {
        while let Some(over) = self.tasks.try_join_next_with_id() {
            self.remove(over);
        }
    }

    fn remove(&mut self, over: Result<(task::Id, ()), JoinError>) {
        let task = over.map_or_else(
            |error| {
                warn!(%error, "webhook delivery panicked");
                error.id()
            },
            |(task, ())| task,
        );
        self.to.remove(&task);
    }

    /// Returns the receivers of the deliveries in progress.
    fn busy(&self) -> Vec<Endpoint> {
        self.to.values().cloned().collect()
    }
}

impl WebhookDispatcher {
    /// Creates a dispatcher. Returns none and logs the cause if the HTTP clients cannot be created.
    pub(crate) fn new(app: Arc<AppState>) -> Option<Self> {
        match Clients::new(app.webhooks.timeout) {
            Ok(clients) => {
                let clients = Arc::new(clients);
                Some(Self { app, clients, in_progress: InProgress::default() })
            }
            Err(error) => {
                warn!(%error, "cannot create HTTP clients; this process delivers no webhooks");
                None
            }
        }
    }

    /// Sends due deliveries until shutdown. A delivery in progress at shutdown is sent again when its lease has
    /// expired.
    pub(crate) async fn run(mut self) {
        let (stop, look) = (self.app.stop.clone(), self.app.webhooks.look);
        let mut checks = 0_u32;
        loop {
            if let Err(error) = self.send_due().await {
                warn!(error = error.detail(), "cannot read due webhook deliveries; retrying");
            }
            if checks.is_multiple_of(CHECKS_PER_SWEEP)
                && let Err(error) = self.app.parts.store.sweep_deliveries().await
            {
                warn!(%error, "cannot remove old webhook deliveries");
            }
            checks = checks.wrapping_add(1);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(()) = self.in_progress.next_ended() => {}
                () = self.app.deliveries_changed.notified() => {}
                () = sleep(look) => {}
            }
        }
    }

    async fn send_due(&mut self) -> Result<(), ApiError> {
        self.in_progress.remove_ended();
        let busy = self.in_progress.busy();
        if AT_ONCE.all <= busy.len() {
            return Ok(());
        }
        // Longer than the response timeout.
        let lease = clock::duration_micros(self.app.webhooks.timeout.saturating_mul(3) / 2);
        for (to, delivery) in self.app.parts.store.claim_deliveries(AT_ONCE, &busy, lease).await? {
            let (app, clients) = (Arc::clone(&self.app), Arc::clone(&self.clients));
            self.in_progress.begin(to, async move {
                if let Err(error) = deliver(&app, &clients, &delivery).await {
                    // The lease expires and the delivery is sent again.
                    warn!(
                        delivery = delivery.name(),
                        error = error.detail(),
                        "cannot record the outcome of a webhook delivery"
                    );
                }
            });
        }
        Ok(())
    }
}

async fn deliver(app: &AppState, clients: &Clients, delivery: &Delivery) -> Result<(), ApiError> {
    let store = &app.parts.store;
    // The deliveries of a removed webhook are removed with it.
    let Some(webhook) = store.webhook(delivery.webhook).await? else { return Ok(()) };
    let sent = match &webhook.disabled {
        Some((_, why)) => Err(FailedAttempt::new(format!("the webhook is disabled: {why}"))),
        None => send(app, clients, &webhook, delivery).await,
    };
    let outcome = match sent {
        Ok(status) if (200..300).contains(&status) => Outcome::Arrived { status },
        Ok(410) => Outcome::Gone { status: 410 },
        Ok(status) => missed(app, &webhook, delivery, FailedAttempt::with_status(status)),
        Err(failed) => missed(app, &webhook, delivery, failed),
    };
    info!(delivery = delivery.name(), webhook = %webhook.id, attempt = delivery.attempts, ?outcome, "webhook delivery attempted");
    Ok(store.settle_delivery(delivery, outcome).await?)
}

/// Cause of a failed attempt.
struct FailedAttempt {
    status: Option<u16>,
    message: String,
    /// Delay requested by the receiver, in seconds.
    retry_after: Option<u64>,
}

impl FailedAttempt {
    fn new(message: String) -> Self {
        Self { status: None, message, retry_after: None }
    }

    fn with_status(status: u16) -> Self {
        let why = if (300..400).contains(&status) { ", and redirects are not followed" } else { "" };
        Self { status: Some(status), message: format!("the response was {status}{why}"), retry_after: None }
    }
}

async fn send(
    app: &AppState,
    clients: &Clients,
    webhook: &Webhook,
    delivery: &Delivery,
) -> Result<u16, FailedAttempt> {
    let policy = TargetPolicy::for_tenant(app, webhook.tenant.as_deref());
    if let Some(why) = policy.violation(&webhook.url) {
        return Err(FailedAttempt::new(format!("not sent: {why}")));
    }
    let (name, now) = (delivery.name(), clock::now().div_euclid(1_000_000));
    let signature = standardwebhooks::Webhook::new(webhook.secret.expose_secret())
        .and_then(|signer| signer.sign(&name, now, delivery.payload.as_bytes()))
        .map_err(|error| FailedAttempt::new(format!("cannot sign the request: {error}")))?;
    let request = clients
        .of(policy)
        .post(&webhook.url)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", name)
        .header("webhook-timestamp", now)
        .header("webhook-signature", signature)
        .body(delivery.payload.clone());
    let response = request.send().await.map_err(|error| FailedAttempt::new(chain(&error.without_url())))?;
    let status = response.status().as_u16();
    let retry_after =
        response.headers().get(RETRY_AFTER).and_then(|header| header.to_str().ok()?.trim().parse().ok());
    match retry_after {
        Some(delay) if matches!(status, 429 | 503) => {
            Err(FailedAttempt { retry_after: Some(delay), ..FailedAttempt::with_status(status) })
        }
        Some(_) | None => Ok(status),
    }
}

/// Returns the message of an error followed by those of its sources.
fn chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        message = format!("{message}: {error}");
        source = error.source();
    }
    message
}

fn missed(app: &AppState, webhook: &Webhook, delivery: &Delivery, failed: FailedAttempt) -> Outcome {
    let after = usize::try_from(delivery.attempts).ok().and_then(|count| count.checked_sub(1));
    let pause = after.and_then(|nth| app.webhooks.retries.get(nth)).filter(|_| webhook.disabled.is_none());
    let again = pause.map(|pause| {
        let requested = Duration::from_secs(failed.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX));
        clock::now().saturating_add(clock::duration_micros(jittered(*pause).max(requested)))
    });
    Outcome::Missed { status: failed.status, error: failed.message, again }
}

/// Adds up to 20 % to a delay, so that deliveries that failed at the same time are not all retried at the same time.
fn jittered(pause: Duration) -> Duration {
    // The last bytes of a UUID v7 are random.
    let random = u32::from(Uuid::now_v7().as_bytes()[15]);
    pause + pause * random / (5 * 255)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use store::webhooks::WebhookId;

    use super::*;

    #[tokio::test]
    async fn a_delivery_that_panics_makes_room_for_the_next() {
        let [one, other] =
            ["one", "other"].map(|it| Endpoint { webhook: WebhookId::now_v7(), tenant: Some(it.to_owned()) });
        let mut in_progress = InProgress::default();
        in_progress.begin(one.clone(), async { panic!("the delivery panics") });
        in_progress.begin(one.clone(), pending());
        in_progress.begin(other, ready(()));
        assert_eq!(in_progress.busy().len(), 3);
        in_progress.next_ended().await.unwrap();
        in_progress.next_ended().await.unwrap();
        assert_eq!(in_progress.busy(), [one]);
        in_progress.remove_ended();
        assert_eq!(in_progress.busy().len(), 1, "one is still in progress");
    }
}
