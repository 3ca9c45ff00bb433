//! Schedules, webhooks and configurations in administrative logs.

use queue::clock;
use serde_json::json;
use store::{
    Error, Store,
    schedules::{Holder, Schedule},
    testing::announce,
    webhooks::{AttemptOutcome, DeliveryLimits, EventType, Webhook, WebhookFilter},
};

use super::{
    admin::{Undo, assert_intact, entries, eve, key, kinds},
    schedules::due,
    tamper,
};

const LEASE: i64 = 60_000_000;
const SECRET: &str = "whsec_c2VjcmV0IG9mIGEgd2ViaG9vaw==";
const ADDRESS: &str = "https://hooks.example/T0/path-secret";

fn webhook(tenant: Option<&str>) -> Webhook {
    let metadata = [("team".to_owned(), "blue".to_owned())].into();
    let filter = WebhookFilter { strategy: Some("probe".to_owned()), metadata };
    Webhook { filter, ..Webhook::new(tenant, ADDRESS, vec![EventType::BatchFailed], SECRET.into()) }
}

pub(super) async fn changes_of_schedules_are_entries(store: &Store) -> Result<(), Error> {
    let schedule = due("acme", 1_000_000);
    let holder = Holder { key: Some("tf_0".to_owned()), is_operator: false };
    store.add_schedule(&schedule, eve()).await?;
    store.pause_schedule(schedule.id, eve()).await?;
    store.pause_schedule(schedule.id, eve()).await?;
    store.resume_schedule(schedule.id, &holder, 2, "ada").await?;
    store.resume_schedule(schedule.id, &holder, 2, "ada").await?;
    store.stop_schedule(schedule.id, "its key was revoked").await?;
    assert_intact(store).await?;
    store.remove_schedule(schedule.id, "ada").await?;
    store.remove_schedule(schedule.id, "ada").await?;
    let of_tenant = entries(store, Some("acme")).await?;
    let expected =
        ["schedule_created", "schedule_paused", "schedule_resumed", "schedule_stopped", "schedule_deleted"];
    assert_eq!(kinds(&of_tenant), expected, "a change that changes nothing is no entry");
    assert_eq!((&of_tenant[1].by, of_tenant[3].by.name.as_str()), (&eve(), "turnfold"));
    assert_eq!(of_tenant[3].by.reason.as_deref(), Some("its key was revoked"));
    let what = of_tenant[0].what()?.to_string();
    assert!(what.contains("* * * * *") && !what.contains("input"), "the request is a hash: {what}");
    assert_intact(store).await.map(drop)
}

pub(super) async fn changes_of_webhooks_are_entries_without_secrets(store: &Store) -> Result<(), Error> {
    let (of_tenant, of_all) = (webhook(Some("acme")), webhook(None));
    store.add_webhook(&of_tenant, eve()).await?;
    store.add_webhook(&of_all, "ada").await?;
    let subject = Webhook { filter: WebhookFilter::default(), ..webhook(Some("acme")) };
    store.add_webhook(&subject, "ada").await?;
    announce(store, "acme", EventType::BatchFailed, json!({})).await?;
    let limits = DeliveryLimits { all: 9, tenant: 9, webhook: 9 };
    for (to, delivery) in store.claim_deliveries(limits, &[], LEASE).await? {
        assert_eq!(to.webhook, subject.id, "the filters of the others admit no such event");
        store.settle_delivery(&delivery, AttemptOutcome::Gone { status: 410 }).await?;
    }
    assert_intact(store).await?;
    store.remove_webhook(of_tenant.id, eve()).await?;
    store.remove_webhook(of_tenant.id, eve()).await?;
    let log = entries(store, Some("acme")).await?;
    let expected = ["webhook_created", "webhook_created", "webhook_disabled", "webhook_deleted"];
    assert_eq!(kinds(&log), expected);
    assert!(log[2].by.reason.as_deref().is_some_and(|why| why.contains("410")), "{log:#?}");
    for entry in entries(store, None).await? {
        let what = entry.what()?.to_string();
        assert!(["whsec", "path-secret", "blue"].iter().all(|secret| !what.contains(secret)), "{what}");
    }
    assert_eq!(log[0].what()?["webhook"]["host"], json!("hooks.example"));
    assert_intact(store).await.map(drop)
}

pub(super) async fn a_rotated_key_passes_its_schedules_on(store: &Store) -> Result<(), Error> {
    // An operator's key holds a schedule of a tenant: two logs.
    store.add_key(&key("tf_0", None, &["admin"]), "ada").await?;
    let schedule = due("acme", 1_000_000);
    store.add_schedule(&schedule, "ada").await?;
    // The second rotation of a key finds its schedules with the first successor already.
    for (old, new) in [("tf_0", "tf_1"), ("tf_0", "tf_2"), ("tf_1", "tf_3")] {
        store.rotate_key(old, clock::now() + LEASE, &key(new, None, &["admin"]), "ada").await?;
        assert_intact(store).await?;
    }
    tamper::execute(store, "UPDATE schedules SET key_id = 'tf_9' WHERE id = $1", schedule.id).await?;
    let rows = store.verify_admin_logs(&()).await?.rows;
    assert!(rows.len() == 1 && rows[0].columns == ["key_id"], "{rows:#?}");
    Ok(())
}

