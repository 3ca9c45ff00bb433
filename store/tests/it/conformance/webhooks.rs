//! Webhooks and their deliveries on every engine.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::join_all;
use serde_json::json;
use tokio::sync::Barrier;

use store::{
    Error, Store,
    testing::announce,
    webhooks::{AttemptOutcome, Delivery, DeliveryLimits, Endpoint, EventType, MOST_WEBHOOKS, Webhook},
};

const LEASE: i64 = 60_000_000;

const AT_ONCE: DeliveryLimits = DeliveryLimits { all: 12, tenant: 6, webhook: 2 };

fn webhook(tenant: Option<&str>) -> Webhook {
    Webhook::new(tenant, "https://example.org", vec![EventType::BatchFailed], "whsec_none".into())
}

/// Writes this many events for all webhooks of the tenant.
async fn announced(store: &Store, tenant: &'static str, times: usize) -> Result<(), Error> {
    for _ in 0..times {
        let data = json!({"tenant": tenant});
        announce(store, tenant, EventType::BatchFailed, data).await?;
    }
    Ok(())
}

/// Counts the endpoints by tenant.
fn of_each<'a>(taken: impl IntoIterator<Item = &'a Endpoint>) -> BTreeMap<&'a str, usize> {
    taken.into_iter().fold(BTreeMap::new(), |mut counts, it| {
        *counts.entry(it.tenant.as_deref().unwrap_or("operators")).or_default() += 1;
        counts
    })
}

/// A long backlog or slow deliveries of one tenant do not delay those of the others.
pub(super) async fn are_told_in_turn(store: &Store) -> Result<(), Error> {
    let mut slow = Vec::new();
    for _ in 0..20 {
        let it = webhook(Some("slow"));
        assert!(store.add_webhook(&it, "ada").await?);
        slow.push(it.id);
    }
    for tenant in ["b", "c", "d"] {
        assert!(store.add_webhook(&webhook(Some(tenant)), "ada").await?);
    }
    announced(store, "slow", 15).await?;
    announced(store, "b", 5).await?;
    announced(store, "c", 1).await?;

    let first = store.claim_deliveries(AT_ONCE, &[], LEASE).await?;
    let mut busy: Vec<Endpoint> = first.iter().map(|(to, _)| to.clone()).collect();
    assert_eq!(of_each(&busy), [("b", 2), ("c", 1), ("slow", 6)].into(), "none takes the places of others");
    assert!(first.iter().all(|(to, delivery)| (to.webhook, delivery.attempts) == (delivery.webhook, 1)));
    let told = busy.iter().filter(|delivery| slow.contains(&delivery.webhook));
    assert_eq!(
        told.map(|delivery| delivery.webhook).collect::<BTreeSet<_>>().len(),
        6,
        "its webhooks are served alike"
    );
    assert_eq!(store.claim_deliveries(AT_ONCE, &busy, LEASE).await?, [], "who has places to take has none");

    // Three slots are left for new tenants, and the next free slot goes to the tenant with the fewest running
    // deliveries. Operator webhooks take part.
    assert!(store.add_webhook(&webhook(None), "ada").await?);
    announced(store, "d", 3).await?;
    let next = store.claim_deliveries(AT_ONCE, &busy, LEASE).await?;
    busy.extend(next.iter().map(|(to, _)| to.clone()));
    let counts = of_each(&busy);
    assert!(counts["d"] + counts["operators"] == 3 && counts["slow"] == 6, "{counts:?}");
    let of_slow = busy.iter().position(|delivery| delivery.tenant.as_deref() == Some("slow"));
    let over = busy.remove(of_slow.expect("they never answer"));
    let next = store.claim_deliveries(AT_ONCE, &busy, LEASE).await?;
    busy.extend(next.iter().map(|(to, _)| to.clone()));
    let counts = of_each(&busy);
    assert_eq!(
        (counts["d"], counts["operators"], counts["slow"]),
        (2, 2, 5),
        "slow had five, and one had one"
    );
    assert_eq!(busy.len(), AT_ONCE.all);
    assert_eq!(store.claim_deliveries(AT_ONCE, &busy, LEASE).await?, []);

    // Among the webhooks of one tenant, the one with the fewest running deliveries is next as well.
    let alone = DeliveryLimits { all: 3, tenant: 3, webhook: 2 };
    let busy = [over.clone(), over.clone()];
    let next = store.claim_deliveries(alone, &busy, LEASE).await?;
    assert!(next.iter().all(|(to, _)| to.webhook != over.webhook), "{next:?}");
    settle(store, first.into_iter().chain(next).map(|(_, delivery)| delivery)).await
}

async fn settle(store: &Store, all: impl Iterator<Item = Delivery>) -> Result<(), Error> {
    for it in all {
        store.settle_delivery(&it, AttemptOutcome::Arrived { status: 200 }).await?;
    }
    Ok(())
}

/// Concurrent inserts do not exceed the limit, even if no webhook existed before.
pub(super) async fn are_never_too_many(store: &Store) -> Result<(), Error> {
    for tenant in [Some("many"), None] {
        let before =
            store.webhooks(None).await?.iter().filter(|webhook| webhook.tenant.as_deref() == tenant).count();
        let together = Arc::new(Barrier::new(2 * MOST_WEBHOOKS));
        let added = (0..2 * MOST_WEBHOOKS).map(|_| {
            let (store, together) = (store.clone(), Arc::clone(&together));
            tokio::spawn(async move {
                together.wait().await;
                store.add_webhook(&webhook(tenant), "ada").await
            })
        });
        let mut kept = 0;
        for it in join_all(added).await {
            kept += usize::from(it.expect("it comes to an end")?);
        }
        let after =
            store.webhooks(None).await?.iter().filter(|webhook| webhook.tenant.as_deref() == tenant).count();
        assert_eq!((before + kept, after), (MOST_WEBHOOKS, MOST_WEBHOOKS), "{tenant:?}");
    }
    Ok(())
}

on_databases! {
    are_told_in_turn,
    are_never_too_many,
}
