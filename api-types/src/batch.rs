//! Batches, in OpenAI's shape with an extension under `turnfold`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::{BatchStatus, Priority, StopReason};
use utoipa::ToSchema;

use crate::TokenUsage;

/// Request to create a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({"input_file_id": "file-019aa7f07d5e7c3a9d0b3f6c1a2b4c5d", "endpoint": "/v1/turns", "completion_window": "24h"})))]
pub struct NewBatch {
    /// Id of the file with the lines.
    pub input_file_id: String,
    /// Path that every line is sent to: `/v1/turns`, `/v1/chat/completions`, `/v1/responses` or `/v1/completions`.
    pub endpoint: String,
    /// Maximum duration: a number followed by `s`, `m`, `h`, `d` or `w`, at most 30 days. Unfinished lines then expire.
    pub completion_window: String,
    /// Data stored with the batch: up to 16 pairs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub metadata: Option<Map<String, Value>>,
    /// Retention of the result files. Default: they are kept until they are deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_expires_after: Option<ExpiresAfter>,
    /// Use of results that earlier batches produced for the same lines. Default: `succeeded`.
    #[serde(default)]
    pub reuse: Reuse,
    /// Maximum cost in US dollars, greater than 0. Default: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000000000)]
    pub max_usd: Option<f64>,
    /// Maximum number of lines in progress at the same time, capped by the operator's limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000000)]
    pub window: Option<u64>,
    /// Maximum duration of one line in seconds, including waits for a person. Default: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2592000)]
    pub expires_after: Option<u64>,
    /// Priority of the batch's turns among those of the same tenant. Default: `low`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
}

/// Retention of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpiresAfter {
    /// Start of the retention period: always `created_at`.
    pub anchor: String,
    /// Length of the retention period in seconds.
    #[schema(minimum = 3600, maximum = 2592000)]
    pub seconds: u64,
}

/// Use of earlier results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reuse {
    /// Successful results of lines with the same `custom_id` and the same request.
    #[default]
    Succeeded,
    /// No earlier results.
    None,
}

/// Request to resume a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeBatch {
    /// Lines of an ended batch to run again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Rerun>,
    /// Only lines with this cause: the `message` of one of `top_causes`. Its first 120 characters are compared. Requires
    /// `only`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// New maximum cost in US dollars, including the cost so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1000000000)]
    pub max_usd: Option<f64>,
}

/// Lines of an ended batch to run again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Rerun {
    /// Lines whose turns failed.
    Failed,
    /// Lines that expired.
    Expired,
    /// Lines whose turns ended with the outcome `partial`.
    Partial,
    /// Lines whose turns ended with the outcome `declined`.
    Declined,
}

/// A batch, in OpenAI's shape. Times are seconds since the Unix epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Batch {
    /// Id of the batch.
    #[schema(examples("batch_019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"))]
    pub id: String,
    /// Type of the object, always `batch`.
    pub object: String,
    /// Path that every line is sent to.
    pub endpoint: String,
    /// Invalid lines; null if there are none.
    pub errors: Option<BatchErrors>,
    /// Id of the file with the lines.
    pub input_file_id: String,
    /// Maximum duration of the batch.
    pub completion_window: String,
    /// Status of the batch.
    #[schema(examples("in_progress"))]
    pub status: BatchStatus,
    /// Id of the file with successful results; null until the batch has ended.
    pub output_file_id: Option<String>,
    /// Id of the file with failed lines; null until the batch has ended.
    pub error_file_id: Option<String>,
    /// Time of creation.
    pub created_at: i64,
    /// Time at which all lines had been validated.
    pub in_progress_at: Option<i64>,
    /// Time at which unfinished lines expire.
    pub expires_at: i64,
    /// Time at which all lines had ended.
    pub finalizing_at: Option<i64>,
    /// Time of completion.
    pub completed_at: Option<i64>,
    /// Time of the failure.
    pub failed_at: Option<i64>,
    /// Time of the expiry.
    pub expired_at: Option<i64>,
    /// Time of the request to cancel.
    pub cancelling_at: Option<i64>,
    /// Time at which all lines were cancelled.
    pub cancelled_at: Option<i64>,
    /// Number of lines by outcome.
    pub request_counts: RequestCounts,
    /// Model that answered the lines so far, as its endpoint names it; null if none did, or several.
    #[serde(default)]
    #[schema(examples("gpt-4o-mini-2024-07-18"))]
    pub model: Option<String>,
    /// Tokens used so far.
    #[serde(default)]
    pub usage: TokenUsage,
    /// Data stored with the batch by the client.
    #[schema(value_type = Object)]
    pub metadata: Value,
    /// Fields that OpenAI's API does not have.
    pub turnfold: BatchExtension,
}

