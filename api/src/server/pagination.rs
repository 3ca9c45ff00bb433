//! Pages of lists.

use api_types::{OpenAiList, Page};

use super::problem::{ApiError, Kind};

/// Default number of items on a page.
pub(crate) const LIMIT: u64 = 50;

/// Maximum number of items on a page.
pub(crate) const LIMIT_MAX: u64 = 1_000;

/// Checks the requested number of items.
pub(crate) fn limit(requested: Option<u64>) -> Result<u64, ApiError> {
    let limit = requested.unwrap_or(LIMIT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(Kind::Malformed.because(format!("limit must be between 1 and {LIMIT_MAX}, but is {limit}")))
}

/// Builds a page of at most `limit` items from a list that was read with one extra item.
pub(crate) fn page<T>(mut rows: Vec<T>, limit: u64) -> Page<T> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let has_more = limit < rows.len();
    rows.truncate(limit);
    Page { data: rows, has_more }
}

/// Builds a complete list with a single page.
pub(crate) fn whole<T>(data: Vec<T>) -> Page<T> {
    Page { data, has_more: false }
}

/// Converts a page to OpenAI's shape.
pub(crate) fn openai_list<T>(page: Page<T>, id: impl Fn(&T) -> String) -> OpenAiList<T> {
    let Page { data, has_more } = page;
    let (first_id, last_id) = (data.first().map(&id), data.last().map(&id));
    OpenAiList { object: "list".to_owned(), data, first_id, last_id, has_more }
}
