//! Ids, times and numbers in the format of OpenAI's API.

use store::batches::{BatchId, FileId};
use uuid::Uuid;

/// Formats the id of a batch.
pub(crate) fn batch_name(id: BatchId) -> String {
    format!("batch_{}", id.simple())
}

/// Parses the id of a batch. The batch may not exist.
pub(crate) fn batch_id(name: &str) -> Option<BatchId> {
    name.strip_prefix("batch_").and_then(|id| Uuid::try_parse(id).ok())
}

/// Formats the id of a file.
pub(crate) fn file_name(id: FileId) -> String {
    format!("file-{}", id.simple())
}

/// Parses the id of a file. The file may not exist.
pub(crate) fn file_id(name: &str) -> Option<FileId> {
    name.strip_prefix("file-").and_then(|id| Uuid::try_parse(id).ok())
}

/// Converts microseconds to whole seconds since the Unix epoch.
pub(crate) fn seconds(micros: i64) -> i64 {
    micros.div_euclid(1_000_000)
}

/// Converts a count to a floating-point number.
#[expect(clippy::cast_precision_loss, reason = "no batch is so large that it would show")]
pub(crate) fn float(number: u64) -> f64 {
    number as f64
}
