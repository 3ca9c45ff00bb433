//! Errors of the store, as faults of a request.

use shared::Fault;

/// Maps an error of the store that holds `what` to a fault.
pub(crate) fn store_fault(what: &str, error: &store::Error) -> Fault {
    let message = format!("cannot use {what}: {error}");
    match error {
        store::Error::Unavailable(_) | store::Error::IndexUnavailable(_) => Fault::transient(message),
        store::Error::Stale { .. }
        | store::Error::CancelRequested { .. }
        | store::Error::UnknownThread(_)
        | store::Error::ThreadBusy(_)
        | store::Error::ThreadExists(_)
        | store::Error::UnknownTurn(_)
        | store::Error::KeyReused
        | store::Error::BatchLost(_)
        | store::Error::Address(_)
        | store::Error::NotMigrated { .. }
        | store::Error::TooNew { .. }
        | store::Error::Unreadable { .. }
        | store::Error::UnknownStrategy { .. }
        | store::Error::Stuck { .. }
        | store::Error::Corrupt { .. }
        | store::Error::ContentRejected(_)
        | store::Error::IndexRefused(_)
        | store::Error::SearchOff
        | store::Error::SearchBehind { .. }
        | store::Error::Unsupported(_)
        | store::Error::Database(_) => Fault::permanent(message),
    }
}
