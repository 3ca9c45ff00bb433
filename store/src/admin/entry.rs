//! An entry of an administrative log, and its stored form.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use shared::CallerId;
use uuid::Uuid;

use super::event::AdminEvent;
use crate::{
    Error,
    log::{event_row::EventRow, plain},
};

/// Text before the tenant in the name of a log.
const NAMESPACE: &[u8] = b"turnfold/admin\0";

/// Version of the UUIDs that name administrative logs. Threads have version 7.
const VERSION: usize = 8;

/// Returns the id of a tenant's log, or of the log of what concerns no tenant. It is a UUID of version 8 with the first bytes of
/// the SHA-256 of `turnfold/admin`, a zero byte, and the name of the tenant.
pub fn admin_log(tenant: Option<&str>) -> Uuid {
    let hash = Sha256::new().chain_update(NAMESPACE).chain_update(tenant.unwrap_or_default()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid()
}

/// Reports whether a log is an administrative one, by its id.
pub fn is_admin_log(log: Uuid) -> bool {
    log.get_version_num() == VERSION
}

/// Author of a decision, and the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct By {
    /// Name of the person, as the client or the command line gives it.
    pub name: String,
    /// Sender of the request, as the key proves it.
    pub caller: Option<CallerId>,
    /// Reason in the person's words.
    pub reason: Option<String>,
}

impl By {
    /// Returns the author of what no person decided.
    pub(crate) fn turnfold(reason: Option<String>) -> Self {
        Self { reason, ..Self::from("turnfold") }
    }

    /// Adds a reason. An empty one is none.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        let reason = Some(reason.into()).filter(|reason| !reason.trim().is_empty());
        Self { reason, ..self }
    }
}

impl From<&str> for By {
    fn from(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

impl From<&String> for By {
    fn from(name: &String) -> Self {
        Self::from(name.as_str())
    }
}

/// An entry of an administrative log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminEntry {
    /// Id of the log.
    pub log: Uuid,
    /// Number in the log, from 0.
    pub seq: u64,
    /// Time of the entry, in microseconds since the Unix epoch.
    pub at: i64,
    /// Tenant of the log; `None` for what concerns no tenant.
    pub tenant: Option<String>,
    /// Author and reason.
    pub by: By,
    /// True if the row existed before there was a log: the entry says only that an upgrade found it.
    pub is_adopted: bool,
    /// The decision itself.
    pub event: AdminEvent,
    /// Hash of the entry, which covers all entries before it.
    pub hash: Vec<u8>,
}

impl AdminEntry {
    /// Returns what was decided as JSON, without the kind.
    ///
    /// # Errors
    ///
    /// [`Error::Database`] if it is not JSON, which no entry is known to cause.
    pub fn what(&self) -> Result<Value, Error> {
        details(&self.event)
    }
}

fn details(event: &AdminEvent) -> Result<Value, Error> {
    let broken = |error: serde_json::Error| Error::Database(format!("an entry is not JSON: {error}"));
    let tagged: Tagged =
        serde_json::from_value(serde_json::to_value(event).map_err(broken)?).map_err(broken)?;
    Ok(tagged.what)
}

/// The payload of an entry.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    by: Person,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    adopted: bool,
    what: Value,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Person {
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
}

/// An event as serde writes it: the kind, which has a column of its own, and the rest.
#[derive(Serialize, Deserialize)]
struct Tagged {
    kind: String,
    what: Value,
}

/// Writes the payload of an entry.
pub(super) fn encode(
    tenant: Option<&str>,
    by: &By,
    is_adopted: bool,
    event: &AdminEvent,
) -> Result<String, Error> {
    let broken = |error: serde_json::Error| Error::Database(format!("an entry is not JSON: {error}"));
    let CallerId { key, subject } = by.caller.clone().unwrap_or_default();
    let payload = Payload {
        tenant: tenant.map(plain),
        by: Person {
            name: plain(&by.name),
            key: key.as_deref().map(plain),
            subject: subject.as_deref().map(plain),
        },
        reason: by.reason.as_deref().map(plain),
        adopted: is_adopted,
        what: details(event)?,
    };
    serde_json::to_string(&payload).map_err(broken)
}

/// Reads a stored entry.
pub(super) fn decode(row: &EventRow) -> Result<AdminEntry, Error> {
    let columns = &row.columns;
    let unreadable = |what: String| Error::TooNew {
        what: format!("entry {} of the administrative log {} ({what})", columns.seq, columns.thread_id),
    };
    if let Some(what) = &row.mistyped {
        return Err(unreadable(what.clone()));
    }
    if columns.codec != crate::log::rows::CODEC {
        return Err(unreadable(format!("the encoding {:?}", columns.codec)));
    }
    let read = || -> Result<AdminEntry, serde_json::Error> {
        let payload: Payload = serde_json::from_str(&columns.payload)?;
        let tagged = Tagged { kind: columns.kind.clone(), what: payload.what };
        let event = serde_json::from_value(serde_json::to_value(tagged)?)?;
        let Person { name, key, subject } = payload.by;
        let caller = (key.is_some() || subject.is_some()).then_some(CallerId { key, subject });
        Ok(AdminEntry {
            log: columns.thread_id,
            seq: u64::try_from(columns.seq).unwrap_or_default(),
            at: columns.at,
            tenant: payload.tenant,
            by: By { name, caller, reason: payload.reason },
            is_adopted: payload.adopted,
            event,
            hash: columns.hash.clone(),
        })
    };
    read().map_err(|error| unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_log_depends_on_its_tenant_alone() {
        assert_eq!(admin_log(Some("acme")), admin_log(Some("acme")));
        assert_ne!(admin_log(Some("acme")), admin_log(None));
        assert!(is_admin_log(admin_log(None)) && !is_admin_log(Uuid::now_v7()));
    }
}
