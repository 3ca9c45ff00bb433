//! Entries for rows that existed before there were administrative logs.

use std::collections::BTreeMap;

use sea_orm::{ConnectionTrait, EntityTrait as _};

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
};

/// Name of the migration that makes the table.
pub(crate) const MIGRATION: &str = "m20261129_000034_admin_log";

/// Writes an entry for each row that administrative logs demand, in the transaction of the migration.
pub(crate) async fn adopt(db: &impl ConnectionTrait) -> Result<(), Error> {
    let mut entries: Vec<(Option<String>, By, AdminEvent)> = Vec::new();
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
            format!("DELETE FROM seaql_migrations WHERE version = '{MIGRATION}'"),
        ] {
            store.database.writer.execute_unprepared(&sql).await.unwrap();
        }
        assert_eq!(store.migrate().await.unwrap(), [MIGRATION]);
        let verified = store.verify_admin_logs(&()).await.unwrap();
        assert!(verified.findings.is_empty() && verified.rows.is_empty(), "{verified:#?}");
        let entries = store.admin_entries(&AdminFilter::default(), 99).await.unwrap();
        assert!(entries.len() == 7 && entries.iter().all(|entry| entry.is_adopted), "{entries:#?}");
    }
}