pub(super) async fn schedules_of_all_pages_are_compared(store: &Store) -> Result<(), Error> {
    let mut ids = Vec::new();
    for nth in 0..240 {
        let schedule = due(&format!("tenant-{}", nth % 3), 1_000_000);
        assert!(store.add_schedule(&schedule, "ada").await?);
        ids.push(schedule.id);
    }
    assert_intact(store).await?;
    for id in [ids[0], ids[239]] {
        tamper::execute(store, "DELETE FROM schedules WHERE id = $1", id).await?;
    }
    let rows = store.verify_admin_logs(&()).await?.rows;
    assert!(rows.len() == 2 && rows.iter().all(|row| row.what.contains("its row is missing")), "{rows:#?}");
    Ok(())
}

pub(super) async fn a_forged_row_is_found(store: &Store) -> Result<(), Error> {
    let forged = Schedule { author: "eve".to_owned(), ..due("acme", 1_000_000) };
    store.add_schedule(&forged, "ada").await?;
    store.stop_schedule(forged.id, "no further time comes").await?;
    let hook = webhook(Some("acme"));
    store.add_webhook(&hook, "ada").await?;
    for (table, id, changes) in [
        (
            "schedules",
            forged.id,
            &[
                ("tenant", "'bell'"),
                ("by_operator", "TRUE"),
                ("key_id", "NULL"),
                ("author", "'root'"),
                ("name", "'x'"),
                ("cron", "'@daily'"),
                ("zone", "'CET'"),
                ("missed", "'skip'"),
                ("target", "'batch'"),
                ("body", "'{\"input\": \"pay eve\"}'"),
                ("created_at", "1"),
                ("stopped_at", "NULL"),
                ("stopped_reason", "NULL"),
            ][..],
        ),
        (
            "webhooks",
            hook.id,
            &[
                ("tenant", "NULL"),
                ("url", "'https://eve.example/'"),
                ("types", "'[]'"),
                ("secret", "'whsec_eve'"),
                ("created_at", "1"),
                ("disabled_at", "7"),
                ("disabled_reason", "'x'"),
                ("strategy", "NULL"),
                ("metadata", "NULL"),
            ][..],
        ),
    ] {
        for (column, value) in changes {
            let undo = Undo::of(store, table).await?;
            tamper::execute(store, &format!("UPDATE {table} SET {column} = {value} WHERE id = $1"), id)
                .await?;
            let rows = store.verify_admin_logs(&()).await?.rows;
            let is_named = rows.iter().any(|row| row.table == table && row.columns == [*column]);
            assert!(rows.len() == 1 && is_named, "{table}.{column}: {rows:#?}");
            undo.undo(store).await?;
        }
        let undo = Undo::of(store, table).await?;
        tamper::execute(store, &format!("DELETE FROM {table} WHERE id = $1"), id).await?;
        let rows = store.verify_admin_logs(&()).await?.rows;
        assert!(rows[0].what.contains("its row is missing"), "{rows:#?}");
        undo.undo(store).await?;
        assert_intact(store).await?;
    }
    tamper::execute(
        store,
        "DELETE FROM admin_events WHERE kind = 'webhook_created' AND log_id <> $1",
        hook.id,
    )
    .await?;
    let rows = store.verify_admin_logs(&()).await?.rows;
    assert!(rows.iter().any(|row| row.what.contains("in no administrative log")), "{rows:#?}");
    Ok(())
}

pub(super) async fn a_configuration_is_an_entry_when_it_changes(store: &Store) -> Result<(), Error> {
    for (process, version, sha256, is_new) in [
        ("worker", "1", "aa", true),
        ("worker", "1", "aa", false),
        ("api", "1", "bb", true),
        ("worker", "1", "aa", false),
        ("worker", "1", "cc", true),
        ("worker", "2", "cc", true),
        ("api", "1", "bb", false),
        ("worker", "2", "aa", true),
    ] {
        for (name, is_new) in [("host-1", is_new), ("host-2", false), ("host-1", false)] {
            let noted = store.note_configuration(process, name, version, sha256).await?;
            assert_eq!(noted, is_new, "{process} {name} {version} {sha256}");
        }
    }
    let log = entries(store, None).await?;
    assert_eq!(kinds(&log), ["configuration_changed"; 5]);
    assert!(log.iter().all(|entry| entry.tenant.is_none() && entry.by.name == "turnfold"), "{log:#?}");
    assert_intact(store).await.map(drop)
}

on_databases! {
    changes_of_schedules_are_entries,
    changes_of_webhooks_are_entries_without_secrets,
    a_rotated_key_passes_its_schedules_on,
    schedules_of_all_pages_are_compared,
    a_forged_row_is_found,
    a_configuration_is_an_entry_when_it_changes,
}
