//! Entries for rows that existed before there were administrative logs.

use std::collections::BTreeMap;

use sea_orm::{
    ColumnTrait as _, ConnectionTrait, EntityTrait as _, QueryFilter as _, QueryOrder as _, QuerySelect as _,
    QueryTrait as _,
};
use uuid::Uuid;

use super::{
    append::{Entry, insert},
    entry::{By, admin_log},
    event::AdminEvent,
};
use crate::{
    Error, Key,
    forgotten_models::table as models,
    keys::table as keys,
    log::tables::{holds, threads},
    pauses::{concerned, table as pauses},
    pins::table as pins,
    schedules::table as schedules,
    webhooks::table::webhooks,
};

/// Author of a row that does not name one.
const UNKNOWN: &str = "unknown";

/// Name of the migration that makes the table.
pub(crate) const MIGRATION: &str = "m20261129_000034_admin_log";

/// Name of the migration after which the logs have schedules and webhooks.
pub(crate) const SCHEDULES: &str = "m20261129_000035_admin_log_of_schedules";

/// Maximum number of schedules that are in memory at once with what they submit.
const PAGE: u64 = 200;

/// An entry to write: its tenant, its author, and the decision.
type Adopted = (Option<String>, By, AdminEvent);

/// Writes an entry for each row that administrative logs demand, in the transaction of the migrations that were applied.
pub(crate) async fn adopt(db: &impl ConnectionTrait, applied: &[String]) -> Result<(), Error> {
    let is_applied = |name: &str| applied.iter().any(|applied| applied == name);
    if is_applied(MIGRATION) {
        write(db, of_first_tables(db).await?).await?;
    }
    if is_applied(SCHEDULES) {
        write(db, of_schedules_and_webhooks(db).await?).await?;
    }
    Ok(())
}

async fn of_schedules_and_webhooks(db: &impl ConnectionTrait) -> Result<Vec<Adopted>, Error> {
    let mut entries = Vec::new();
    let mut after: Option<Uuid> = None;
    loop {
        let page = schedules::Entity::find()
            .apply_if(after, |rows, after| rows.filter(schedules::Column::Id.gt(after)))
            .order_by_asc(schedules::Column::Id)
            .limit(PAGE);
        let page = page.all(db).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        entries.extend(page.into_iter().flat_map(of_schedule));
    }
    for row in webhooks::Entity::find().all(db).await? {
        let by = By::from(UNKNOWN);
        entries.push((row.tenant.clone(), by, AdminEvent::WebhookCreated { webhook: row.details() }));
        if let Some(at) = row.disabled_at {
            let by = By::turnfold(row.disabled_reason);
            entries.push((row.tenant, by, AdminEvent::WebhookDisabled { webhook: row.id, at }));
        }
    }
    Ok(entries)
}

fn of_schedule(row: schedules::Model) -> impl Iterator<Item = Adopted> {
    let (schedule, by) = (row.id, By::from(&row.author));
    let created =
        (Some(row.tenant.clone()), by.clone(), AdminEvent::ScheduleCreated { schedule: row.details() });
    let stopped = row.stopped_at.map(|at| match row.stopped_reason {
        None => (by, AdminEvent::SchedulePaused { schedule, at }),
        reason @ Some(_) => (By::turnfold(reason), AdminEvent::ScheduleStopped { schedule, at }),
    });
    let stopped = stopped.map(|(by, event)| (Some(row.tenant), by, event));
    std::iter::once(created).chain(stopped)
}

