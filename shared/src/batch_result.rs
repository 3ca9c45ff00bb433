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
    /// Run that led to the result. Absent if the line never became a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turnfold: Option<ResultRun>,
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

/// Run of a line of a batch. A reused result has the run that led to the first one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ResultRun {
    /// Id of the thread.
    pub thread_id: Uuid,
    /// Id of the turn that decided the result: the last one, if a person was asked.
    pub turn_id: Uuid,
    /// Model that answered last, as its endpoint names it; null if none did.
    pub model: Option<String>,
    /// Tokens read by models, in all turns of the thread.
    pub input_tokens: u64,
    /// Tokens written by models, in all turns of the thread.
    pub output_tokens: u64,
    /// Cost of the thread in US dollars, at the operator's prices.
    pub usd: f64,
    /// Start of the turn (RFC 3339, UTC); null if it never started.
    pub started_at: Option<String>,
    /// End of the turn (RFC 3339, UTC).
    pub ended_at: String,
    /// Number of times that the line was run, from 1.
    pub attempts: u32,
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
        turnfold: Option<ResultRun>,
    ) -> Self {
        let error = error.map(|(code, message)| ResultError { code, message });
        let id = format!("batch_req_{}_{nth}", batch.simple());
        Self { n: None, id, custom_id, response, error, turnfold }
    }

    /// Returns the number of the line in its file, from 1.
    pub fn line(&self) -> Option<i64> {
        self.id.rsplit('_').next()?.parse().ok()
    }
}
