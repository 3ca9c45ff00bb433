//! The rows that administrative logs demand.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use shared::PauseKind;
use uuid::Uuid;

use super::{
    compare_fields::{DISABLED, Fields, STOPPED, end, fields, set},
    details::KeyDetails,
    entry::AdminEntry,
    event::AdminEvent,
};
use crate::ThreadId;

/// Field of a schedule's key.
const KEY: &str = "key_id";

/// The row of a key.
#[derive(Clone, Debug)]
pub(super) struct ExpectedKey {
    pub(super) details: KeyDetails,
    pub(super) tenant: Option<String>,
    pub(super) revoked_at: Option<i64>,
}

/// A row that says who did something, when, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) by: String,
    pub(super) at: i64,
    /// The reason; of a pin, the hash of its definitions.
    pub(super) text: String,
}

/// All rows that the logs demand.
#[derive(Debug, Default)]
pub(super) struct Expected {
    pub(super) keys: BTreeMap<String, ExpectedKey>,
    pub(super) holds: BTreeMap<ThreadId, Note>,
    pub(super) pins: BTreeMap<String, Note>,
    pub(super) pauses: BTreeMap<(PauseKind, String), Note>,
    pub(super) models: BTreeMap<String, Note>,
    pub(super) schedules: BTreeMap<Uuid, Fields>,
    pub(super) webhooks: BTreeMap<Uuid, Fields>,
    /// Each rotated key, and its successors: a key may be rotated again before it ends.
    successors: BTreeMap<String, BTreeSet<String>>,
}

impl Expected {
    /// Adds the next entry of a log. The logs of two tenants have no row in common.
    pub(super) fn add(&mut self, entry: AdminEntry) {
        let AdminEntry { tenant, by, event, .. } = entry;
        let note =
            |at, text: Option<String>| Note { by: by.name.clone(), at, text: text.unwrap_or_default() };
        match event {
            AdminEvent::HoldPlaced { thread, at } => {
                self.holds.insert(thread, note(at, by.reason.clone()));
            }
            AdminEvent::HoldReleased { thread } => {
                self.holds.remove(&thread);
            }
            AdminEvent::KeyCreated { key } => self.add_key(key, tenant),
            AdminEvent::KeyRotated { old: replaced, old_expires_at, key } => {
                if let Some(old) = self.keys.get_mut(&replaced) {
                    let end = old.details.expires_at.map_or(old_expires_at, |end| end.min(old_expires_at));
                    old.details.expires_at = Some(end);
                }
                self.successors.entry(replaced).or_default().insert(key.id.clone());
                self.add_key(key, tenant);
            }
            AdminEvent::KeyRevoked { key, at } => {
                if let Some(key) = self.keys.get_mut(&key) {
                    key.revoked_at = key.revoked_at.or(Some(at));
                }
            }
            AdminEvent::KeysForgotten { keys } => self.keys.retain(|id, _| !keys.contains(id)),
            AdminEvent::ToolsApproved { server, hash, at } => {
                self.pins.insert(server, note(at, Some(hash)));
            }
            AdminEvent::ToolsReset { server } => {
                self.pins.remove(&server);
            }
            AdminEvent::Paused { of, name, at } => {
                self.pauses.insert((of, name), note(at, by.reason.clone()));
            }
            AdminEvent::Resumed { of, name } => {
                self.pauses.remove(&(of, name));
            }
            AdminEvent::ModelForgotten { model, at } => {
                self.models.insert(model, note(at, None));
            }
            AdminEvent::ThreadDeleted { .. }
            | AdminEvent::ThreadsPruned { .. }
            | AdminEvent::BatchPruned { .. }
            | AdminEvent::FileDeleted { .. }
            | AdminEvent::FilesPruned { .. }
            | AdminEvent::BatchCancelled { .. }
            | AdminEvent::BatchPaused { .. }
            | AdminEvent::BatchResumed { .. }
            | AdminEvent::BatchRerun { .. }
            | AdminEvent::ConfigurationChanged { .. } => {}
            AdminEvent::ScheduleCreated { schedule } => {
                self.schedules.insert(schedule.id, fields(&schedule, tenant.as_deref()));
            }
            AdminEvent::SchedulePaused { schedule, at } => self.stop(schedule, at, None),
            AdminEvent::ScheduleStopped { schedule, at } => self.stop(schedule, at, by.reason),
            AdminEvent::ScheduleResumed { schedule, key_id, by_operator } => {
                if let Some(row) = self.schedules.get_mut(&schedule) {
                    end(row, STOPPED, None, None);
                    set(row, KEY, json!(key_id));
                    set(row, "by_operator", json!(by_operator));
                }
            }
            AdminEvent::ScheduleDeleted { schedule } => {
                self.schedules.remove(&schedule);
            }
            AdminEvent::WebhookCreated { webhook } => {
                self.webhooks.insert(webhook.id, fields(&webhook, tenant.as_deref()));
            }
            AdminEvent::WebhookDisabled { webhook, at } => {
                if let Some(row) = self.webhooks.get_mut(&webhook) {
                    end(row, DISABLED, Some(at), by.reason);
                }
            }
            AdminEvent::WebhookDeleted { webhook } => {
                self.webhooks.remove(&webhook);
            }
        }
    }

    fn stop(&mut self, schedule: Uuid, at: i64, reason: Option<String>) {
        if let Some(row) = self.schedules.get_mut(&schedule) {
            end(row, STOPPED, Some(at), reason);
        }
    }

    /// Returns the rows of schedules. A rotation gives the schedules of a key to its successor, and may stand in another log than
    /// the schedule, so the row may have the key of the log or any of its successors.
    pub(super) fn schedules_beside(&self, rows: &BTreeMap<Uuid, Fields>) -> BTreeMap<Uuid, Fields> {
        let mut schedules = self.schedules.clone();
        for (id, fields) in &mut schedules {
            let key = |fields: &Fields| fields.get(KEY).and_then(Value::as_str).map(str::to_owned);
            let (Some(before), Some(now)) = (key(fields), rows.get(id).and_then(key)) else { continue };
            if self.is_same_or_later(&before, &now) {
                set(fields, KEY, json!(now));
            }
        }
        schedules
    }

    /// Reports whether a key is `first`, or follows it in rotations.
    fn is_same_or_later(&self, first: &str, key: &str) -> bool {
        let (mut open, mut seen) = (vec![first], BTreeSet::from([first]));
        while let Some(next) = open.pop() {
            if next == key {
                return true;
            }
            let successors = self.successors.get(next).into_iter().flatten().map(String::as_str);
            open.extend(successors.filter(|successor| seen.insert(*successor)));
        }
        false
    }

    fn add_key(&mut self, details: KeyDetails, tenant: Option<String>) {
        self.keys.insert(details.id.clone(), ExpectedKey { details, tenant, revoked_at: None });
    }
}
