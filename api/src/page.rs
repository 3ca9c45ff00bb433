//! Lists come in pages.

use serde::Serialize;
use utoipa::ToSchema;

use crate::problem::{Kind, Problem};

/// How many items a page holds, where nobody says.
pub(crate) const LIMIT: u64 = 50;

/// How many items a page holds, at most.
pub(crate) const LIMIT_MAX: u64 = 1_000;

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T> {
    /// The items.
    pub(crate) data: Vec<T>,
    /// Whether there are more: ask again with `after` set to the last of these.
    pub(crate) has_more: bool,
}

/// How many items were asked for.
pub(crate) fn limit(asked: Option<u64>) -> Result<u64, Problem> {
    let limit = asked.unwrap_or(LIMIT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(Kind::Malformed.because(format!("limit is a number from 1 to {LIMIT_MAX}, and not {limit}")))
}

impl<T> Page<T> {
    /// A page of `limit` items, of a list that was read one item further.
    pub(crate) fn cut(mut data: Vec<T>, limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = limit < data.len();
        data.truncate(limit);
        Self { data, has_more }
    }

    /// The same page of something else.
    pub(crate) fn map<U>(self, what: impl FnMut(T) -> U) -> Page<U> {
        Page { data: self.data.into_iter().map(what).collect(), has_more: self.has_more }
    }
}
