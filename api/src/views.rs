//! Conversions between rows of the store and the types of the API.

use api_types::{FailureCause, ForgottenModel, LogEvent, Pause, ThreadSummary};
use queue::clock::rfc3339;
use store::Recorded;

/// Converts the row of a thread.
pub(crate) fn thread_summary(row: store::Thread) -> ThreadSummary {
    ThreadSummary {
        id: row.id,
        tenant: row.tenant,
        strategy: row.strategy,
        status: row.status,
        created_at: rfc3339(row.created_at),
        updated_at: rfc3339(row.updated_at),
    }
}

/// Converts an event of a log.
pub(crate) fn log_event(recorded: &Recorded) -> LogEvent {
    LogEvent {
        seq: recorded.seq,
        at: rfc3339(recorded.at),
        kind: recorded.event.kind().to_owned(),
        // An event that was parsed from JSON serializes to JSON.
        event: serde_json::to_value(&recorded.event).unwrap_or_default(),
    }
}

/// Converts a pause.
pub(crate) fn pause(row: store::Pause) -> Pause {
    let store::Pause { kind, name, reason, by, at } = row;
    Pause { kind, name, reason, by, at: rfc3339(at) }
}

/// Converts a request to forget a model.
pub(crate) fn forgotten_model(row: store::ForgottenModel) -> ForgottenModel {
    let store::ForgottenModel { model, by, at } = row;
    ForgottenModel { model, by, at: rfc3339(at) }
}

/// Converts a group of turns that failed or got no full answer.
pub(crate) fn failure_cause(row: store::Failure) -> FailureCause {
    let store::Failure { ended, cause, turns, never_started, first_at, last_at, example } = row;
    FailureCause {
        ended,
        cause,
        turns,
        never_started,
        first_at: rfc3339(first_at),
        last_at: rfc3339(last_at),
        example,
    }
}
