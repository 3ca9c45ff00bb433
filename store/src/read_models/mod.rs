//! Read models: the rows of threads and turns, compared with the fold of the log and rebuilt from it.

pub(crate) mod differences;
pub(crate) mod rebuild;

pub use rebuild::{Difference, Differs, Rebuilt};
