//! Entries of administrative logs, as API and command line show them.

use api_types::AdminEntry;
use queue::clock::rfc3339;
use store::{By, Error};

/// Converts an entry.
///
/// # Errors
///
/// [`Error::Database`] if the decision is not JSON, which none is known to be.
pub fn admin_entry(entry: store::AdminEntry) -> Result<AdminEntry, Error> {
    let what = entry.what()?;
    let store::AdminEntry { log, seq, at, tenant, by, is_adopted, event, hash } = entry;
    let By { name, caller, reason } = by;
    let (key, subject) = caller.map_or((None, None), |caller| (caller.key, caller.subject));
    Ok(AdminEntry {
        id: format!("{log}.{seq}"),
        seq,
        at: rfc3339(at),
        tenant,
        by: name,
        key,
        subject,
        reason,
        adopted: is_adopted,
        kind: event.kind().to_owned(),
        what,
        hash: hex::encode(hash),
    })
}
