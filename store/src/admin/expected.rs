//! The rows that administrative logs demand.

use std::collections::BTreeMap;

use shared::PauseKind;

use super::{
    entry::AdminEntry,
    event::{AdminEvent, KeyDetails},
};
use crate::ThreadId;

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
            AdminEvent::KeyRotated { old, old_expires_at, key } => {
                if let Some(old) = self.keys.get_mut(&old) {
                    let end = old.details.expires_at.map_or(old_expires_at, |end| end.min(old_expires_at));
                    old.details.expires_at = Some(end);
                }
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
            | AdminEvent::BatchRerun { .. } => {}
        }
    }

    fn add_key(&mut self, details: KeyDetails, tenant: Option<String>) {
        self.keys.insert(details.id.clone(), ExpectedKey { details, tenant, revoked_at: None });
    }
}
