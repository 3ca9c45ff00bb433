//! Conversions between rows of the store and the types of the API.

use api_types::{
    FailureCause, LogEvent, Pause, PauseKind, Priority, ThreadStatus, ThreadSummary, TurnEnd, TurnStatus,
};
use queue::clock::rfc3339;
use store::Recorded;

/// Converts a priority from the API.
pub(crate) fn store_priority(priority: Priority) -> queue::Priority {
    match priority {
        Priority::High => queue::Priority::High,
        Priority::Normal => queue::Priority::Normal,
        Priority::Low => queue::Priority::Low,
    }
}

/// Converts a priority from the store.
pub(crate) fn priority(priority: queue::Priority) -> Priority {
    match priority {
        queue::Priority::High => Priority::High,
        queue::Priority::Normal => Priority::Normal,
        queue::Priority::Low => Priority::Low,
    }
}

/// Converts the status of a turn from the store.
pub(crate) fn turn_status(status: store::TurnStatus) -> TurnStatus {
    match status {
        store::TurnStatus::Queued => TurnStatus::Queued,
        store::TurnStatus::Running => TurnStatus::Running,
        store::TurnStatus::Completed => TurnStatus::Completed,
        store::TurnStatus::Interrupted => TurnStatus::Interrupted,
        store::TurnStatus::Failed => TurnStatus::Failed,
        store::TurnStatus::Cancelled => TurnStatus::Cancelled,
    }
}

/// Converts the status of a turn from the API.
pub(crate) fn store_turn_status(status: TurnStatus) -> store::TurnStatus {
    match status {
        TurnStatus::Queued => store::TurnStatus::Queued,
        TurnStatus::Running => store::TurnStatus::Running,
        TurnStatus::Completed => store::TurnStatus::Completed,
        TurnStatus::Interrupted => store::TurnStatus::Interrupted,
        TurnStatus::Failed => store::TurnStatus::Failed,
        TurnStatus::Cancelled => store::TurnStatus::Cancelled,
    }
}

/// Converts the status of a thread from the API.
pub(crate) fn store_thread_status(status: ThreadStatus) -> store::ThreadStatus {
    match status {
        ThreadStatus::Idle => store::ThreadStatus::Idle,
        ThreadStatus::Busy => store::ThreadStatus::Busy,
        ThreadStatus::Interrupted => store::ThreadStatus::Interrupted,
        ThreadStatus::Error => store::ThreadStatus::Error,
    }
}

/// Converts the row of a thread.
pub(crate) fn thread_summary(row: store::Thread) -> ThreadSummary {
    ThreadSummary {
        id: row.id,
        tenant: row.tenant,
        strategy: row.strategy,
        status: match row.status {
            store::ThreadStatus::Idle => ThreadStatus::Idle,
            store::ThreadStatus::Busy => ThreadStatus::Busy,
            store::ThreadStatus::Interrupted => ThreadStatus::Interrupted,
            store::ThreadStatus::Error => ThreadStatus::Error,
        },
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
    let kind = match kind {
        store::PauseKind::Strategy => PauseKind::Strategy,
        store::PauseKind::Model => PauseKind::Model,
        store::PauseKind::Tenant => PauseKind::Tenant,
        store::PauseKind::OwnTenant => PauseKind::OwnTenant,
    };
    Pause { kind, name, reason, by, at: rfc3339(at) }
}

/// Converts a group of turns that failed or got no full answer.
pub(crate) fn failure_cause(row: store::Failure) -> FailureCause {
    let store::Failure { ended, cause, turns, never_started, first_at, last_at, example } = row;
    let ended = match ended {
        store::Ended::Failed => TurnEnd::Failed,
        store::Ended::Partial => TurnEnd::Partial,
        store::Ended::Declined => TurnEnd::Declined,
    };
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
