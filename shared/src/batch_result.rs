//! Results of the lines of a batch, in OpenAI's format.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

/// Result of a line of a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BatchResult {
    /// Number of the result, counted from 1 without gaps. Absent in the files of a batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// `batch_req_BATCH_LINE`, with the number of the line in its file.
    pub id: String,
    /// Client's name for the line; null if it has none.
    pub custom_id: Option<String>,
    /// Response that a single request would have received; null if the line was not run.
    pub response: Option<ResultResponse>,
    /// Error of a line that did not succeed.
    pub error: Option<ResultError>,
}

/// Response to a line of a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResultResponse {
    /// Body of the response.
    pub body: Value,
    /// Id of the turn.
    pub request_id: Uuid,
    /// HTTP status of the response.
    pub status_code: u16,
}

/// Error of a line of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResultError {
    /// Kind of error, for programs.
    pub code: String,
    /// Explanation for people.
    pub message: String,
}

impl BatchResult {
    /// Creates the result of line `nth` of a batch.
    pub fn new(
        batch: Uuid,
        nth: u64,
        custom_id: Option<String>,
        response: Option<ResultResponse>,
        error: Option<(String, String)>,
    ) -> Self {
        let error = error.map(|(code, message)| ResultError { code, message });
        Self { n: None, id: format!("batch_req_{}_{nth}", batch.simple()), custom_id, response, error }
    }

    /// Returns the number of the line in its file, from 1.
    pub fn line(&self) -> Option<i64> {
        self.id.rsplit('_').next()?.parse().ok()
    }
}
