//! Files of batch lines and results, in OpenAI's shape.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A file, in OpenAI's shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct File {
    /// Id of the file.
    #[schema(examples("file-019aa7f07d5e7c3a9d0b3f6c1a2b4c5d"))]
    pub id: String,
    /// Type of the object, always `file`.
    pub object: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the upload, in seconds since the Unix epoch.
    pub created_at: i64,
    /// Time at which the file is deleted; null if it is kept. A batch that still reads the file delays the deletion.
    pub expires_at: Option<i64>,
    /// Name given by the client.
    #[schema(examples("lines.jsonl"))]
    pub filename: String,
    /// `batch` for an upload, `batch_output` for the results of a batch.
    pub purpose: String,
    /// Status of the file, always `processed`.
    pub status: String,
}

/// Confirmation that a file was deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedFile {
    /// Id of the deleted file.
    pub id: String,
    /// Type of the object, always `file`.
    pub object: String,
    /// Result of the deletion, always `true`.
    pub deleted: bool,
}

/// Form of a file upload. It is read as a stream; this type only describes it.
#[derive(Clone, Debug, ToSchema)]
pub struct UploadForm {
    /// Purpose of the file, always `batch`.
    pub purpose: String,
    /// Content of the file: one JSON object a line.
    #[schema(value_type = String, format = Binary)]
    pub file: Vec<u8>,
    /// Start of the retention period: `created_at`. Requires `expires_after[seconds]`.
    #[schema(rename = "expires_after[anchor]")]
    pub expires_after_anchor: Option<String>,
    /// Retention period in seconds. Requires `expires_after[anchor]`. By default the file is kept until it is deleted.
    #[schema(rename = "expires_after[seconds]", minimum = 3600, maximum = 2592000)]
    pub expires_after_seconds: Option<u64>,
}
