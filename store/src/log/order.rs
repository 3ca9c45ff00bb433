//! The order of a list by creation, and the pages of a list in it.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter as _, QueryOrder as _, QueryTrait as _, Select, Value};

/// Order of a list by the time at which its rows were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Latest first.
    #[default]
    NewestFirst,
    /// Earliest first.
    OldestFirst,
}

impl Order {
    /// Puts rows in this order, from the one that follows the value `after` on. A later row has a higher value in `column`.
    pub(crate) fn page<E: EntityTrait>(
        self,
        rows: Select<E>,
        column: impl ColumnTrait,
        after: Option<impl Into<Value>>,
    ) -> Select<E> {
        match self {
            Order::NewestFirst => {
                rows.apply_if(after, |rows, last| rows.filter(column.lt(last))).order_by_desc(column)
            }
            Order::OldestFirst => {
                rows.apply_if(after, |rows, last| rows.filter(column.gt(last))).order_by_asc(column)
            }
        }
    }
}