/// Invalid lines of a batch, at most 100.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchErrors {
    /// Type of the object, always `list`.
    pub object: String,
    /// The invalid lines, in the order of the file.
    pub data: Vec<InvalidLine>,
}

/// An invalid line of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InvalidLine {
    /// Kind of error, for programs.
    #[schema(examples("duplicate_custom_id"))]
    pub code: String,
    /// Cause, for people.
    pub message: String,
    /// Field at fault, if there is one.
    pub param: Option<String>,
    /// Number of the line, counted from 1; null if the error concerns the whole file.
    pub line: Option<u64>,
}

/// Result of checking a batch file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BatchValidation {
    /// Type of the object, always `batch.validation`.
    pub object: String,
    /// Number of lines that are not empty.
    pub lines: u64,
    /// Number of lines that cannot be run.
    pub invalid: u64,
    /// Endpoint that all lines must name: that of the request, else that of the first line that names one; null if there is none.
    pub endpoint: Option<String>,
    /// The first invalid lines, at most 100, in the order of the file.
    pub errors: Vec<InvalidLine>,
}

/// Number of lines by outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestCounts {
    /// Lines validated so far: all lines, once the status is no longer `validating`.
    pub total: u64,
    /// Lines that ended with a reply, including reused results and those that `turnfold` counts as `partial` and `declined`.
    pub completed: u64,
    /// Lines that failed, are invalid, expired or were cancelled individually.
    pub failed: u64,
}

/// Fields of a batch that OpenAI's API does not have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchExtension {
    /// Lines whose turns are waiting for a person.
    pub awaiting_input: u64,
    /// Lines submitted as turns that have not ended and are not waiting for a person. Once this is 0, nothing more of a
    /// stopped batch happens until it is resumed.
    pub submitted: u64,
    /// Lines whose turns are running.
    pub running: u64,
    /// Lines that no worker has started.
    pub queued: u64,
    /// Lines whose result was taken from an earlier batch.
    pub reused: u64,
    /// Lines that ended with the outcome `partial`. `completed` includes them.
    pub partial: u64,
    /// Lines that ended with the outcome `declined`. `completed` includes them.
    pub declined: u64,
    /// Lines that expired.
    pub expired: u64,
    /// Lines that were cancelled.
    pub cancelled: u64,
    /// Lines that could not be run.
    pub invalid: u64,
    /// Number of the last result.
    pub results: u64,
    /// Recent results a second; null while all remaining lines are waiting for people or for a resume.
    pub rate_per_s: Option<f64>,
    /// Predicted time to the end in seconds, without lines that are waiting for people; null if there are only such lines,
    /// and while the status is `validating`.
    pub eta_s: Option<f64>,
    /// Tokens used so far.
    pub tokens: u64,
    /// Cost so far in US dollars, at the operator's prices.
    pub usd: f64,
    /// Maximum cost in US dollars; null if unlimited.
    pub max_usd: Option<f64>,
    /// Reason why no more lines are submitted; null if the batch is not stopped or has ended.
    pub stopped: Option<StopReason>,
    /// Number of lines that a resume request would run again.
    pub resumable: Resumable,
    /// Most frequent causes of lines that failed or got no full answer; null in a list of batches.
    pub top_causes: Option<Vec<TopCause>>,
}

/// Number of lines that a resume request would run again. Zero if the batch is still open, was cancelled before all lines
/// were validated, or has lost its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resumable {
    /// Lines run again by `{"only": "failed"}`.
    pub failed: u64,
    /// Lines run again by `{"only": "expired"}`.
    pub expired: u64,
    /// Lines run again by `{"only": "partial"}`.
    pub partial: u64,
    /// Lines run again by `{"only": "declined"}`.
    pub declined: u64,
}

/// A frequent cause of lines that failed or got no full answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopCause {
    /// Kind of error, or outcome, for programs.
    pub code: String,
    /// Cause, for people.
    pub message: String,
    /// Number of lines.
    pub count: u64,
    /// `custom_id` of one of the lines.
    pub example_custom_id: Option<String>,
    /// Value of `only` that runs these lines again when the batch has ended; null for invalid lines.
    #[serde(default)]
    pub rerun: Option<Rerun>,
}
