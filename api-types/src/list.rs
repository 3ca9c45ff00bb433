//! The two shapes of a list.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page<T> {
    /// The items of this page.
    pub data: Vec<T>,
    /// True if more items follow. To read them, repeat the request with `after` set to the id of the last item.
    pub has_more: bool,
}

impl<T> Page<T> {
    /// Converts every item.
    pub fn map<U>(self, convert: impl FnMut(T) -> U) -> Page<U> {
        Page { data: self.data.into_iter().map(convert).collect(), has_more: self.has_more }
    }
}

/// One page of a list, in OpenAI's shape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenAiList<T> {
    /// Type of the object, always `list`.
    pub object: String,
    /// The items of this page.
    pub data: Vec<T>,
    /// Id of the first item; null if the page is empty.
    pub first_id: Option<String>,
    /// Id of the last item; null if the page is empty. Pass it as `after` to read the next page.
    pub last_id: Option<String>,
    /// True if more items follow.
    pub has_more: bool,
}
