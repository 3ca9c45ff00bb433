//! Responses of keys.

use api_types::KeyStatus;
use queue::clock::rfc3339;
use store::Key;

/// Converts a key to its response at this time, without the secret.
pub(super) fn key(row: Key, now: i64) -> api_types::Key {
    let status = match row.revoked_at {
        Some(_) => KeyStatus::Revoked,
        None if row.is_valid(now) => KeyStatus::Valid,
        None => KeyStatus::Expired,
    };
    api_types::Key {
        id: row.id,
        name: row.name,
        tenant: row.tenant,
        scopes: row.scopes.iter().filter_map(|scope| scope.parse().ok()).collect(),
        status,
        created_by: row.created_by,
        created_at: rfc3339(row.created_at),
        expires_at: row.expires_at.map(rfc3339),
        revoked_at: row.revoked_at.map(rfc3339),
        last_used_at: row.last_used_at.map(rfc3339),
        multitask_strategy: row.multitask_strategy,
        key: None,
    }
}
