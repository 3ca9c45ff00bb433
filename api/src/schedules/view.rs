//! Response of a schedule.

use queue::clock::rfc3339;
use shared::ScheduleTarget;
use store::schedules::{Schedule, Stopped};

/// Converts a schedule to its response.
pub(super) fn schedule(row: Schedule) -> api_types::Schedule {
    let status = row.status();
    let next_at = row.stopped.is_none().then(|| rfc3339(row.next_at));
    let body = serde_json::from_str(&row.body).ok();
    let (last_at, last) = row.last.map(|firing| (rfc3339(firing.at), firing.outcome)).unzip();
    let (last_id, last_error) = last.map_or((None, None), |outcome| match outcome {
        Ok(id) => (Some(id), None),
        Err(error) => (None, Some(error)),
    });
    let (turn, batch, last_turn_id, last_batch_id) = match row.target {
        ScheduleTarget::Turn => (body, None, last_id, None),
        ScheduleTarget::Batch => (None, body, None, last_id),
    };
    api_types::Schedule {
        id: row.id,
        tenant: row.tenant,
        name: row.name,
        cron: row.cron,
        timezone: row.zone,
        missed: row.missed,
        turn,
        batch,
        status,
        stopped_reason: match row.stopped {
            Some(Stopped::Because(reason)) => Some(reason),
            Some(Stopped::Paused) | None => None,
        },
        key: row.holder.key,
        created_by: row.author,
        created_at: rfc3339(row.created_at),
        next_at,
        last_at,
        last_turn_id,
        last_batch_id,
        last_error,
    }
}
