//! Schedules: requests that are submitted at the times of a cron expression.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::{MissedFirings, ScheduleStatus};
use utoipa::ToSchema;
use uuid::Uuid;

/// Request to create a schedule. Exactly one of `turn` and `batch` is required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(
    json!({"cron": "30 7 * * MON-FRI", "timezone": "Europe/Berlin", "turn": {"strategy": "planner", "input": "Summarise my day"}})
))]
pub struct NewSchedule {
    /// Name for people, of at most 100 characters.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(max_length = 100)]
    pub name: String,
    /// Times of the firings: minute, hour, day of the month, month and day of the week, or `@hourly`, `@daily`, `@weekly`,
    /// `@monthly` or `@yearly`.
    #[schema(max_length = 200)]
    pub cron: String,
    /// Time zone of the expression, as its IANA name. Default: `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 100, examples("Europe/Berlin"))]
    pub timezone: Option<String>,
    /// Treatment of firings that could not be submitted within a minute. Default: `skip`.
    #[serde(default)]
    pub missed: MissedFirings,
    /// Turn to submit, as the body of `POST /v1/turns`. Its metadata gets the field `schedule_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub turn: Option<Value>,
    /// Batch to create, as the body of `POST /v1/batches`. Its metadata gets the field `schedule_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub batch: Option<Value>,
}

/// Change of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleChange {
    /// True to pause the schedule, false to let it fire again.
    pub paused: bool,
}

/// A request, and the times at which it is submitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// Id of the schedule.
    pub id: Uuid,
    /// Tenant that owns it.
    pub tenant: String,
    /// Name for people; may be empty.
    pub name: String,
    /// Times of the firings.
    pub cron: String,
    /// Time zone of the expression.
    pub timezone: String,
    /// Treatment of missed firings.
    pub missed: MissedFirings,
    /// Turn that is submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub turn: Option<Value>,
    /// Batch that is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub batch: Option<Value>,
    /// Status of the schedule at this moment.
    pub status: ScheduleStatus,
    /// Reason why it was stopped.
    pub stopped_reason: Option<String>,
    /// Key with whose rights it submits; null if the API required none.
    pub key: Option<String>,
    /// User who created it.
    pub created_by: String,
    /// Time of creation (RFC 3339).
    pub created_at: String,
    /// Time of the next firing (RFC 3339); null unless it is active.
    pub next_at: Option<String>,
    /// Time of the last firing (RFC 3339).
    pub last_at: Option<String>,
    /// Turn of the last firing.
    pub last_turn_id: Option<String>,
    /// Batch of the last firing.
    pub last_batch_id: Option<String>,
    /// Reason why the last firing submitted nothing.
    pub last_error: Option<String>,
}
