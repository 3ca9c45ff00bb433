//! Who sends what is to be told: one task in every api. A delivery is sent by one of them at a time, under a lease.

use std::{collections::HashMap, sync::Arc, time::Duration};

use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use secrecy::ExposeSecret as _;
use store::{
    time,
    webhooks::{Addressee, AtOnce, Delivery, Outcome, Webhook},
};
use tokio::{
    task::{self, JoinError, JoinSet},
    time::sleep,
};
use tracing::{info, warn};
use uuid::Uuid;

use super::{
    may_be_anywhere,
    reach::{Clients, Reach},
};
use crate::{house::House, problem::Problem};

/// How many deliveries are on their way at once: whoever answers slowly holds up few others.
const AT_ONCE: AtOnce = AtOnce { all: 64, tenant: 16, webhook: 4 };

/// The longest that whoever is told may put the next attempt off, in seconds.
const LONGEST_WISH: u64 = 24 * 60 * 60;

/// How many looks pass between two sweeps of what was delivered long ago.
const LOOKS_A_SWEEP: u32 = 600;

/// Sends what is due.
pub(crate) struct Courier {
    house: Arc<House>,
    clients: Arc<Clients>,
    sent: Sent,
}

/// What is on its way. A delivery that breaks off is no longer: whatever it does, it does not hold up its webhook's next.
#[derive(Default)]
struct Sent {
    tasks: JoinSet<()>,
    to: HashMap<task::Id, Addressee>,
}

impl Sent {
    fn begin(&mut self, to: Addressee, delivery: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(delivery);
        self.to.insert(task.id(), to);
    }

    /// Waits until the next one is over; none is, if there is none.
    async fn next_over(&mut self) -> Option<()> {
        let over = self.tasks.join_next_with_id().await?;
        self.is_over(over);
        Some(())
    }

    /// Takes note of all that are over by now.
    fn look(&mut self) {
        while let Some(over) = self.tasks.try_join_next_with_id() {
            self.is_over(over);
        }
    }

    fn is_over(&mut self, over: Result<(task::Id, ()), JoinError>) {
        let task = over.map_or_else(
            |error| {
                warn!(%error, "a delivery broke off");
                error.id()
            },
            |(task, ())| task,
        );
        self.to.remove(&task);
    }

    /// To whom they are.
    fn busy(&self) -> Vec<Addressee> {
        self.to.values().cloned().collect()
    }
}

impl Courier {
    /// None, if no client can be made: the traces say why.
    pub(crate) fn new(house: Arc<House>) -> Option<Self> {
        match Clients::new(house.webhooks.timeout) {
            Ok(clients) => {
                let clients = Arc::new(clients);
                Some(Self { house, clients, sent: Sent::default() })
            }
            Err(error) => {
                warn!(%error, "no webhook is told of anything by this api");
                None
            }
        }
    }

    /// Sends until the door closes; what is on its way then is sent again by whoever finds its lease run out.
    pub(crate) async fn run(mut self) {
        let (stop, look) = (self.house.stop.clone(), self.house.webhooks.look);
        let mut looks = 0_u32;
        loop {
            if let Err(problem) = self.send_due().await {
                warn!(error = problem.detail(), "cannot look for what webhooks are to be told; trying again");
            }
            if looks.is_multiple_of(LOOKS_A_SWEEP)
                && let Err(error) = self.house.parts.store.sweep_deliveries().await
            {
                warn!(%error, "cannot sweep deliveries");
            }
            looks = looks.wrapping_add(1);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(()) = self.sent.next_over() => {}
                () = self.house.announced.notified() => {}
                () = sleep(look) => {}
            }
        }
    }

    async fn send_due(&mut self) -> Result<(), Problem> {
        self.sent.look();
        let busy = self.sent.busy();
        if AT_ONCE.all <= busy.len() {
            return Ok(());
        }
        // Longer than an answer is waited for.
        let lease = time::span(self.house.webhooks.timeout.saturating_mul(3) / 2);
        for (to, delivery) in self.house.parts.store.take_deliveries(AT_ONCE, &busy, lease).await? {
            let (house, clients) = (Arc::clone(&self.house), Arc::clone(&self.clients));
            self.sent.begin(to, async move {
                if let Err(problem) = deliver(&house, &clients, &delivery).await {
                    // Its lease runs out, and it is sent again.
                    warn!(delivery = delivery.name(), error = problem.detail(), "a delivery was not settled");
                }
            });
        }
        Ok(())
    }
}

