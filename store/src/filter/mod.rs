//! The filter language for lists: conditions on turns, as SQL.

mod condition;
pub(crate) mod conditions;
mod indexed_sql;
mod more;
mod parse;
mod reader;
pub(crate) mod sql;

pub use conditions::Conditions;
pub use reader::{ConditionReader, ConditionText, FilterError};