async fn of_first_tables(db: &impl ConnectionTrait) -> Result<Vec<Adopted>, Error> {
    let mut entries = Vec::new();
    for row in keys::Entity::find().all(db).await? {
        let (revoked_at, key) = (row.revoked_at, Key::from(row));
        let by = By::from(&key.created_by);
        entries.push((key.tenant.clone(), by.clone(), AdminEvent::KeyCreated { key: key.details() }));
        if let Some(at) = revoked_at {
            entries.push((key.tenant, by, AdminEvent::KeyRevoked { key: key.id, at }));
        }
    }
    for holds::Model { thread_id: thread, reason, placed_by, placed_at: at } in
        holds::Entity::find().all(db).await?
    {
        let row = threads::Entity::find_by_id(thread).one(db).await?;
        let by = By { reason: Some(reason), ..By::from(&placed_by) };
        entries.push((row.map(|row| row.tenant), by, AdminEvent::HoldPlaced { thread, at }));
    }
    for pins::Model { server, hash, approved_by, updated_at: at, .. } in pins::Entity::find().all(db).await? {
        entries.push((None, By::from(&approved_by), AdminEvent::ToolsApproved { server, hash, at }));
    }
    for pauses::Model { kind, name, reason, by, at } in pauses::Entity::find().all(db).await? {
        // A newer version may have stored a kind that this one does not know.
        let Ok(of) = kind.parse() else { continue };
        let by = By { reason: Some(reason), ..By::from(&by) };
        entries.push((concerned(of, &name), by, AdminEvent::Paused { of, name, at }));
    }
    for models::Model { model, by, at } in models::Entity::find().all(db).await? {
        entries.push((None, By::from(&by), AdminEvent::ModelForgotten { model, at }));
    }
    Ok(entries)
}

async fn write(db: &impl ConnectionTrait, entries: Vec<Adopted>) -> Result<(), Error> {
    let mut logs: BTreeMap<_, Vec<Entry>> = BTreeMap::new();
    for (tenant, by, event) in entries {
        let log = logs.entry(admin_log(tenant.as_deref())).or_default();
        log.push(Entry::new(tenant.as_deref(), by, event).adopted());
    }
    for (log, entries) in logs {
        insert(db, log, entries).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sea_orm::ConnectionTrait as _;
    use shared::PauseKind;

    use super::*;
    use crate::{AdminFilter, ForgottenModel, Pause, Pin, Store};

    fn key(id: &str) -> Key {
        Key {
            id: id.to_owned(),
            hash: vec![7],
            tenant: Some("acme".to_owned()),
            name: String::new(),
            scopes: vec!["read".to_owned()],
            created_by: "ada".to_owned(),
            created_at: 1,
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
            multitask_strategy: None,
        }
    }

    #[tokio::test]
    async fn rows_of_an_older_version_become_entries() {
        let store = Store::connect("sqlite::memory:").await.unwrap();
        store.migrate().await.unwrap();
        store.add_key(&key("tf_1"), "ada").await.unwrap();
        store.add_key(&key("tf_2"), "ada").await.unwrap();
        store.revoke_key("tf_2", "ada").await.unwrap();
        store.approve(Pin::new("desk", "[]", "ada"), "ada").await.unwrap();
        store.pause(&Pause::new(PauseKind::Model, "openai/gpt-4o", "dear", "ada"), None).await.unwrap();
        store.forget_model(&ForgottenModel::new("openai/gpt-4o", "ada"), None).await.unwrap();
        for sql in [
            "INSERT INTO holds VALUES (X'01900000000070008000000000000001', 'a lawsuit', 'ada', 5)"
                .to_owned(),
            "DROP VIEW audit_events".to_owned(),
            "DROP VIEW audit_approvals".to_owned(),
            "DROP TABLE admin_events".to_owned(),
            "INSERT INTO schedules SELECT X'01900000000070008000000000000002', 'acme', 0, 'tf_1', 'ada', '', '@daily', 'UTC', \
             'skip', 'turn', '{}', 5, 9, NULL, 7, 'its key was revoked', NULL, NULL, NULL"
                .to_owned(),
            "INSERT INTO webhooks (id, url, types, secret, created_at, disabled_at, disabled_reason) \
             VALUES (X'01900000000070008000000000000003', 'https://example.com/x', '[]', 'whsec_x', 5, 6, '410 Gone')"
                .to_owned(),
            format!("DELETE FROM seaql_migrations WHERE version IN ('{MIGRATION}', '{SCHEDULES}')"),
        ] {
            store.database.writer.execute_unprepared(&sql).await.unwrap();
        }
        assert_eq!(store.migrate().await.unwrap(), [MIGRATION, SCHEDULES]);
        let verified = store.verify_admin_logs(&()).await.unwrap();
        assert!(verified.findings.is_empty() && verified.rows.is_empty(), "{verified:#?}");
        let entries = store.admin_entries(&AdminFilter::default(), 99).await.unwrap();
        assert!(entries.len() == 11 && entries.iter().all(|entry| entry.is_adopted), "{entries:#?}");
    }
}