async fn deliver(house: &House, clients: &Clients, delivery: &Delivery) -> Result<(), Problem> {
    let store = &house.parts.store;
    // One that was removed took its deliveries along.
    let Some(webhook) = store.webhook(delivery.webhook).await? else { return Ok(()) };
    let sent = match &webhook.disabled {
        Some((_, why)) => Err(Miss::said(format!("the webhook is disabled: {why}"))),
        None => send(house, clients, &webhook, delivery).await,
    };
    let outcome = match sent {
        Ok(status) if (200..300).contains(&status) => Outcome::Arrived { status },
        Ok(410) => Outcome::Gone { status: 410 },
        Ok(status) => missed(house, &webhook, delivery, Miss::answered(status)),
        Err(miss) => missed(house, &webhook, delivery, miss),
    };
    info!(delivery = delivery.name(), webhook = %webhook.id, attempt = delivery.attempts, ?outcome, "told");
    Ok(store.settle_delivery(delivery, outcome).await?)
}

/// Why an attempt did not do.
struct Miss {
    status: Option<u16>,
    words: String,
    /// For how many seconds the other side wants to be left alone.
    wish: Option<u64>,
}

impl Miss {
    fn said(words: String) -> Self {
        Self { status: None, words, wish: None }
    }

    fn answered(status: u16) -> Self {
        let why = if (300..400).contains(&status) { ", and redirections are not followed" } else { "" };
        Self { status: Some(status), words: format!("it answered {status}{why}"), wish: None }
    }
}

async fn send(house: &House, clients: &Clients, webhook: &Webhook, delivery: &Delivery) -> Result<u16, Miss> {
    let reach = Reach::of(may_be_anywhere(house, webhook.tenant.as_deref()));
    if let Some(why) = reach.refuses(&webhook.url) {
        return Err(Miss::said(format!("not sent: {why}")));
    }
    let (name, now) = (delivery.name(), time::now().div_euclid(1_000_000));
    let signature = standardwebhooks::Webhook::new(webhook.secret.expose_secret())
        .and_then(|it| it.sign(&name, now, delivery.payload.as_bytes()))
        .map_err(|error| Miss::said(format!("it cannot be signed: {error}")))?;
    let request = clients
        .of(reach)
        .post(&webhook.url)
        .header(CONTENT_TYPE, "application/json")
        .header("webhook-id", name)
        .header("webhook-timestamp", now)
        .header("webhook-signature", signature)
        .body(delivery.payload.clone());
    let response = request.send().await.map_err(|error| Miss::said(chain(&error.without_url())))?;
    let status = response.status().as_u16();
    let wish = response.headers().get(RETRY_AFTER).and_then(|it| it.to_str().ok()?.trim().parse().ok());
    match wish {
        Some(wish) if matches!(status, 429 | 503) => Err(Miss { wish: Some(wish), ..Miss::answered(status) }),
        Some(_) | None => Ok(status),
    }
}

/// An error with what is behind it, which alone says what was the matter.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut behind = error.source();
    while let Some(error) = behind {
        words = format!("{words}: {error}");
        behind = error.source();
    }
    words
}

fn missed(house: &House, webhook: &Webhook, delivery: &Delivery, miss: Miss) -> Outcome {
    let after = usize::try_from(delivery.attempts).ok().and_then(|it| it.checked_sub(1));
    let pause = after.and_then(|nth| house.webhooks.retries.get(nth)).filter(|_| webhook.disabled.is_none());
    let again = pause.map(|pause| {
        let wish = Duration::from_secs(miss.wish.unwrap_or_default().min(LONGEST_WISH));
        time::now().saturating_add(time::span(jittered(*pause).max(wish)))
    });
    Outcome::Missed { status: miss.status, error: miss.words, again }
}

/// Up to a fifth later, so that those who were told nothing while somebody was away are not told all at once.
fn jittered(pause: Duration) -> Duration {
    // The last bytes of such a name are random.
    let dice = u32::from(Uuid::now_v7().as_bytes()[15]);
    pause + pause * dice / (5 * 255)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use store::webhooks::WebhookId;

    use super::*;

    #[tokio::test]
    async fn a_delivery_that_breaks_off_makes_room_for_the_next() {
        let [one, other] = ["one", "other"]
            .map(|it| Addressee { webhook: WebhookId::now_v7(), tenant: Some(it.to_owned()) });
        let mut sent = Sent::default();
        sent.begin(one.clone(), async { panic!("it broke off") });
        sent.begin(one.clone(), pending());
        sent.begin(other, ready(()));
        assert_eq!(sent.busy().len(), 3);
        sent.next_over().await.unwrap();
        sent.next_over().await.unwrap();
        assert_eq!(sent.busy(), [one]);
        sent.look();
        assert_eq!(sent.busy().len(), 1, "one is still on its way");
    }
}
