//! The filter languages for lists: conditions on turns, as SQL, and predicates on the folded state of a thread.

pub(crate) mod conditions;
pub(crate) mod sql;
mod thread_predicate;

pub use conditions::{Conditions, FilterError};
pub use thread_predicate::Predicate;
