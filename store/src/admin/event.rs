//! The kinds of entries.

use serde::{Deserialize, Serialize};
use shared::PauseKind;
use uuid::Uuid;

use super::details::{KeyDetails, ScheduleDetails, WebhookDetails};

/// A decision. Kinds and fields are never renamed or removed; a new field has a default.
///
/// Times are in microseconds since the Unix epoch, amounts in millionths of a US dollar.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "what", rename_all = "snake_case", deny_unknown_fields)]
pub enum AdminEvent {
    /// A hold was placed on a thread, for the reason of the entry.
    HoldPlaced {
        /// Id of the thread.
        thread: Uuid,
        /// Time of the hold.
        at: i64,
    },
    /// The hold of a thread was released.
    HoldReleased {
        /// Id of the thread.
        thread: Uuid,
    },
    /// A thread was deleted with its turns and events.
    ThreadDeleted {
        /// Id of the thread.
        thread: Uuid,
        /// Number of its turns.
        turns: u64,
        /// Number of its events.
        events: u64,
    },
    /// Threads were deleted for their age, at most 200 in one entry.
    ThreadsPruned {
        /// Ids of the threads.
        threads: Vec<Uuid>,
        /// They were last changed before this time.
        before: i64,
    },
    /// A batch was deleted for its age, with its lines and results.
    BatchPruned {
        /// Id of the batch.
        batch: Uuid,
        /// It ended before this time.
        before: i64,
    },
    /// A file was deleted.
    FileDeleted {
        /// Id of the file.
        file: Uuid,
    },
    /// Files were deleted for their age, at most 200 in one entry.
    FilesPruned {
        /// Ids of the files.
        files: Vec<Uuid>,
        /// They were created before this time.
        before: i64,
    },
    /// A key was created.
    KeyCreated {
        /// The new key, without its secret part.
        key: KeyDetails,
    },
    /// A key was replaced with a new one.
    KeyRotated {
        /// Id of the old key.
        old: String,
        /// End of validity of the old key, unless it ends earlier.
        old_expires_at: i64,
        /// The new key.
        key: KeyDetails,
    },
    /// A key was revoked.
    KeyRevoked {
        /// Id of the key.
        key: String,
        /// Time from which it is invalid.
        at: i64,
    },
    /// Rows of keys that had ended long before were deleted, at most 1,000 in one entry.
    KeysForgotten {
        /// Ids of the keys.
        keys: Vec<String>,
    },
    /// The tools of an MCP server were approved, by a person or by their first use.
    ToolsApproved {
        /// Name of the server.
        server: String,
        /// SHA-256 of the definitions, in hexadecimal.
        hash: String,
        /// Time of the approval.
        at: i64,
    },
    /// The approval of an MCP server's tools was withdrawn. The next use approves what it finds.
    ToolsReset {
        /// Name of the server.
        server: String,
    },
    /// New work was stopped, for the reason of the entry.
    Paused {
        /// Kind of the pause.
        of: PauseKind,
        /// Name of the strategy, model or tenant.
        name: String,
        /// Time of the pause.
        at: i64,
    },
    /// A pause was ended.
    Resumed {
        /// Kind of the pause.
        of: PauseKind,
        /// Name of the strategy, model or tenant.
        name: String,
    },
    /// Everything learned about a model was forgotten.
    ModelForgotten {
        /// Model, as `provider/model`.
        model: String,
        /// Time before which it was learned.
        at: i64,
    },
    /// A batch was cancelled.
    BatchCancelled {
        /// Id of the batch.
        batch: Uuid,
    },
    /// A batch submits no more lines.
    BatchPaused {
        /// Id of the batch.
        batch: Uuid,
    },
    /// A batch continues.
    BatchResumed {
        /// Id of the batch.
        batch: Uuid,
        /// New limit of its cost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_micro_usd: Option<u64>,
    },
    /// Lines of an ended batch run again.
    BatchRerun {
        /// Id of the batch.
        batch: Uuid,
        /// State of the lines: `failed` or `expired`.
        state: String,
        /// Only lines with this cause.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<String>,
        /// Number of the lines.
        lines: u64,
        /// New limit of the batch's cost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_micro_usd: Option<u64>,
    },
    /// A schedule was created.
    ScheduleCreated {
        /// The new schedule.
        schedule: ScheduleDetails,
    },
    /// A person paused a schedule.
    SchedulePaused {
        /// Id of the schedule.
        schedule: Uuid,
        /// Time of the pause.
        at: i64,
    },
    /// A schedule may no longer submit anything, for the reason of the entry.
    ScheduleStopped {
        /// Id of the schedule.
        schedule: Uuid,
        /// Time from which it submits nothing.
        at: i64,
    },
    /// A schedule that was paused or stopped continues.
    ScheduleResumed {
        /// Id of the schedule.
        schedule: Uuid,
        /// Key with whose rights it submits from now on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_id: Option<String>,
        /// True if it acts as an operator who names no tenant.
        by_operator: bool,
    },
    /// A schedule was deleted.
    ScheduleDeleted {
        /// Id of the schedule.
        schedule: Uuid,
    },
    /// A webhook was created.
    WebhookCreated {
        /// The new webhook, without its secret.
        webhook: WebhookDetails,
    },
    /// A webhook receives nothing any more, for the reason of the entry.
    WebhookDisabled {
        /// Id of the webhook.
        webhook: Uuid,
        /// Time from which it receives nothing.
        at: i64,
    },
    /// A webhook was deleted, with its deliveries.
    WebhookDeleted {
        /// Id of the webhook.
        webhook: Uuid,
    },
    /// A process started with another configuration than the one before it.
    ConfigurationChanged {
        /// Command of the process: `dev`, `api` or `worker`.
        process: String,
        /// Name of the process.
        name: String,
        /// Version of turnfold.
        version: String,
        /// SHA-256 of the keys and values that `turnfold config show` prints, without the name and the addresses of the process, in
        /// hexadecimal.
        sha256: String,
    },
}

impl AdminEvent {
    /// Names of all kinds, in the order of their declaration.
    pub const KINDS: [&str; 29] = [
        "hold_placed",
        "hold_released",
        "thread_deleted",
        "threads_pruned",
        "batch_pruned",
        "file_deleted",
        "files_pruned",
        "key_created",
        "key_rotated",
        "key_revoked",
        "keys_forgotten",
        "tools_approved",
        "tools_reset",
        "paused",
        "resumed",
        "model_forgotten",
        "batch_cancelled",
        "batch_paused",
        "batch_resumed",
        "batch_rerun",
        "schedule_created",
        "schedule_paused",
        "schedule_stopped",
        "schedule_resumed",
        "schedule_deleted",
        "webhook_created",
        "webhook_disabled",
        "webhook_deleted",
        "configuration_changed",
    ];

    /// Returns the name of the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            AdminEvent::HoldPlaced { .. } => "hold_placed",
            AdminEvent::HoldReleased { .. } => "hold_released",
            AdminEvent::ThreadDeleted { .. } => "thread_deleted",
            AdminEvent::ThreadsPruned { .. } => "threads_pruned",
            AdminEvent::BatchPruned { .. } => "batch_pruned",
            AdminEvent::FileDeleted { .. } => "file_deleted",
            AdminEvent::FilesPruned { .. } => "files_pruned",
            AdminEvent::KeyCreated { .. } => "key_created",
            AdminEvent::KeyRotated { .. } => "key_rotated",
            AdminEvent::KeyRevoked { .. } => "key_revoked",
            AdminEvent::KeysForgotten { .. } => "keys_forgotten",
            AdminEvent::ToolsApproved { .. } => "tools_approved",
            AdminEvent::ToolsReset { .. } => "tools_reset",
            AdminEvent::Paused { .. } => "paused",
            AdminEvent::Resumed { .. } => "resumed",
            AdminEvent::ModelForgotten { .. } => "model_forgotten",
            AdminEvent::BatchCancelled { .. } => "batch_cancelled",
            AdminEvent::BatchPaused { .. } => "batch_paused",
            AdminEvent::BatchResumed { .. } => "batch_resumed",
            AdminEvent::BatchRerun { .. } => "batch_rerun",
            AdminEvent::ScheduleCreated { .. } => "schedule_created",
            AdminEvent::SchedulePaused { .. } => "schedule_paused",
            AdminEvent::ScheduleStopped { .. } => "schedule_stopped",
            AdminEvent::ScheduleResumed { .. } => "schedule_resumed",
            AdminEvent::ScheduleDeleted { .. } => "schedule_deleted",
            AdminEvent::WebhookCreated { .. } => "webhook_created",
            AdminEvent::WebhookDisabled { .. } => "webhook_disabled",
            AdminEvent::WebhookDeleted { .. } => "webhook_deleted",
            AdminEvent::ConfigurationChanged { .. } => "configuration_changed",
        }
    }
}
